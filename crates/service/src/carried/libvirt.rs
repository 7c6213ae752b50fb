//! [`StatusFiles`]: the running domains of libvirt, according to its status files.
//!
//! libvirt keeps a status file for each running domain, `NAME.xml`: with the pid of the process, and the domain with its
//! metadata. libvirt replaces the file at each change, so the service needs neither its library nor its monitor socket.

use super::label::Label;
use super::trusted_file::{self, entries};
use super::wanted::Latest;
use crate::complaint::complain;
use crate::inventory::Domain;
use api::Desired;
use daemon::Explanation;
use roxmltree::{Document, Node};
use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use sys::directory_watch::DirectoryWatch;

/// Ending of the names of status files.
const ENDING: &str = "xml";
/// Maximum length of a status file. Unit: bytes.
const LENGTH_MOST: u64 = 4 << 20;
/// Namespace and name of the element of Tactus in the metadata of a domain.
const ELEMENT: (&str, &str) = ("https://tactus/vm/1", "vm");

/// The status files of a directory.
#[derive(Debug)]
pub(super) struct StatusFiles {
    directory: PathBuf,
    /// `None`: the files are read once, at the start.
    watch: Option<DirectoryWatch>,
    is_read: bool,
    files: BTreeMap<PathBuf, StatusFile>,
    /// Files that cannot be used. Each reason is reported once.
    refused: BTreeMap<PathBuf, Refused>,
}

/// A file that cannot be used.
#[derive(Debug)]
struct Refused {
    stamp: Stamp,
    why: Explanation,
}

/// Inode, and time and nanoseconds of the last change. A file with the same stamp has the same content.
type Stamp = (u64, i64, i64);

/// A status file.
#[derive(Debug)]
struct StatusFile {
    stamp: Stamp,
    domain: Domain,
    latest: Latest,
}

impl StatusFiles {
    pub(super) fn new(directory: &Path) -> StatusFiles {
        let unwatched = |error: &sys::Error| complain(&format!("changes of domains are not noticed: {error}"));
        let watch = DirectoryWatch::new(directory).inspect_err(unwatched).ok();
        StatusFiles {
            directory: directory.to_path_buf(),
            watch,
            is_read: false,
            files: BTreeMap::new(),
            refused: BTreeMap::new(),
        }
    }

    /// Returns whether a file may have changed.
    pub(super) fn has_changed(&mut self) -> bool {
        self.watch.as_mut().map_or(!self.is_read, DirectoryWatch::has_changed)
    }

    /// Reads the files that have changed. Returns the domains that run.
    pub(super) fn read(&mut self) -> Vec<Domain> {
        self.is_read = true;
        if let Some(paths) = entries(&self.directory) {
            let (mut before, mut refused) = (std::mem::take(&mut self.files), std::mem::take(&mut self.refused));
            for path in paths.into_iter().filter(|path| path.extension().is_some_and(|it| it == ENDING)) {
                let Ok(found) = std::fs::metadata(&path) else { continue };
                let stamp = (found.ino(), found.mtime(), found.mtime_nsec());
                let (former, last) = (before.remove(&path), refused.remove(&path));
                let file = match (former, last) {
                    (Some(file), _) if file.stamp == stamp => Some(file),
                    (former, Some(last)) if last.stamp == stamp => {
                        self.refused.insert(path.clone(), last);
                        former
                    }
                    (former, last) => match changed(&path, stamp, former.as_ref()) {
                        Ok(file) => Some(file),
                        Err(why) => {
                            // libvirt writes the file again at each change of the domain.
                            if last.is_none_or(|last| last.why != why) {
                                complain(&format!("{} is not used: {why}", path.display()));
                            }
                            self.refused.insert(path.clone(), Refused { stamp, why });
                            former
                        }
                    },
                };
                self.files.extend(file.map(|file| (path, file)));
            }
        }
        self.files.values().map(|file| file.domain.clone()).collect()
    }

    /// Returns the desired state in the metadata of the domain with this pid and UUID; `None`: there is no such domain.
    pub(super) fn get(&self, pid: u32, uuid: &str) -> Option<&Latest> {
        let is_it = |domain: &Domain| domain.pid == pid && domain.uuid == uuid;
        self.files.values().find(|file| is_it(&file.domain)).map(|file| &file.latest)
    }
}

/// Reads the file at `path`, which was `former` before.
fn changed(path: &Path, stamp: Stamp, former: Option<&StatusFile>) -> Result<StatusFile, Explanation> {
    let (domain, desired) = trusted_file::read(path, LENGTH_MOST).and_then(|text| parse(&text))?;
    let former = former.filter(|former| former.domain == domain);
    let mut latest = former.map(|former| former.latest.clone()).unwrap_or_default();
    latest.note(desired);
    Ok(StatusFile { stamp, domain, latest })
}

/// Returns the domain in a status file, and the desired state in its metadata.
fn parse(text: &str) -> Result<(Domain, Result<Desired, Explanation>), Explanation> {
    let wrong = |what: &str| Explanation::new(format!("the file has no {what}"), "report this, with the file");
    let document = Document::parse(text)
        .map_err(|error| Explanation::new(format!("the file is not XML: {error}"), "report this, with the file"))?;
    let status = document.root_element();
    let child = |node: Node<'_, '_>, name: &str| node.children().find(|it| it.has_tag_name(name)).map(|it| it.id());
    let text_of = |node: Node<'_, '_>, name: &str| {
        let found = child(node, name).and_then(|id| document.get_node(id));
        found.and_then(|it| it.text()).map(|text| text.trim().to_string()).filter(|text| !text.is_empty())
    };
    let pid = status.attribute("pid").and_then(|pid| pid.parse().ok()).ok_or_else(|| wrong("pid"))?;
    let domain = child(status, "domain").and_then(|id| document.get_node(id)).ok_or_else(|| wrong("domain"))?;
    let name = text_of(domain, "name").ok_or_else(|| wrong("name"))?;
    let uuid = text_of(domain, "uuid").ok_or_else(|| wrong("UUID"))?;
    let metadata = child(domain, "metadata").and_then(|id| document.get_node(id));
    let desired = metadata
        .map_or_else(|| Ok(Desired::default()), desired)
        .map_err(|why| Explanation::new(format!("the metadata of domain {name}: {}", why.reason), why.remedy));
    Ok((Domain { pid, uuid, name }, desired))
}

/// Returns the desired state in the metadata of a domain.
fn desired(metadata: Node<'_, '_>) -> Result<Desired, Explanation> {
    let ours = metadata.children().filter(|it| it.tag_name().namespace() == Some(ELEMENT.0));
    let ours: Vec<Node<'_, '_>> = ours.collect();
    let [element] = ours[..] else {
        // libvirt allows one element for each namespace.
        return Ok(Desired::default());
    };
    if element.tag_name().name() != ELEMENT.1 {
        let reason = format!("there is no element `{}` in the namespace {}", element.tag_name().name(), ELEMENT.0);
        return Err(Explanation::new(reason, format!("use the element `{}`", ELEMENT.1)));
    }
    let label = Label::of_pairs(element.attributes().map(|attribute| (attribute.name(), attribute.value())))?;
    if label.user.is_some() || label.program.is_some() {
        let remedy = "remove `user` and `program`: libvirt knows the process of the domain";
        return Err(Explanation::new("`user` and `program` are for label files", remedy));
    }
    label.desired()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    /// Recorded with libvirt 9.0.0 and QEMU 7.2; paths shortened.
    const RECORDED: &str = include_str!("../../tests/libvirt/vm1.xml");
    const UUID: &str = "c7a5fdbd-edaf-9455-926a-d65c16db1809";

    #[test]
    fn a_status_file_of_libvirt_has_the_pid_the_names_and_the_promise_of_a_domain() {
        let (domain, desired) = parse(RECORDED).unwrap();
        assert_eq!(domain, Domain { pid: 14_497, uuid: UUID.to_string(), name: "vm1".to_string() });
        let desired = desired.unwrap();
        let promise = desired.promise.unwrap();
        assert_eq!((promise.slice_ns, promise.period_ns, promise.cpus), (2_000_000, 10_000_000, 2));
        assert_eq!(desired.weight, Some(200));
        // The element after `virsh metadata --set "<vm slice='3ms' period='10ms'/>"`, and none.
        let ours = RECORDED.lines().find(|line| line.contains("tactus:vm")).unwrap();
        let set = r#"<tactus:vm xmlns:tactus="https://tactus/vm/1" slice="3ms" period="10ms"/>"#;
        let after = |line: &str| parse(&RECORDED.replace(ours, line)).unwrap().1;
        assert_eq!(after(set).unwrap().promise.map(|it| it.slice_ns), Some(3_000_000));
        assert!(after("").unwrap().is_empty());
        for (line, words) in [
            (
                r#"<t:vm xmlns:t="https://tactus/vm/1" slice="3ms"/>"#,
                "domain vm1: a promise needs a slice and a period",
            ),
            (r#"<t:vm xmlns:t="https://tactus/vm/1" wieght="3"/>"#, "unknown field `wieght`"),
            (r#"<t:vm xmlns:t="https://tactus/vm/1" user="0"/>"#, "are for label files"),
            (r#"<t:mv xmlns:t="https://tactus/vm/1" weight="3"/>"#, "no element `mv`"),
        ] {
            let wrong = after(line).unwrap_err();
            assert!(wrong.reason.contains(words) && !wrong.remedy.is_empty(), "{line}: {wrong}");
        }
        for damaged in ["", "<domstatus/>", &RECORDED[..RECORDED.len() / 2], &RECORDED.replace("pid='14497'", "")] {
            assert!(parse(damaged).is_err());
        }
    }

    #[test]
    fn domains_are_read_as_they_change_and_a_wrong_change_keeps_the_promise() {
        let place = tempfile::tempdir().unwrap();
        let mut files = StatusFiles::new(place.path());
        assert!(files.has_changed() && files.read().is_empty());
        let write = |text: &str| {
            // As libvirt does.
            let (path, draft) = (place.path().join("vm1.xml"), place.path().join("vm1.xml.new"));
            std::fs::write(&draft, text).unwrap();
            std::fs::set_permissions(&draft, std::fs::Permissions::from_mode(0o600)).unwrap();
            std::fs::rename(draft, path).unwrap();
        };
        write(RECORDED);
        assert!(files.has_changed());
        assert_eq!(files.read().len(), 1);
        let right = files.get(14_497, UUID).unwrap().clone();
        assert!(right.is_sound() && files.get(14_498, UUID).is_none() && files.get(14_497, "vm1").is_none());
        write(&RECORDED.replace("weight=\"200\"", "weight=\"0\""));
        assert!(files.has_changed());
        files.read();
        let wrong = files.get(14_497, UUID).unwrap();
        assert!(!wrong.is_sound());
        let source = api::Source::Libvirt;
        assert_eq!(wrong.wanted(source).desired, right.wanted(source).desired);
        std::fs::remove_file(place.path().join("vm1.xml")).unwrap();
        assert!(files.has_changed() && files.read().is_empty());
    }
}
