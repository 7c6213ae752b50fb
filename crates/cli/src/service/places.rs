//! The default sockets and directories of the service.

use crate::failure::{Failure, refused};
use daemon::Explanation;
use std::path::{Path, PathBuf};
use sys::privileges;

/// Name of the socket of a service.
const SOCKET: &str = "tactus.sock";
/// Directory of the volatile files of root.
const VOLATILE: &str = "/run";

/// Returns the socket of a service for its clients: `path`; by default that of a service of this user, or else that of root.
pub(super) fn socket_of_client(path: Option<&Path>) -> PathBuf {
    let own = || volatile().ok().map(|directory| directory.join(SOCKET)).filter(|socket| socket.exists());
    path.map(Path::to_path_buf).or_else(own).unwrap_or_else(|| Path::new(VOLATILE).join(SOCKET))
}

/// Returns the socket at which a service listens: `path`, or the default of this user.
pub(super) fn socket(path: Option<&Path>) -> Result<PathBuf, Failure> {
    path.map_or_else(|| Ok(volatile()?.join(SOCKET)), |path| Ok(path.to_path_buf()))
}

/// Returns the directory of the desired states: `path`, or the default of this user.
pub(super) fn state(path: Option<&Path>) -> Result<PathBuf, Failure> {
    if let Some(path) = path {
        return Ok(path.to_path_buf());
    }
    if privileges::user() == 0 {
        return Ok(PathBuf::from("/var/lib/tactus"));
    }
    let own = absolute("XDG_STATE_HOME").or_else(|| absolute("HOME").map(|home| home.join(".local/state")));
    let missing = || Explanation::new("there is no directory for the desired states", "use --state, or set HOME");
    Ok(own.ok_or_else(|| refused(&missing()))?.join("tactus"))
}

/// Returns the directory of the certificates of a service: `path`, or the default.
pub(super) fn certs_of_service(path: Option<&Path>) -> PathBuf {
    path.unwrap_or(Path::new("/etc/tactus/certs")).to_path_buf()
}

/// Returns the directory of the certificates of a client: `path`, or the default of this user.
pub(super) fn certs_of_client(path: Option<&Path>) -> Result<PathBuf, Failure> {
    let own = || absolute("XDG_CONFIG_HOME").or_else(|| absolute("HOME").map(|home| home.join(".config")));
    let missing = || Explanation::new("there is no directory for certificates", "use --certs, or set HOME");
    let usual = || own().map(|directory| directory.join("tactus/certs"));
    path.map(Path::to_path_buf).or_else(usual).ok_or_else(|| refused(&missing()))
}

/// Returns the directory of the label files: `path`, or the default of this user.
pub(super) fn labels(path: Option<&Path>) -> PathBuf {
    let own = || absolute("XDG_CONFIG_HOME").or_else(|| absolute("HOME").map(|home| home.join(".config")));
    let default = || own().filter(|_| privileges::user() != 0).unwrap_or_else(|| PathBuf::from("/etc"));
    path.map_or_else(|| default().join("tactus/vms.d"), Path::to_path_buf)
}

/// Returns the directory of libvirt's status files: `path`, or the default of the libvirt of this user.
pub(super) fn libvirt(path: Option<&Path>) -> PathBuf {
    // The directories of qemu:///system and of qemu:///session. A system user has no session.
    let of_session = || absolute("XDG_RUNTIME_DIR").filter(|_| privileges::user() != 0);
    let default = || of_session().map_or_else(|| PathBuf::from("/run/libvirt/qemu"), |it| it.join("libvirt/qemu/run"));
    path.map_or_else(default, Path::to_path_buf)
}

/// Returns the directory of volatile files of this user.
fn volatile() -> Result<PathBuf, Failure> {
    if privileges::user() == 0 {
        return Ok(PathBuf::from(VOLATILE));
    }
    let missing = || {
        let why = "there is no directory for the socket of the service";
        Explanation::new(why, "use --socket, or a user session with XDG_RUNTIME_DIR")
    };
    absolute("XDG_RUNTIME_DIR").ok_or_else(|| refused(&missing()))
}

fn absolute(variable: &str) -> Option<PathBuf> {
    std::env::var_os(variable).map(PathBuf::from).filter(|path| path.is_absolute())
}
