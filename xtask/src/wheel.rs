//! `cargo xtask wheel`: builds the Python package for x86-64 and ARM64, and checks the wheels.

use crate::component::{self, works};
use crate::environment::Environment;
use crate::python::PACKAGE;
use crate::root::{cargo, done, root, typed};
use anyhow::{Result, bail, ensure};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

/// Environment with the programs that build and check the wheels.
const TOOLS: Environment = Environment {
    folder: "target/wheel-venv",
    packages: &["maturin==1.16.0", "ziglang==0.17.1", "abi3audit==0.0.26"],
    check: "import maturin, ziglang, abi3audit",
};
/// Maximum size of a wheel.
const BYTES_MAX: u64 = 8 << 20;
/// The oldest C library on which the wheels run: glibc 2.28, of 2018.
const PLATFORM: &str = "manylinux_2_28";
/// The targets of the wheels.
const TARGETS: [&str; 2] = ["x86_64-unknown-linux-gnu", "aarch64-unknown-linux-gnu"];
/// A run in the installed package. It prints the version, the architecture and the CPU time of a task.
const TRIAL: &str = "\
import platform, tactus_sched as ts
task = {'name': 'hog', 'workload': 'hog'}
it = ts.Scenario.from_dict({'name': 'x', 'cpus': 1, 'length': '1s', 'task': [task]})
got = ts.run(it, 'edf', trace=True).report['total']['delivered_ns']
print(ts.__version__, platform.machine(), got)
assert got == 10**9";

/// Builds and checks the wheels.
pub(crate) fn run() -> Result<ExitCode> {
    let python = TOOLS.python().map_err(anyhow::Error::msg)?;
    let folder = root().join("target/wheels");
    let _ = std::fs::remove_dir_all(&folder);
    for target in TARGETS {
        component::target(target).map_err(anyhow::Error::msg)?;
        build(&python, target, &folder)?;
    }
    let mut wheels: Vec<PathBuf> = std::fs::read_dir(&folder)?.map(|entry| Ok(entry?.path())).collect::<Result<_>>()?;
    wheels.sort();
    ensure!(wheels.len() == TARGETS.len(), "{} has {} wheels", folder.display(), wheels.len());
    for wheel in &wheels {
        let bytes = std::fs::metadata(wheel)?.len();
        let name = wheel.file_name().unwrap_or_default().to_string_lossy().into_owned();
        println!("{name}: {:.2} MiB", mib(bytes));
        ensure!(bytes < BYTES_MAX, "{name} is larger than 8 MiB");
        done(Command::new(python.with_file_name("abi3audit")).args(["--strict", "--verbose"]).arg(wheel))?;
    }
    for wheel in &wheels {
        match wheel.to_string_lossy().contains("aarch64") {
            true => try_on_arm64(&python, wheel)?,
            false => try_here(wheel)?,
        }
    }
    Ok(ExitCode::SUCCESS)
}

#[expect(clippy::cast_precision_loss, reason = "a wheel is far smaller than 2^53 bytes")]
fn mib(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}

fn build(python: &Path, target: &str, folder: &Path) -> Result<()> {
    let mut maturin = Command::new(python.with_file_name("maturin"));
    maturin.args(["build", "--release", "--zig", "--compatibility", PLATFORM, "--target", target, "--manifest-path"]);
    maturin.arg(format!("{PACKAGE}/Cargo.toml")).arg("--out").arg(folder).current_dir(root());
    maturin.env("CARGO", cargo(&[]).get_program());
    // maturin finds Zig as the module `ziglang` of the Python in the path.
    let path = std::env::var_os("PATH").unwrap_or_default();
    let directories = python.parent().map(Path::to_path_buf).into_iter().chain(std::env::split_paths(&path));
    maturin.env("PATH", std::env::join_paths(directories)?);
    done(&mut maturin)
}

/// Installs `wheel` in an empty environment and runs a scenario.
fn try_here(wheel: &Path) -> Result<()> {
    let folder = root().join("target/wheel-trial");
    let python = folder.join("bin/python");
    done(Command::new("python3").args(["-m", "venv", "--clear"]).arg(&folder))?;
    done(Command::new(&python).args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]).arg(wheel))?;
    done(Command::new(&python).args(["-c", TRIAL]).current_dir(&folder))
}

/// Packages of Debian for ARM64 that together are a Python.
const ARM64_PACKAGES: [&str; 9] = [
    "libc6",
    "libexpat1",
    "libgcc-s1",
    "libpython3.11-minimal",
    "libpython3.11-stdlib",
    "libssl3",
    "python3.11-minimal",
    "zlib1g",
    "libffi8",
];

/// Imports `wheel` in a Python for ARM64, under emulation by qemu-user, and runs a scenario.
fn try_on_arm64(python: &Path, wheel: &Path) -> Result<()> {
    component::qemu_user().map_err(anyhow::Error::msg)?;
    let folder = root().join("target/wheel-arm64");
    let system = folder.join("root");
    if !system.join("usr/bin/python3.11").exists() {
        arm64_python(&folder, &system)?;
    }
    let site = folder.join("site");
    let _ = std::fs::remove_dir_all(&site);
    let mut install = Command::new(python.with_file_name("uv"));
    install.args(["pip", "install", "--quiet", "--python-platform", "aarch64-manylinux_2_28", "--python-version"]);
    install.args(["3.11", "--only-binary", ":all:", "--target"]).arg(&site).arg(wheel);
    done(&mut install)?;
    let mut trial = Command::new("qemu-aarch64-static");
    trial.arg("-L").arg(&system).arg(system.join("usr/bin/python3.11")).args(["-c", TRIAL]);
    done(trial.env("PYTHONHOME", system.join("usr")).env("PYTHONPATH", &site))
}

/// Unpacks Debian's Python for ARM64 to `system`. The packages of this machine do not change: apt has its own state in
/// `folder`.
fn arm64_python(folder: &Path, system: &Path) -> Result<()> {
    let (lists, archives) = (folder.join("apt/lists/partial"), folder.join("apt/archives/partial"));
    for directory in [&lists, &archives, &system.to_path_buf()] {
        std::fs::create_dir_all(directory)?;
    }
    let status = folder.join("apt/status");
    std::fs::write(&status, "")?;
    let options = [
        "APT::Architecture=arm64".to_string(),
        "APT::Architectures=arm64".to_string(),
        format!("Dir::State={}", folder.join("apt").display()),
        format!("Dir::State::status={}", status.display()),
        format!("Dir::Cache={}", folder.join("apt").display()),
    ];
    let apt = |arguments: &[&str]| {
        let mut command = Command::new("apt-get");
        command.args(options.iter().flat_map(|option| ["-o", option])).args(arguments).current_dir(folder);
        command
    };
    if !works(&mut apt(&["update"])) {
        bail!("{} failed (no network?)", typed(&apt(&["update"])));
    }
    done(apt(&["download", "--quiet"]).args(ARM64_PACKAGES))?;
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        if path.extension().is_some_and(|ending| ending == "deb") {
            done(Command::new("dpkg-deb").arg("-x").arg(&path).arg(system))?;
        }
    }
    Ok(())
}
