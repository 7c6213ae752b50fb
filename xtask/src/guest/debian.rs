//! The disk of a Debian guest: systemd, libvirt with its machines as scopes, QEMU, and one job.
//!
//! The disk with Debian is made once in `target/guest`. Each guest has a copy of the disk with a file of its own, the
//! archive `/job.tar`. A unit of the guest unpacks the archive, runs its script `job`, and powers the machine off.

use crate::deb;
use crate::program::Program;
use crate::root::{root, typed};
use crate::{component, mirror};
use anyhow::{Context, Result, bail, ensure};
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Suite of Debian.
const SUITE: &str = "trixie";
/// Packages beside the essential ones.
const PACKAGES: &str = "systemd,systemd-sysv,dbus,udev,libvirt-daemon-system,libvirt-clients,qemu-system-x86,\
    iproute2,procps,sudo,curl,ca-certificates";
/// Size of the file system. Only its used part needs space.
const SIZE: &str = "1500M";
/// The programs and units of the guest that run its job.
const FILES: [(&str, &str); 3] = [
    ("usr/local/sbin/guest-job", include_str!("debian/guest-job")),
    ("etc/systemd/system/guest-job.service", include_str!("debian/guest-job.service")),
    ("etc/systemd/system/guest-job.target", include_str!("debian/guest-job.target")),
];
/// The units' target, which the kernel's command line selects.
pub(super) const TARGET: &str = "guest-job.target";

/// Makes the disk with Debian, if it does not exist. Returns its path.
///
/// # Errors
/// The reason why there is no disk, and a remedy.
pub(super) fn disk() -> Result<PathBuf, String> {
    component::mmdebstrap()?;
    component::e2fsprogs()?;
    let mirror = mirror::of_debian().ok_or("this machine's apt knows no mirror of Debian; add one to its sources")?;
    let mut hasher = DefaultHasher::new();
    (SUITE, PACKAGES, SIZE, FILES).hash(&mut hasher);
    let disk = root().join(format!("target/guest/debian-{SUITE}-{:016x}", hasher.finish()));
    if disk.is_file() {
        return Ok(disk);
    }
    if !component::is_root() {
        return Err("a disk with Debian needs files of root; run as root".to_string());
    }
    println!("      making a disk with Debian {SUITE} in {}", disk.display());
    let folder = disk.with_extension(std::process::id().to_string());
    let made = make(&folder, &mirror).and_then(|image| Ok(fs::rename(image, &disk)?));
    let _ = fs::remove_dir_all(&folder);
    made.map(|()| disk).map_err(|error| format!("cannot make a disk with Debian {SUITE}: {error:#}"))
}

/// Makes the disk in `folder`. Returns its path.
fn make(folder: &Path, mirror: &str) -> Result<PathBuf> {
    let tree = folder.join("tree");
    fs::create_dir_all(&tree)?;
    let mut debian = Command::new("mmdebstrap");
    debian.args(["--mode=root", "--variant=minbase", "--include", PACKAGES, SUITE]).arg(&tree);
    quietly(debian.arg(format!("deb {mirror} {SUITE} main")))?;
    for (path, text) in FILES {
        fs::write(tree.join(path), text)?;
    }
    // mmdebstrap copies the name and the name servers of this machine.
    fs::write(tree.join("etc/hostname"), "debian\n")?;
    fs::remove_file(tree.join("etc/resolv.conf")).or_else(absent)?;
    let image = folder.join("disk");
    // A journal is of no use: a disk that was not unmounted is thrown away.
    let mut mke2fs = Command::new("mke2fs");
    mke2fs.args(["-q", "-t", "ext4", "-O", "^has_journal", "-d"]).arg(&tree).arg(&image).arg(SIZE);
    quietly(&mut mke2fs)?;
    Ok(image)
}

fn absent(error: std::io::Error) -> std::io::Result<()> {
    if error.kind() == std::io::ErrorKind::NotFound { Ok(()) } else { Err(error) }
}

/// Makes `folder/disk`: Debian with these programs, the package of Tactus, the operator's page, and the command line `words`
/// of the job.
pub(super) fn prepare(programs: &[Program], words: &[String], folder: &Path) -> Result<()> {
    let parts = folder.join("job");
    fs::create_dir_all(&parts)?;
    for program in programs {
        fs::copy(program.build()?, parts.join(program.name))?;
    }
    fs::copy(root().join("docs/operate.md"), parts.join("operate.md"))?;
    fs::create_dir(parts.join("scenarios"))?;
    fs::copy(root().join("scenarios/three-vms.toml"), parts.join("scenarios/three-vms.toml"))?;
    deb::for_guest(&parts.join("target/debian"))?;
    fs::write(parts.join("job"), format!("exec {}\n", words.join(" ")))?;
    let archive = folder.join("job.tar");
    quietly(Command::new("tar").args(["--create", "--file"]).arg(&archive).arg("--directory").arg(&parts).arg("."))?;
    let debian = disk().map_err(anyhow::Error::msg)?;
    quietly(Command::new("cp").arg("--sparse=always").arg(debian).arg(folder.join("disk")))?;
    // debugfs reports no failure by its exit code.
    let mut debugfs = Command::new("debugfs");
    let output = debugfs.args(["-w", "-R", "write job.tar job.tar"]).arg("disk").current_dir(folder).output()?;
    let said = String::from_utf8_lossy(&output.stdout);
    ensure!(said.contains("Allocated inode"), "{} failed: {said}", typed(&debugfs));
    Ok(fs::remove_file(archive)?)
}

/// Runs a command, and shows its output only if it fails.
fn quietly(command: &mut Command) -> Result<()> {
    let output = command.stdin(Stdio::null()).output().with_context(|| format!("cannot run {}", typed(command)))?;
    if !output.status.success() {
        bail!("{} failed:\n{}", typed(command), String::from_utf8_lossy(&output.stderr));
    }
    Ok(())
}
