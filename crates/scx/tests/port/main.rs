//! The ports under the machine: the C that the kernel runs, compiled as an ordinary program, keeps the laws and decides as its
//! Rust policy does. Broken ports are caught.
//!
//! The tests compile the ports, which needs a C compiler. Without one, they print `SKIPPED`.

mod bmq;
#[path = "../../compile.rs"]
mod compile;
mod decisions;
mod gangs;
mod host;
mod laws;
mod program;
mod replays;
mod rivals;
mod side;
