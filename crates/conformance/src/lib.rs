//! What every policy must keep, and what each gives beside oracles, kernels and recorded runs: all of it lies in
//! `tests`. Here are the guides of `docs/`, so that their code is compiled and run with the tests.

#[cfg(doctest)]
#[doc = include_str!("../../../docs/write-a-policy.md")]
struct WriteAPolicy;
