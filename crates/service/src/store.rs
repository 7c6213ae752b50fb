//! [`Store`]: the desired states on disk.
//!
//! The file `desired.json` has one entry per VM. It is replaced as a whole: written beside, synchronised and renamed, so
//! after a crash it has either the old or the new content. Changes that are made together are written together.

use crate::complaint::complain;
use api::Desired;
use daemon::Explanation;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, VecDeque};
use std::fs::File;
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};

/// Name of the file.
const FILE: &str = "desired.json";
/// Name of the file while it is written.
const DRAFT: &str = "desired.json.new";
/// Number of the latest changes with idempotency keys that are kept: of each client, and of all.
const KEYS_MOST: (usize, usize) = (64, 1_024);
/// Version of the file.
const VERSION: u32 = 1;

/// File whose lock admits one service.
const LOCK: &str = "tactus.lock";

/// The desired state of a VM.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct Record {
    /// Last known name of the VM.
    pub(crate) name: String,
    /// Number of the change of any VM that has set this state. No two states have the same generation.
    pub(crate) generation: u64,
    /// User of the VM's process when the state was set. `None`: the VM did not run. The state is not for a process of
    /// another user with the same id.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) user: Option<u32>,
    pub(crate) desired: Desired,
    /// The process, for a process that is no VM: its desired state ends with it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) process: Option<Lifetime>,
}

/// The lifetime of a process.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct Lifetime {
    /// Id of the boot of the host.
    pub(crate) boot: String,
    /// Start time of the process, in clock ticks since the boot.
    pub(crate) start_time: u64,
}

/// A change that a client has made with an idempotency key (draft-ietf-httpapi-idempotency-key-header).
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct KeyedChange {
    /// The client.
    pub(crate) by: String,
    pub(crate) key: String,
    /// Id of the VM.
    pub(crate) vm: String,
    /// Id or name of the VM in the request.
    pub(crate) name: String,
    pub(crate) desired: Desired,
}

#[derive(Clone, Default, Debug, Serialize, Deserialize)]
struct Content {
    version: u32,
    /// Number of changes so far.
    changes: u64,
    vms: BTreeMap<String, Record>,
    /// The latest changes with a key, in their order.
    #[serde(default, skip_serializing_if = "VecDeque::is_empty")]
    keyed: VecDeque<KeyedChange>,
}

/// The desired states, by id of the VM.
#[derive(Debug)]
pub(crate) struct Store {
    directory: PathBuf,
    content: Content,
    /// The content on disk, if it differs.
    stored: Option<Content>,
    /// Lock of the directory, until the store is dropped.
    _lock: File,
}

impl Store {
    /// Reads the desired states from `directory`, which is created if it does not exist.
    ///
    /// # Errors
    /// The directory cannot be created, or the file cannot be read. A damaged file is an error: the promises in it would
    /// be lost with the next change.
    pub(crate) fn open(directory: &Path) -> Result<Store, Explanation> {
        let path = directory.join(FILE);
        let failed = |error: io::Error| {
            Explanation::new(format!("cannot read {}: {error}", path.display()), "use --state with another directory")
        };
        std::fs::create_dir_all(directory).map_err(failed)?;
        let lock = File::create(directory.join(LOCK)).map_err(failed)?;
        if lock.try_lock().is_err() {
            let why = format!("another service uses {}", directory.display());
            return Err(Explanation::new(why, "end it, or use --state with another directory"));
        }
        let content = match std::fs::read(&path) {
            Err(error) if error.kind() == ErrorKind::NotFound => Content::default(),
            Err(error) => return Err(failed(error)),
            Ok(bytes) => read(&bytes).map_err(|why| {
                let why = format!("{} is damaged: {why}", path.display());
                Explanation::new(why, "repair the file, or move it away to start without desired states")
            })?,
        };
        Ok(Store { directory: directory.to_path_buf(), content, stored: None, _lock: lock })
    }

    pub(crate) fn get(&self, id: &str) -> Option<&Record> {
        self.content.vms.get(id)
    }

    /// Returns the desired states, in the order of the ids.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&String, &Record)> {
        self.content.vms.iter()
    }

    /// Returns the change that the client `by` has made with `key`.
    pub(crate) fn keyed(&self, by: &str, key: &str) -> Option<&KeyedChange> {
        self.content.keyed.iter().rfind(|keyed| keyed.by == by && keyed.key == key)
    }

    /// Replaces the desired state of the VM `id`, with a new generation, or removes it, and adds the change `keyed`. Both are
    /// on disk after the next [`commit`](Store::commit).
    pub(crate) fn put(&mut self, id: &str, record: Option<Record>, keyed: Option<KeyedChange>) {
        let content = &mut self.content;
        self.stored.get_or_insert_with(|| content.clone());
        content.changes += 1;
        match record {
            Some(record) => {
                content.vms.insert(id.to_string(), Record { generation: content.changes, ..record });
            }
            None => drop(content.vms.remove(id)),
        }
        let Some(keyed) = keyed else { return };
        // A client that makes many changes displaces only its own keys.
        let is_own = |(_, it): &(usize, &KeyedChange)| it.by == keyed.by;
        let own: Vec<usize> = content.keyed.iter().enumerate().filter(is_own).map(|(at, _)| at).collect();
        if own.len() >= KEYS_MOST.0 {
            content.keyed.remove(own[0]);
        }
        if content.keyed.len() >= KEYS_MOST.1 {
            content.keyed.pop_front();
        }
        content.keyed.push_back(keyed);
    }

    /// Writes the changes since the last call to the disk.
    ///
    /// # Errors
    /// The file cannot be written, and none of these changes is made.
    pub(crate) fn commit(&mut self) -> io::Result<()> {
        let Some(stored) = self.stored.take() else { return Ok(()) };
        self.content.version = VERSION;
        write(&self.directory, &self.content).inspect_err(|_| self.content = stored)
    }
}

fn read(bytes: &[u8]) -> Result<Content, String> {
    let content: Content = serde_json::from_slice(bytes).map_err(|error| error.to_string())?;
    match content.version {
        VERSION => Ok(content),
        other => Err(format!("version {other}, where this program writes {VERSION}")),
    }
}

fn write(directory: &Path, content: &Content) -> io::Result<()> {
    let mut text = serde_json::to_vec_pretty(content)?;
    text.push(b'\n');
    let draft = directory.join(DRAFT);
    let written = File::create(&draft).and_then(|mut file| {
        file.write_all(&text)?;
        file.sync_all()
    });
    if let Err(error) = written {
        let _ = std::fs::remove_file(&draft);
        return Err(error);
    }
    std::fs::rename(&draft, directory.join(FILE))?;
    // From here on, the new content is in force. Without this call, a power failure may restore the old content.
    if let Err(error) = File::open(directory).and_then(|directory| directory.sync_all()) {
        complain(&format!("{} may be lost in a power failure: {error}", directory.join(FILE).display()));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(generation: u64) -> Record {
        let desired = Desired { weight: Some(200), ..Desired::default() };
        Record { name: "vm".to_string(), generation, user: Some(7), desired, process: None }
    }

    #[test]
    fn desired_states_are_there_again_after_a_start() {
        let place = tempfile::tempdir().unwrap();
        let directory = place.path().join("state");
        let open = || Store::open(&directory).unwrap();
        let mut store = open();
        store.put("a", Some(record(1)), None);
        store.put("b", Some(record(2)), None);
        store.commit().unwrap();
        store.put("a", None, None);
        store.commit().unwrap();
        drop(store);
        let mut store = open();
        assert_eq!(store.iter().collect::<Vec<_>>(), [(&"b".to_string(), &record(2))]);
        assert_eq!(store.get("a"), None);
        // No generation comes twice.
        store.put("a", Some(record(0)), None);
        store.commit().unwrap();
        assert_eq!(store.get("a"), Some(&record(4)));
        let keyed = |by: &str, nth: usize| {
            let (key, vm, desired) = (nth.to_string(), "a".to_string(), Desired::default());
            KeyedChange { by: by.to_string(), key, name: vm.clone(), vm, desired }
        };
        store.put("a", None, Some(keyed("user 8", 0)));
        (0..=KEYS_MOST.0).for_each(|nth| store.put("a", None, Some(keyed("user 7", nth))));
        store.commit().unwrap();
        drop(store);
        let store = open();
        assert_eq!(store.keyed("user 7", "0"), None, "the oldest key of the client is forgotten");
        assert_eq!(store.keyed("user 7", "1"), Some(&keyed("user 7", 1)));
        assert_eq!(store.keyed("user 8", "0"), Some(&keyed("user 8", 0)), "a key of another client stays");
        assert_eq!(store.keyed("user 8", "1"), None);
        let second = Store::open(&directory).unwrap_err();
        assert!(second.reason.contains("another service uses"), "{second}");
    }

    #[test]
    fn what_cannot_be_written_changes_nothing_and_a_damaged_file_is_not_replaced() {
        let place = tempfile::tempdir().unwrap();
        let mut store = Store::open(place.path()).unwrap();
        store.put("a", Some(record(0)), None);
        store.commit().unwrap();
        // A directory in the place of the draft.
        std::fs::create_dir(place.path().join(DRAFT)).unwrap();
        store.put("a", Some(record(2)), None);
        store.put("b", Some(record(3)), None);
        assert!(store.commit().is_err());
        assert_eq!(store.get("b"), None);
        assert_eq!(store.get("a"), Some(&record(1)));
        std::fs::remove_dir(place.path().join(DRAFT)).unwrap();
        drop(store);
        let path = place.path().join(FILE);
        let text = std::fs::read_to_string(&path).unwrap();
        for damaged in [&text[..text.len() / 2], &text.replace("\"version\": 1", "\"version\": 9"), ""] {
            std::fs::write(&path, damaged).unwrap();
            let refused = Store::open(place.path()).unwrap_err();
            assert!(refused.reason.contains("is damaged"), "{refused}");
            assert_eq!(std::fs::read_to_string(&path).unwrap(), damaged);
        }
    }
}
