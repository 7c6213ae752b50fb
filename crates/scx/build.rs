//! Compiles the programs in BPF, with the feature `bpf`, and the ports as ordinary programs, with the feature `port`.

mod compile;

use std::env;
use std::path::PathBuf;
use std::process::Command;

/// Compilers to try, the first one that runs.
const COMPILERS: [&str; 5] = ["clang", "clang-21", "clang-20", "clang-19", "clang-18"];
/// Minimum version of clang: earlier versions lack instructions that the programs use.
const VERSION_LEAST: u32 = 17;

/// The ports; each has a program.
const PORTS: [&str; 2] = ["bmq", "edf"];

fn main() {
    println!("cargo:rerun-if-changed=bpf");
    println!("cargo:rerun-if-changed=compile.rs");
    println!("cargo:rerun-if-env-changed=BPF_CLANG");
    println!("cargo:rerun-if-env-changed=CC");
    if env::var_os("CARGO_FEATURE_PORT").is_some() {
        PORTS.iter().for_each(|port| link_port(port));
    }
    if env::var_os("CARGO_FEATURE_BPF").is_none() {
        return;
    }
    let (source, to) = (folder("CARGO_MANIFEST_DIR").join("bpf"), folder("OUT_DIR"));
    let compiler = compiler();
    for program in ["bmq", "bridge", "canary", "edf", "fifo"] {
        let mut compile = Command::new(&compiler);
        compile.args(["--target=bpf", "-mcpu=v3", "-g", "-O2", "-Wall", "-Werror"]);
        compile.arg("-I").arg(folder("DEP_BPF_INCLUDE"));
        compile.arg("-c").arg(source.join(format!("{program}.bpf.c")));
        compile.arg("-o").arg(to.join(format!("{program}.bpf.o")));
        let status = compile.status().unwrap_or_else(|error| panic!("{compile:?}: {error}"));
        assert!(status.success(), "{compile:?} failed");
    }
}

/// Returns the folder in this variable of cargo.
fn folder(name: &str) -> PathBuf {
    PathBuf::from(env::var_os(name).unwrap_or_else(|| panic!("cargo sets {name}")))
}

/// Compiles a port to one object file, and links its program with it.
fn link_port(port: &str) {
    let object = folder("OUT_DIR").join(format!("port-{port}.o"));
    let bpf = folder("CARGO_MANIFEST_DIR").join("bpf");
    let status = compile::compile(&bpf, port, &["-O2", "-r", "-nostdlib"], &object);
    let status = status.unwrap_or_else(|error| {
        panic!("the feature `port` needs a C compiler ({error}): install one, or set CC to its path")
    });
    assert!(status.success(), "the port {port} does not compile");
    println!("cargo:rustc-link-arg-bin=tactus-port-{port}={}", object.display());
}

fn compiler() -> String {
    if let Ok(compiler) = env::var("BPF_CLANG") {
        return compiler;
    }
    let is_good = |name: &&&str| version(name).is_some_and(|version| version >= VERSION_LEAST);
    let found = COMPILERS.iter().find(is_good);
    let found = found.unwrap_or_else(|| {
        panic!("the feature `bpf` needs clang {VERSION_LEAST} or later: install it, or set BPF_CLANG to its path")
    });
    (*found).to_string()
}

fn version(compiler: &str) -> Option<u32> {
    let output = Command::new(compiler).arg("-dumpversion").output().ok()?;
    String::from_utf8(output.stdout).ok()?.split('.').next()?.trim().parse().ok()
}
