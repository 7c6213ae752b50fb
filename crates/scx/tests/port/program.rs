//! The programs of the ports, whole or broken on purpose, and the descriptor under which the fuzzer runs them.

use crate::compile::compile;
use port::{Port, PortPolicy, PortSource};
use sched::{AlarmSlots, Descriptor, Guarantees, Knobs, LoadBounds, Policy, Refused, Topology};
use scx::recording::Record;
use std::cell::RefCell;
use std::fs;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// Sanitizers find what the verifier of the kernel would refuse: accesses outside of an object, and undefined arithmetic.
const OPTIONS: [&str; 4] = ["-O1", "-g", "-fsanitize=undefined,address", "-fno-sanitize-recover=all"];
/// The options for rivals, whose rule is broken in another way.
const RIVAL_OPTIONS: [&str; 1] = ["-O1"];

/// The file with the records, in the folder of a program.
const RECORDS: &str = "records";
/// The variable with the only seed of a check, which repeats a failure.
pub(crate) const SEED: &str = "TACTUS_PORT_SEED";

/// Returns the only seed of a check, if it is set.
pub(crate) fn only_seed() -> Option<u64> {
    std::env::var(SEED).ok().map(|seed| seed.parse().expect("a seed is a number"))
}

/// Returns the number of seeds of a check: the variable `TACTUS_PORT_SEEDS`, or else `few`.
pub(crate) fn seeds(few: u64) -> u64 {
    std::env::var("TACTUS_PORT_SEEDS").map_or(few, |text| text.parse().expect("it is a number of seeds"))
}

/// A change of the source that breaks one rule.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rival {
    pub(crate) name: &'static str,
    pub(crate) file: &'static str,
    /// The text, which stands once in the file, and its replacement.
    pub(crate) from: &'static str,
    pub(crate) to: &'static str,
}

/// A compiled port.
pub(crate) struct Program {
    folder: TempDir,
    path: PathBuf,
}

thread_local! {
    /// The program that a machine of this thread starts.
    static PROGRAM: RefCell<Option<PathBuf>> = const { RefCell::new(None) };
}

impl Program {
    /// Compiles the program of `edf` and `gang-edf`, or a rival of it. `None`: there is no C compiler.
    pub(crate) fn edf(rival: Option<&Rival>) -> Option<Program> {
        Program::of(port::EDF.program, rival)
    }

    /// Compiles the program of `bmq`, or a rival of it. `None`: there is no C compiler.
    pub(crate) fn bmq(rival: Option<&Rival>) -> Option<Program> {
        Program::of(port::BMQ.program, rival)
    }

    fn of(program: &str, rival: Option<&Rival>) -> Option<Program> {
        Program::compile(program, rival, tempfile::tempdir().unwrap(), &[])
    }

    /// Compiles the program of `edf`, or a rival of it, such that it records. One process of it at a time writes the file.
    pub(crate) fn recording(rival: Option<&Rival>) -> Option<Program> {
        let folder = tempfile::tempdir().unwrap();
        let file = format!("-DSHIM_RECORD={:?}", folder.path().join(RECORDS));
        Program::compile(port::EDF.program, rival, folder, &["-DIS_RECORDING=1", &file])
    }

    /// Returns the records of the last process.
    pub(crate) fn records(&self) -> Vec<Record> {
        let bytes = fs::read(self.folder.path().join(RECORDS)).unwrap();
        bytes.chunks(Record::BYTES).map(|bytes| Record::from_bytes(bytes).expect("it is a record")).collect()
    }

    fn compile(program: &str, rival: Option<&Rival>, folder: TempDir, further: &[&str]) -> Option<Program> {
        let bpf = Path::new(env!("CARGO_MANIFEST_DIR")).join("bpf");
        let bpf = match rival {
            None => bpf,
            Some(rival) => {
                let copy = folder.path().join("bpf");
                copy_folder(&bpf, &copy);
                let text = fs::read_to_string(copy.join(rival.file)).unwrap();
                assert_eq!(text.matches(rival.from).count(), 1, "{}: {:?} in {}", rival.name, rival.from, rival.file);
                fs::write(copy.join(rival.file), text.replace(rival.from, rival.to)).unwrap();
                copy
            }
        };
        let path = folder.path().join("port");
        let options: &[&str] = if rival.is_some() { &RIVAL_OPTIONS } else { &OPTIONS };
        let Ok(status) = compile(&bpf, program, &[options, further].concat(), &path) else {
            eprintln!("SKIPPED: there is no C compiler (cc)");
            return None;
        };
        assert!(status.success(), "{rival:?} does not compile");
        Some(Program { folder, path })
    }

    /// Starts a port.
    pub(crate) fn policy(&self, port: &'static Port, host: &Topology) -> PortPolicy {
        PortPolicy::start(port, &self.path, host).unwrap()
    }

    /// Returns the path of the program.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Makes the machines of this thread use the program.
    pub(crate) fn select(&self) {
        PROGRAM.set(Some(self.path.clone()));
    }
}

fn copy_folder(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let to = to.join(entry.file_name());
        match entry.file_type().unwrap().is_dir() {
            true => copy_folder(&entry.path(), &to),
            false => drop(fs::copy(entry.path(), to).unwrap()),
        }
    }
}

fn build(port: &'static Port, host: &Topology) -> Result<Box<dyn Policy>, Refused> {
    let path = PROGRAM.with_borrow(Clone::clone).expect("a test has selected a program");
    Ok(Box::new(PortPolicy::start(port, &path, host)?))
}

/// The port `edf` for the fuzzer.
pub(crate) static SCX_EDF: Descriptor = Descriptor {
    name: "scx:edf",
    title: "",
    source: "",
    good_for: "",
    bad_at: "",
    text: "",
    conserving: |load: &LoadBounds<'_>| (port::EDF.conserving)(load),
    starvation: |_| None,
    guarantees: Guarantees::NOTHING,
    alarms: AlarmSlots { ..PortSource::ALARMS },
    knobs: &[],
    build: |host: &Topology, _: &Knobs| build(&port::EDF, host),
};

/// The port `gang-edf` for the fuzzer.
pub(crate) static SCX_GANG_EDF: Descriptor = Descriptor {
    name: "scx:gang-edf",
    guarantees: Guarantees { gang_periods: true, ..Guarantees::NOTHING },
    build: |host: &Topology, _: &Knobs| build(&port::GANG_EDF, host),
    ..SCX_EDF
};

/// The port `bmq` for the fuzzer.
pub(crate) static SCX_BMQ: Descriptor = Descriptor {
    name: "scx:bmq",
    conserving: |load: &LoadBounds<'_>| (port::BMQ.conserving)(load),
    build: |host: &Topology, _: &Knobs| build(&port::BMQ, host),
    ..SCX_EDF
};
