//! A kernel to boot: a Debian kernel, downloaded by apt and unpacked in `target/guest`. The kernel is not installed,
//! and the download needs no privilege.

use crate::component::works;
use crate::mirror;
use crate::root::{root, typed};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Suite of the default kernel: the newest suite.
pub(crate) const SUITE: &str = "sid";
/// Flavour for virtual machines. The drivers for QEMU are built in, so no module has to be loaded for them.
const FLAVOUR: &str = "cloud-amd64";
/// Modules of a hypervisor for AMD processors, which QEMU emulates, in the order of their dependencies.
const HYPERVISOR: [&str; 3] = ["irqbypass", "kvm", "kvm-amd"];

/// A bootable kernel.
#[derive(Clone, Debug)]
pub(crate) struct Kernel {
    /// Compressed image.
    pub(crate) image: PathBuf,
    /// Configuration of the kernel; `None` if unknown.
    pub(crate) configuration: Option<PathBuf>,
    /// Release of the kernel, as printed by `uname -r`.
    pub(crate) release: String,
    /// Whether the kernel is known to have virtio ports without loading a module.
    pub(crate) has_virtio: bool,
    /// Modules that make the kernel a hypervisor, in the order in which they are loaded; empty if unknown.
    pub(crate) hypervisor: Vec<PathBuf>,
}

impl Kernel {
    /// Returns the kernel of the Debian suite `wanted`; if `wanted` is a path, the kernel in this file. The first call
    /// for a suite downloads the newest kernel of the suite. Later calls return the downloaded kernel.
    ///
    /// # Errors
    /// The reason why no kernel is available, and a remedy.
    pub(crate) fn get(wanted: &str) -> Result<Kernel, String> {
        if wanted.contains('/') {
            return Kernel::in_files(Path::new(wanted), None);
        }
        if wanted.is_empty() || !wanted.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-') {
            return Err(format!("`{wanted}` is no suite of Debian; use {SUITE}, bookworm, or a path"));
        }
        let folder = root().join("target/guest").join(format!("kernel-{wanted}"));
        let image = folder.join("vmlinuz");
        if !image.is_file() {
            fetch(wanted, &folder)?;
        }
        Kernel::in_files(&image, Some(&folder.join("config")))
    }

    fn in_files(image: &Path, configuration: Option<&Path>) -> Result<Kernel, String> {
        let bytes = fs::read(image).map_err(|error| format!("cannot read {}: {error}", image.display()))?;
        let release = release(&bytes)
            .ok_or_else(|| format!("{} is no kernel for x86-64; use a file such as /boot/vmlinuz", image.display()))?;
        let configuration = configuration.filter(|path| path.is_file()).map(Path::to_path_buf);
        let options = configuration.as_ref().and_then(|path| fs::read_to_string(path).ok()).unwrap_or_default();
        let hypervisor = configuration.as_deref().and_then(Path::parent).map(modules).unwrap_or_default();
        let has_virtio = has_virtio(&options);
        Ok(Kernel { image: image.to_path_buf(), configuration, release, has_virtio, hypervisor })
    }
}

/// Returns the release in the header of an image. Source: Documentation/arch/x86/boot.rst, `header` and
/// `kernel_version`.
fn release(image: &[u8]) -> Option<String> {
    let place = image.get(0x202..0x206).filter(|magic| magic == b"HdrS");
    place?;
    let at = usize::from(u16::from_le_bytes(image.get(0x20e..0x210)?.try_into().ok()?)) + 0x200;
    let text = image.get(at..)?.split(|&byte| byte == 0).next()?;
    let release = std::str::from_utf8(text).ok()?.split(' ').next()?;
    (!release.is_empty()).then(|| release.to_string())
}

/// Returns whether a kernel with these options has virtio ports without loading a module.
fn has_virtio(options: &str) -> bool {
    let is_built_in = |name: &str| options.lines().any(|line| line.strip_prefix(name) == Some("=y"));
    is_built_in("CONFIG_VIRTIO_PCI") && is_built_in("CONFIG_VIRTIO_CONSOLE")
}

/// Returns the modules of the hypervisor in `folder`; none if one is missing.
fn modules(folder: &Path) -> Vec<PathBuf> {
    let files = files_below(folder, 1);
    let found = HYPERVISOR.map(|module| files.iter().find(|path| is_module(path, module)).cloned());
    found.into_iter().collect::<Option<Vec<PathBuf>>>().unwrap_or_default()
}

/// Returns whether a file is the module `module`, compressed or not.
fn is_module(path: &Path, module: &str) -> bool {
    name(path).strip_prefix(module).is_some_and(|rest| rest == ".ko" || rest.starts_with(".ko."))
}

/// Downloads the newest kernel of `suite`. Afterwards, `folder` is complete or does not exist.
fn fetch(suite: &str, folder: &Path) -> Result<(), String> {
    for tool in ["apt-get", "apt-cache", "dpkg-deb"] {
        if !works(Command::new(tool).arg("--version")) {
            return Err(format!(
                "there is no {tool} to fetch a Debian kernel with; use a kernel of your own: \
                 cargo xtask vm-test --kernel /path/to/vmlinuz"
            ));
        }
    }
    println!("      fetching Debian's newest kernel of {suite} into {}", folder.display());
    let part = folder.with_extension(format!("part-{}", std::process::id()));
    let done = Apt::begin(&part, suite).and_then(|apt| apt.kernel()).and_then(|found| {
        let file = |name: &str| part.join("unpacked").join(name);
        let mut moves = vec![(&found.image, file("vmlinuz"))];
        moves.extend(found.configuration.iter().map(|configuration| (configuration, file("config"))));
        moves.extend(found.hypervisor.iter().map(|module| (module, file(&name(module)))));
        let moved = moves.iter().try_for_each(|(from, to)| fs::rename(from, to));
        let kept = moved.and_then(|()| keep(&part.join("unpacked"), folder));
        kept.map_err(|error| format!("cannot keep the kernel in {}: {error}", folder.display()))
    });
    // The packages are large and no longer needed.
    let _ = fs::remove_dir_all(&part);
    done
}

/// Moves the files of a kernel into `folder` and discards all folders of its packages.
fn keep(unpacked: &Path, folder: &Path) -> std::io::Result<()> {
    for entry in fs::read_dir(unpacked)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            fs::remove_dir_all(entry.path())?;
        }
    }
    match fs::rename(unpacked, folder) {
        // Another process has downloaded the kernel in the meantime.
        Err(_) if folder.join("vmlinuz").is_file() => Ok(()),
        other => other,
    }
}

/// Unpacked files of a kernel.
struct Unpacked {
    image: PathBuf,
    configuration: Option<PathBuf>,
    hypervisor: Vec<PathBuf>,
}

/// An apt configuration with one suite and its own lists, separate from the machine's configuration.
struct Apt {
    folder: PathBuf,
    options: Vec<String>,
}

impl Apt {
    fn begin(folder: &Path, suite: &str) -> Result<Apt, String> {
        let keys = "/usr/share/keyrings";
        let names = ["debian-archive-keyring.gpg", "debian-archive-keyring.pgp"];
        let key = names.iter().map(|name| Path::new(keys).join(name)).find(|path| path.is_file()).ok_or(
            "Debian's keys are missing, by which its packages are known to be its own; use \
             apt-get install debian-archive-keyring",
        )?;
        let source = format!("deb [signed-by={}] {} {suite} main\n", key.display(), mirror()?);
        let sources = folder.join("sources.list");
        let folders = ["lists/partial", "cache/archives/partial", "unpacked"];
        let made = folders.iter().try_for_each(|name| fs::create_dir_all(folder.join(name)));
        let made = made.and_then(|()| fs::write(&sources, source));
        made.map_err(|error| format!("cannot write in {}: {error}", folder.display()))?;
        let option = |name: &str, value: &Path| ["-o".to_string(), format!("{name}={}", value.display())];
        let options = [
            option("Dir::Etc::sourcelist", &sources),
            option("Dir::Etc::sourceparts", Path::new("/dev/null")),
            option("Dir::State::lists", &folder.join("lists")),
            option("Dir::Cache", &folder.join("cache")),
            // Disable apt's download sandbox, whose unprivileged user may lack permission to write to this folder.
            option("APT::Sandbox::User", Path::new("root")),
            option("Acquire::Languages", Path::new("none")),
        ];
        Ok(Apt { folder: folder.to_path_buf(), options: options.concat() })
    }

    /// Runs an apt program, and returns its output.
    fn ask(&self, program: &str, arguments: &[&str]) -> Result<String, String> {
        let mut command = Command::new(program);
        command.args(arguments).current_dir(&self.folder).env("LC_ALL", "C");
        let shown = typed(&command);
        if program != "dpkg-deb" {
            command.args(&self.options);
        }
        let output = command.output().map_err(|error| format!("cannot run {program}: {error}"))?;
        if output.status.success() {
            return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
        }
        let text = String::from_utf8_lossy(&output.stderr);
        let errors: Vec<&str> = text.lines().filter(|line| line.starts_with("E: ")).collect();
        Err(format!("{shown} failed: {} (no network, or no such suite?)", errors.join("; ")))
    }

    fn kernel(&self) -> Result<Unpacked, String> {
        self.ask("apt-get", &["update"])?;
        let whole = format!("linux-image-{FLAVOUR}");
        let images = linux_packages(&self.ask("apt-cache", &["depends", &whole])?);
        let image = images
            .iter()
            .find(|name| name.starts_with("linux-image-"))
            .ok_or_else(|| format!("{whole} names no kernel"))?;
        // Newer kernels are split into packages: one for the image, one for the configuration, one for the modules.
        let parts = linux_packages(&self.ask("apt-cache", &["depends", image])?);
        let wanted =
            |name: &&String| ["linux-binary-", "linux-base-", "linux-modules-"].iter().any(|it| name.starts_with(it));
        let mut packages: Vec<&str> = parts.iter().filter(wanted).map(String::as_str).collect();
        if packages.is_empty() {
            packages.push(image);
        }
        self.ask("apt-get", &[&["download"], packages.as_slice()].concat())?;
        for package in files_below(&self.folder, 1).iter().filter(|path| path.extension().is_some_and(|x| x == "deb")) {
            self.ask("dpkg-deb", &["--extract", &package.to_string_lossy(), "unpacked"])?;
        }
        let files = files_below(&self.folder.join("unpacked"), usize::MAX);
        let called = |start: &str| files.iter().find(|path| name(path).starts_with(start)).cloned();
        let image = called("vmlinuz").ok_or_else(|| format!("{} hold no vmlinuz", packages.join(" and ")))?;
        let hypervisor =
            HYPERVISOR.iter().filter_map(|module| files.iter().find(|path| is_module(path, module)).cloned());
        Ok(Unpacked { image, configuration: called("config"), hypervisor: hypervisor.collect() })
    }
}

/// Returns the Debian mirror that this machine's apt uses.
///
/// # Errors
/// apt has no mirror of Debian.
fn mirror() -> Result<String, String> {
    mirror::of_debian().ok_or_else(|| {
        "this machine's apt knows no mirror of Debian; use one among its sources, or a kernel of your own: \
         cargo xtask vm-test --kernel /path/to/vmlinuz"
            .to_string()
    })
}

/// Returns the packages of a kernel among the packages that `apt-cache depends` lists.
fn linux_packages(depends: &str) -> Vec<String> {
    let names = depends.lines().filter_map(|line| line.trim().strip_prefix("Depends: "));
    // `linux-base` without a version is a package of scripts.
    names.filter(|name| name.starts_with("linux-") && name.contains(char::is_numeric)).map(str::to_string).collect()
}

fn name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// Returns the files in `folder` and its subfolders, down to the given depth.
fn files_below(folder: &Path, depth: usize) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        match entry.file_type() {
            Ok(kind) if kind.is_dir() && depth > 1 => found.extend(files_below(&entry.path(), depth - 1)),
            Ok(kind) if kind.is_file() => found.push(entry.path()),
            _ => {}
        }
    }
    found.sort();
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_release_of_an_image_is_read_and_other_files_are_refused() {
        let mut image = vec![0; 0x400];
        image[0x202..0x206].copy_from_slice(b"HdrS");
        image[0x20e..0x210].copy_from_slice(&0x100u16.to_le_bytes());
        image[0x300..0x310].copy_from_slice(b"7.2.1-x (me) #1\0");
        assert_eq!(release(&image).as_deref(), Some("7.2.1-x"));
        image[0x202] = b'?';
        assert_eq!(release(&image), None);
        assert_eq!(release(b"short"), None);
        let refused = Kernel::get("./Cargo.toml").unwrap_err();
        assert!(refused.contains("Cargo.toml"), "{refused}");
        assert!(Kernel::get("no such suite").unwrap_err().contains("is no suite of Debian"));
    }

    #[test]
    fn virtio_in_modules_is_none() {
        assert!(has_virtio("CONFIG_VIRTIO_PCI=y\nCONFIG_VIRTIO_PCI_LEGACY=y\nCONFIG_VIRTIO_CONSOLE=y\n"));
        assert!(!has_virtio("CONFIG_VIRTIO_PCI=y\nCONFIG_VIRTIO_CONSOLE=m\n") && !has_virtio(""));
    }

    #[test]
    fn the_packages_of_a_kernel_are_found_in_both_forms() {
        let new =
            "linux-image-7.2\n  Depends: linux-base-7.2\n  Depends: linux-binary-7.2\n  Suggests: linux-doc-7.2\n";
        assert_eq!(linux_packages(new), ["linux-base-7.2", "linux-binary-7.2"]);
        let old = "linux-image-6.1.0-1\n  Depends: kmod\n  Depends: linux-base\n";
        assert!(linux_packages(old).is_empty());
    }
}
