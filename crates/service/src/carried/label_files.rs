//! [`LabelFiles`]: the label files of the operator, `NAME.toml` or `UUID.toml`.

use super::label::Label;
use super::trusted_file::{self, entries, is_trusted};
use super::wanted::{Latest, Wanted};
use crate::complaint::complain;
use crate::inventory::{Found, Program};
use api::Source;
use daemon::Explanation;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use sys::directory_watch::DirectoryWatch;

/// Ending of the names of label files.
const ENDING: &str = "toml";
/// Maximum length of a label file. Unit: bytes.
const LENGTH_MOST: u64 = 64 * 1024;

/// The label files of a directory.
#[derive(Debug)]
pub(super) struct LabelFiles {
    directory: PathBuf,
    /// `None`: the files are read once, at the start.
    watch: Option<DirectoryWatch>,
    is_read: bool,
    /// The files, by name without the ending.
    files: BTreeMap<String, LabelFile>,
}

/// A label file.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub(super) struct LabelFile {
    path: PathBuf,
    /// User whose VM it is.
    user: Option<u32>,
    /// Name of the program whose process is the VM.
    program: Option<String>,
    latest: Latest,
}

impl LabelFiles {
    pub(super) fn new(directory: &Path) -> LabelFiles {
        let unwatched = |error: &sys::Error| complain(&format!("changes of label files are not noticed: {error}"));
        let watch = DirectoryWatch::new(directory).inspect_err(unwatched).ok();
        LabelFiles { directory: directory.to_path_buf(), watch, is_read: false, files: BTreeMap::new() }
    }

    /// Returns whether a file may have changed.
    pub(super) fn has_changed(&mut self) -> bool {
        self.watch.as_mut().map_or(!self.is_read, DirectoryWatch::has_changed)
    }

    /// Reads the files. After a wrong change of a file, its desired state stays.
    pub(super) fn read(&mut self) {
        self.is_read = true;
        let Some(entries) = entries(&self.directory) else { return };
        let paths = entries.into_iter().filter(|path| path.extension().is_some_and(|it| it == ENDING));
        let named = paths.filter_map(|path| Some((path.file_stem()?.to_str()?.to_string(), path)));
        let mut before = std::mem::take(&mut self.files);
        self.files = named
            .map(|(name, path)| {
                let mut file = before.remove(&name).unwrap_or_default();
                let read = trusted_file::read(&path, LENGTH_MOST).and_then(|text| is_whole(&text).map(|()| text));
                let read = read.and_then(|text| Label::parse(&text));
                let read = read.and_then(|label| Ok((label.desired()?, label)));
                if let Ok((_, label)) = &read {
                    (file.user, file.program) = (label.user, label.program.clone());
                }
                file.latest.note(
                    read.map(|(desired, _)| desired)
                        .map_err(|why| Explanation::new(format!("{}: {}", path.display(), why.reason), why.remedy)),
                );
                file.path = path;
                (name, file)
            })
            .collect();
    }

    /// Returns the programs whose processes are VMs.
    pub(super) fn programs(&self) -> Vec<Program> {
        let of = |(name, file): (&String, &LabelFile)| {
            let users = file.user.map_or_else(|| vec![0, sys::privileges::user()], |user| vec![user]);
            Some(Program { program: file.program.clone()?, name: name.clone(), users })
        };
        self.files.iter().filter_map(of).collect()
    }

    /// Returns the label file with this name.
    pub(super) fn get(&self, name: &str) -> Option<&LabelFile> {
        self.files.get(name)
    }
}

/// Refuses the text of a file that an editor has emptied and not written yet.
fn is_whole(text: &str) -> Result<(), Explanation> {
    match text.trim().is_empty() {
        true => Err(Explanation::new("the file is empty", "write its keys, or remove the file")),
        false => Ok(()),
    }
}

impl LabelFile {
    /// Returns what the file wants for `vm`, whose id or name is that of the file. `is_confirmed`: libvirt has started the
    /// VM, and says that it is this one.
    pub(super) fn wanted(&self, vm: &Found, is_confirmed: bool) -> Wanted {
        let user = vm.process.user;
        // The owner of a process chooses its command line, and with it the name of its VM.
        if is_confirmed || self.user.map_or_else(|| is_trusted(user), |permitted| permitted == user) {
            return self.latest.wanted(Source::LabelFile);
        }
        self.latest.refused(|| {
            let reason = format!("{} is not for VMs of user {user}", self.path.display());
            Explanation::new(reason, format!("add `user = {user}` to the file if the VM is the one"))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::inventory::tests::found;
    use api::Desired;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_label_file_is_for_vms_of_its_user_and_a_wrong_change_keeps_its_desired_state() {
        let place = tempfile::tempdir().unwrap();
        let directory = place.path().join("vms.d");
        let mut files = LabelFiles::new(&directory);
        assert!(!files.has_changed());
        std::fs::create_dir(&directory).unwrap();
        let path = directory.join("vm1.toml");
        let own = sys::privileges::user();
        let (vm, foreign) = (found("vm1", own), found("vm1", 4_242));
        let write = |files: &mut LabelFiles, text: &str| {
            std::fs::write(&path, text).unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).unwrap();
            assert!(files.has_changed());
            files.read();
            let file = files.get("vm1").expect("the file is there");
            (file.wanted(&vm, false), file.wanted(&foreign, false))
        };
        let weight = |weight| Desired { weight: Some(weight), ..Desired::default() };
        let (wanted, of_foreign) = write(&mut files, "weight = 50");
        assert_eq!(wanted, Wanted { desired: weight(50), source: Some(Source::LabelFile), problem: None });
        assert!(of_foreign.desired.is_empty() && of_foreign.source.is_none());
        let problem = of_foreign.problem.unwrap();
        assert!(problem.reason.contains("not for VMs of user 4242") && problem.remedy.contains("`user = 4242`"));
        let (wanted, of_foreign) = write(&mut files, "weight = 0");
        assert_eq!((wanted.desired, wanted.source), (weight(50), Some(Source::LabelFile)));
        assert!(wanted.problem.unwrap().reason.contains("vm1.toml: the weight is out of range"));
        assert!(of_foreign.desired.is_empty());
        let (wanted, of_foreign) = write(&mut files, "weight = 60\nuser = 4242");
        assert!(wanted.desired.is_empty() && wanted.problem.is_some());
        assert_eq!(of_foreign.desired, weight(60));
        assert_eq!(files.programs(), []);
        write(&mut files, "weight = 60\nuser = 4242\nprogram = \"batch\"");
        let (program, name) = ("batch".to_string(), "vm1".to_string());
        assert_eq!(files.programs(), [Program { program, name, users: vec![4_242] }]);
        // The status files of libvirt confirm the id.
        assert_eq!(files.get("vm1").unwrap().wanted(&vm, true).desired, weight(60));
        std::fs::remove_file(&path).unwrap();
        assert!(files.has_changed());
        files.read();
        assert_eq!(files.get("vm1"), None);
    }

    #[test]
    fn a_file_that_others_may_write_a_long_one_and_a_directory_are_refused() {
        let place = tempfile::tempdir().unwrap();
        let file = |name: &str, text: &str, mode: u32| {
            let path = place.path().join(name);
            std::fs::write(&path, text).unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        };
        file("open.toml", "weight = 50", 0o666);
        file("long.toml", &"#".repeat(70_000), 0o644);
        file("right.toml", "weight = 50", 0o600);
        file("other.txt", "weight = 50", 0o644);
        std::fs::create_dir(place.path().join("directory.toml")).unwrap();
        let mut files = LabelFiles::new(place.path());
        assert!(files.has_changed());
        files.read();
        let vm = found("vm", sys::privileges::user());
        let problem =
            |name: &str| files.get(name).unwrap().wanted(&vm, false).problem.map(|why| why.reason.to_string());
        for (name, words) in [("open", "written by other users"), ("long", "too long"), ("directory", "not a file")] {
            assert!(problem(name).unwrap().contains(words), "{name}: {:?}", problem(name));
        }
        assert_eq!((problem("right"), files.get("other")), (None, None));
    }
}
