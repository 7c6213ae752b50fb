//! Compiles a port as an ordinary program: for the build script, and for tests, which compile broken ports as well.

use std::io;
use std::path::Path;
use std::process::{Command, ExitStatus};

/// The sources of the shim, in `bpf/shim`, without those of the ports.
const SHIM: [&str; 4] = ["core.c", "main.c", "maps.c", "queues.c"];

/// Compiles the port of this name from the folder `bpf`, with further `options`. The result is the program `to`, or one object
/// file if `options` has `-r`.
///
/// # Errors
/// There is no C compiler.
pub(crate) fn compile(bpf: &Path, port: &str, options: &[&str], to: &Path) -> io::Result<ExitStatus> {
    let shim = bpf.join("shim");
    let mut compile = Command::new(std::env::var_os("CC").unwrap_or_else(|| "cc".into()));
    // kernel.h has attributes of clang, and a port may have a function with the name of one of the C library.
    compile.args(["-std=gnu11", "-Wall", "-Werror", "-Wno-unknown-pragmas", "-fno-builtin", "-DCPUMASK_WORDS=16"]);
    compile.args(options).arg("-I").arg(&shim).arg(shim.join(format!("{port}.c")));
    compile.args(SHIM.iter().map(|source| shim.join(source))).arg("-o").arg(to).status()
}
