//! The mirror of Debian that the apt of this machine uses.

use std::process::Command;

/// Returns the address of the mirror; `None` if apt is missing or has no mirror of Debian.
pub(crate) fn of_debian() -> Option<String> {
    let mut apt = Command::new("apt-get");
    apt.args(["indextargets", "--format", "$(REPO_URI)", "Created-By: Packages"]);
    first(&String::from_utf8_lossy(&apt.output().ok()?.stdout))
}

/// Returns the first mirror of Debian among addresses of package repositories, one on each line.
fn first(addresses: &str) -> Option<String> {
    addresses.lines().find(|line| line.trim_end_matches('/').ends_with("/debian")).map(str::to_string)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mirror_of_debian_is_found_among_other_repositories() {
        let addresses = "https://a.example/node\nhttp://b.example/debian-security/\nhttp://c.example/debian/\n";
        assert_eq!(first(addresses).as_deref(), Some("http://c.example/debian/"));
        assert_eq!(first("http://b.example/debian-security/\n"), None);
    }
}
