//! The guides of `docs/`, here so that their code is compiled and run with the tests.

#[doc = include_str!("../../../docs/write-a-policy.md")]
struct WriteAPolicy;
