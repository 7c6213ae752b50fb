//! `cargo xtask guest-image`: the virtual machine of live experiments with guests.

use super::archive::Archive;
use super::kernel::{self, Kernel};
use crate::root::root;
use crate::{component, program};
use anyhow::{Result, anyhow};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::ExitCode;

/// Duration of the measurement in the guest in seconds, and the rounds of the loop of each part: some 0.2 ms under
/// software emulation.
const JOB: [&str; 3] = ["/bin/fork-join", "5", "20000"];

/// A script that boots the machine, and writes the output of its job to standard output. Each vCPU is a thread with the
/// name that QEMU gives it for debuggers.
const SCRIPT: &str = "#!/bin/sh
# Made by `cargo xtask guest-image`.
cd \"$(dirname \"$0\")\" || exit 1
exec qemu-system-x86_64 -name fork-join,debug-threads=on -machine q35 -smp 2 -m 256 -nodefaults -no-user-config \\
  -display none -nic none -no-reboot -cpu max -accel tcg,thread=multi -kernel kernel -initrd archive \\
  -append 'console=ttyS0 quiet panic=-1 oops=panic rdinit=/init' -serial file:console \\
  -chardev file,id=output,path=/dev/stdout -chardev file,id=status,path=status -device virtio-serial-pci \\
  -device virtserialport,chardev=output,name=output -device virtserialport,chardev=status,name=status
";

/// Makes the machine in `target/guest/fork-join`, and prints the path of the script that starts it.
pub(crate) fn run() -> Result<ExitCode> {
    let kernel = component::qemu().and_then(|()| Kernel::get(kernel::SUITE)).map_err(|reason| anyhow!(reason))?;
    let folder = root().join("target/guest/fork-join");
    fs::create_dir_all(&folder)?;
    let mut archive = Archive::begin(&folder)?;
    archive.program(&program::INIT.build()?, "/init")?;
    archive.program(&program::FORK_JOIN.build()?, JOB[0])?;
    archive.file("/job", 0o644, JOB.join("\n").as_bytes())?;
    archive.end()?;
    fs::copy(&kernel.image, folder.join("kernel"))?;
    let script = folder.join("start");
    fs::write(&script, SCRIPT)?;
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755))?;
    println!("{}", script.display());
    Ok(ExitCode::SUCCESS)
}
