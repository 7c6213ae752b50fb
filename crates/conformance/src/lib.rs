//! Comparisons of policies with oracles, kernels and recorded runs, all in `tests`. This crate includes the guides of
//! `docs/`, so that their code is compiled and run with the tests.

#[cfg(doctest)]
#[doc = include_str!("../../../docs/write-a-policy.md")]
struct WriteAPolicy;
