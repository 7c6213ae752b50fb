//! The rules of the essay, each on the simulated host.
