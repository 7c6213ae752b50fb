//! Comparisons of policies with oracles, kernels and recorded runs. All tests are in `tests`. This crate includes the
//! guide `docs/write-a-policy.md`, so that the code in the guide is compiled and run as a doctest.

#[cfg(doctest)]
#[doc = include_str!("../../../docs/write-a-policy.md")]
struct WriteAPolicy;
