//! The jobs that run in guests.

use super::beside::Beside;
use super::boot::{Ran, System, Time};
use super::extent::{Extent, ONCE, Rounds, Takes};
use super::hints;
use super::kernel::Kernel;
use super::peers;
use crate::program::{
    AGENT_LOAD, MICRO_VM, OPERATOR, PROMISES, Program, SHARES, STORM, TACTUS, TACTUS_GUEST, TACTUS_SCX, TRIALS,
    WAKE_UPS,
};
use crate::root::root;
use serde_json::Value;
use std::time::Duration;

/// A job that runs in a guest, and the check of its outcome.
pub(crate) struct Job {
    pub(crate) name: &'static str,
    /// Name of the job as a step of `cargo xtask test`.
    pub(crate) title: &'static str,
    pub(crate) programs: &'static [Program],
    /// Whether the job has the [schedulers of other projects](super::peers).
    pub(crate) has_peers: bool,
    /// Entries of the directory `papers` that are in `/papers` of the guest.
    pub(crate) papers: &'static [&'static str],
    pub(crate) system: System,
    /// Whether the job starts virtual machines with KVM.
    pub(crate) is_hypervisor: bool,
    pub(crate) time: Time,
    /// Number of CPUs of a guest with [`System::Archive`].
    pub(crate) cpus: u32,
    /// Maximum number of attempts; several for a job whose measurements depend on the other load of the host.
    pub(crate) tries: u32,
    pub(crate) rounds: Rounds,
    pub(crate) takes: Takes,
    /// Time limit of the guest for an extent.
    pub(crate) limit: fn(&Extent) -> Duration,
    /// Command line of the job in the guest.
    pub(crate) words: fn(&Extent) -> Vec<String>,
    /// Work on the host while the guest runs, as root. Its load is part of the test.
    pub(crate) beside: Option<Beside>,
    /// Check of the output of a job that exited with 0.
    pub(crate) judge: fn(&Kernel, &Ran) -> Result<(), String>,
}

/// All jobs.
pub(crate) const JOBS: &[Job] = &[
    Job {
        name: "guest-doctor",
        title: "guest-doctor: the report of `tactus doctor` in a guest kernel",
        programs: &[TACTUS],
        has_peers: false,
        papers: &[],
        system: System::Archive,
        is_hypervisor: false,
        time: Time::Host,
        cpus: 2,
        tries: 2,
        rounds: ONCE,
        takes: Takes::Nothing,
        limit: |_| Duration::from_secs(120),
        words: |_| ["/bin/tactus", "doctor", "--seconds", "2", "--json"].map(String::from).to_vec(),
        beside: None,
        judge: doctor,
    },
    Job {
        name: "guest-storm",
        title: "guest-storm: all threads are restored after any part of Tactus is killed or stopped",
        programs: &[TACTUS, STORM],
        has_peers: false,
        papers: &[],
        system: System::Archive,
        is_hypervisor: false,
        time: Time::Executed,
        cpus: 2,
        tries: 1,
        rounds: Rounds { suite: Some(10), short: 200, long: 200 },
        takes: Takes::Seed,
        limit: |extent| Duration::from_secs(120 + 10 * u64::from(extent.rounds)),
        words: |extent| {
            let program = ["/bin/storm", "--tactus", "/bin/tactus"].map(String::from);
            [program.as_slice(), &extent.words(Takes::Seed)].concat()
        },
        beside: None,
        judge: |_, _| Ok(()),
    },
    Job {
        name: "guest-shares",
        title: "guest-shares: weights and caps in control groups of version 2 are set and restored",
        programs: &[TACTUS, SHARES],
        has_peers: false,
        papers: &[],
        system: System::Archive,
        is_hypervisor: false,
        time: Time::Executed,
        cpus: 2,
        tries: 1,
        rounds: ONCE,
        takes: Takes::Nothing,
        limit: |_| Duration::from_secs(180),
        words: |_| ["/bin/shares", "--tactus", "/bin/tactus"].map(String::from).to_vec(),
        beside: None,
        judge: |_, _| Ok(()),
    },
    Job {
        name: "guest-vms",
        title: "guest-vms: virtual machines under KVM are restored after any part of Tactus is killed or stopped",
        programs: &[TACTUS, STORM, MICRO_VM],
        has_peers: false,
        papers: &[],
        system: System::Archive,
        is_hypervisor: true,
        time: Time::Executed,
        cpus: 2,
        tries: 1,
        rounds: Rounds { suite: None, short: 20, long: 200 },
        takes: Takes::Seed,
        limit: |extent| Duration::from_secs(120 + 20 * u64::from(extent.rounds)),
        words: |extent| {
            let program = ["/bin/storm", "--tactus", "/bin/tactus", "--micro-vm", "/bin/micro-vm"].map(String::from);
            [program.as_slice(), &extent.words(Takes::Seed)].concat()
        },
        beside: None,
        judge: |_, _| Ok(()),
    },
    Job {
        name: "guest-hotplug",
        title: "guest-hotplug: promises are kept or end with a reason while a CPU is offline",
        programs: &[TACTUS, STORM],
        has_peers: false,
        papers: &[],
        system: System::Archive,
        is_hypervisor: false,
        time: Time::Executed,
        cpus: 2,
        tries: 1,
        rounds: Rounds { suite: Some(6), short: 20, long: 200 },
        takes: Takes::Seed,
        limit: |extent| Duration::from_secs(120 + 10 * u64::from(extent.rounds)),
        words: |extent| {
            let program = ["/bin/storm", "--tactus", "/bin/tactus", "--unplug"].map(String::from);
            [program.as_slice(), &extent.words(Takes::Seed)].concat()
        },
        beside: None,
        judge: |_, _| Ok(()),
    },
    Job {
        name: "guest-calls",
        title: "guest-calls: all threads are restored after a system call of the core fails",
        programs: &[TACTUS, STORM],
        has_peers: false,
        papers: &[],
        system: System::Archive,
        is_hypervisor: false,
        time: Time::Executed,
        cpus: 2,
        tries: 1,
        rounds: Rounds { suite: None, short: 20, long: 246 },
        takes: Takes::Seed,
        limit: |extent| Duration::from_secs(120 + 30 * u64::from(extent.rounds)),
        words: |extent| {
            let program = ["/bin/storm", "--tactus", "/bin/tactus", "--calls"].map(String::from);
            [program.as_slice(), &extent.words(Takes::Seed)].concat()
        },
        beside: None,
        judge: |_, _| Ok(()),
    },
    Job {
        name: "guest-scx",
        title: "guest-scx: every policy schedules a kernel through sched_ext, and the kernel schedules again after each fault",
        programs: &[TACTUS_SCX, TRIALS],
        has_peers: false,
        papers: &[],
        system: System::Archive,
        is_hypervisor: false,
        // The bridge ends without its user side for 320 ms, and a virtual CPU in the time of a busy host stands still for longer.
        time: Time::Executed,
        cpus: 2,
        tries: 1,
        rounds: Rounds { suite: Some(3), short: 10, long: 50 },
        takes: Takes::Seed,
        limit: |extent| Duration::from_secs(29 * (seconds(extent) + 4) + 90 + 4 * u64::from(extent.rounds)),
        words: |extent| {
            let seconds = seconds(extent).to_string();
            let program = ["/bin/trials", "--tactus-scx", "/bin/tactus-scx", "--seconds", &seconds].map(String::from);
            [program.as_slice(), &extent.words(Takes::Seed)].concat()
        },
        beside: None,
        judge: |_, _| Ok(()),
    },
    Job {
        name: "guest-scx-one",
        title: "guest-scx-one: sched_ext on one CPU, in time that follows instructions: promises down to 100 us in 200 us",
        programs: &[TACTUS, TACTUS_SCX, TRIALS],
        has_peers: false,
        papers: &[],
        system: System::Archive,
        is_hypervisor: false,
        time: Time::Executed,
        cpus: 1,
        tries: 1,
        rounds: Rounds { suite: Some(1), short: 10, long: 10 },
        takes: Takes::Seed,
        limit: |extent| Duration::from_secs(600 + 4 * u64::from(extent.rounds)),
        words: |extent| {
            let program =
                ["/bin/trials", "--tactus-scx", "/bin/tactus-scx", "--tactus", "/bin/tactus", "--seconds", "0"]
                    .map(String::from);
            [program.as_slice(), &extent.words(Takes::Seed)].concat()
        },
        beside: None,
        judge: |_, _| Ok(()),
    },
    Job {
        name: "guest-scx-faults",
        title: "guest-scx-faults: schedulers in the kernel begin again, and promises of a core go on, after each fault",
        programs: &[TACTUS, TACTUS_SCX, TRIALS],
        has_peers: false,
        papers: &[],
        system: System::Archive,
        is_hypervisor: false,
        time: Time::Executed,
        cpus: 2,
        tries: 1,
        rounds: Rounds { suite: None, short: 3, long: 50 },
        takes: Takes::Seed,
        limit: |extent| Duration::from_secs(1_200 + 60 * u64::from(extent.rounds)),
        words: |extent| {
            let program = ["/bin/trials", "--tactus-scx", "/bin/tactus-scx", "--tactus", "/bin/tactus", "--faults"];
            program.into_iter().map(String::from).chain(extent.words(Takes::Seed)).collect()
        },
        beside: None,
        judge: |_, _| Ok(()),
    },
    Job {
        name: "guest-scx-bmq",
        title: "guest-scx-bmq: the port of bmq beside EEVDF and FIFO on one CPU: latency, time for messages, and dropped frames",
        programs: &[TACTUS, TACTUS_SCX, TRIALS],
        has_peers: false,
        papers: &[],
        system: System::Archive,
        is_hypervisor: false,
        time: Time::Executed,
        cpus: 1,
        tries: 1,
        rounds: Rounds { suite: None, short: 1, long: 3 },
        takes: Takes::Rounds,
        limit: |extent| Duration::from_secs(600 + 300 * u64::from(extent.rounds)),
        words: |extent| {
            let rounds = extent.rounds.to_string();
            let program = ["/bin/trials", "--tactus-scx", "/bin/tactus-scx", "--tactus", "/bin/tactus"];
            let options = ["--only", "the port of bmq", "--compare", &rounds];
            program.into_iter().chain(options).map(String::from).collect()
        },
        beside: None,
        judge: |_, _| Ok(()),
    },
    Job {
        name: "guest-scx-claims",
        title: "guest-scx-claims: the live claims E1 and E2: messages, and frames of a player, under the port of bmq and EEVDF",
        programs: &[TACTUS, TACTUS_SCX],
        has_peers: false,
        papers: &["rules.toml", "bmq"],
        system: System::Archive,
        is_hypervisor: false,
        time: Time::Executed,
        cpus: 1,
        tries: 1,
        rounds: Rounds { suite: None, short: 0, long: 0 },
        takes: Takes::Nothing,
        limit: |_| Duration::from_secs(3_600),
        words: |_| {
            let run = "/bin/tactus lab run E1 E2 --live --json --papers /papers --results /results --note";
            let note = "emulated by QEMU, with time by executed instructions of 2 ns each";
            run.split(' ').chain([note]).map(String::from).collect()
        },
        beside: None,
        judge: claims,
    },
    Job {
        name: "guest-scx-peers",
        title: "guest-scx-peers: the bridge and the port of bmq beside EEVDF, FIFO, scx_rlfifo and scx_bpfland on one CPU",
        programs: &[TACTUS_SCX, TRIALS],
        has_peers: true,
        papers: &[],
        system: System::Archive,
        is_hypervisor: false,
        time: Time::Executed,
        cpus: 1,
        tries: 1,
        rounds: Rounds { suite: None, short: 10, long: 10 },
        takes: Takes::Rounds,
        limit: |extent| Duration::from_secs(600 + 240 * u64::from(extent.rounds)),
        words: |extent| {
            let rounds = extent.rounds.to_string();
            let program =
                ["/bin/trials", "--tactus-scx", "/bin/tactus-scx", "--only", "is compared", "--compare", &rounds];
            let peers = peers::paths().flat_map(|path| ["--peer".to_string(), path]);
            program.into_iter().map(String::from).chain(peers).collect()
        },
        beside: None,
        judge: |_, _| Ok(()),
    },
    Job {
        name: "guest-scx-gang",
        title: "guest-scx-gang: the vCPUs of a virtual machine run together on busy CPUs, and their work takes less time",
        programs: &[TACTUS, TACTUS_SCX, TRIALS, MICRO_VM],
        has_peers: false,
        papers: &[],
        system: System::Archive,
        is_hypervisor: true,
        time: Time::Executed,
        cpus: 2,
        tries: 1,
        rounds: Rounds { suite: None, short: 3, long: 10 },
        takes: Takes::Rounds,
        limit: |extent| Duration::from_secs(240 + 30 * u64::from(extent.rounds)),
        words: |extent| {
            let rounds = extent.rounds.to_string();
            let program = ["/bin/trials", "--tactus-scx", "/bin/tactus-scx", "--tactus", "/bin/tactus"];
            let options = ["--micro-vm", "/bin/micro-vm", "--only", "of a gang", "--compare", &rounds];
            program.into_iter().chain(options).map(String::from).collect()
        },
        beside: None,
        judge: |_, _| Ok(()),
    },
    Job {
        name: "guest-scx-replay",
        title: "guest-scx-replay: recorded decisions of the kernel for promises are those of the Rust policy, on two CPUs",
        programs: &[TACTUS_SCX, TRIALS],
        has_peers: false,
        papers: &[],
        system: System::Archive,
        is_hypervisor: false,
        time: Time::Executed,
        cpus: 2,
        tries: 1,
        rounds: Rounds { suite: None, short: 1, long: 2 },
        takes: Takes::Rounds,
        // Virtual CPUs that take turns every 20 us are slow.
        limit: |extent| Duration::from_secs(600 + 900 * u64::from(extent.rounds)),
        words: |extent| {
            let program = ["/bin/trials", "--tactus-scx", "/bin/tactus-scx", "--long", "--only", "is replayed"];
            program.into_iter().map(String::from).chain(extent.words(Takes::Rounds)).collect()
        },
        beside: None,
        judge: |_, _| Ok(()),
    },
    Job {
        name: "guest-scx-shares",
        title: "guest-scx-shares: threads have the shares of the fair class in control groups, and 10,000 groups come and go",
        programs: &[TACTUS_SCX, TRIALS],
        has_peers: false,
        papers: &[],
        system: System::Archive,
        is_hypervisor: false,
        time: Time::Executed,
        cpus: 1,
        tries: 1,
        rounds: Rounds { suite: None, short: 1, long: 2 },
        takes: Takes::Rounds,
        limit: |extent| Duration::from_secs(600 + 600 * u64::from(extent.rounds)),
        words: |extent| {
            let program = ["/bin/trials", "--tactus-scx", "/bin/tactus-scx", "--long", "--only", "control groups"];
            program.into_iter().map(String::from).chain(extent.words(Takes::Rounds)).collect()
        },
        beside: None,
        judge: |_, _| Ok(()),
    },
    Job {
        name: "guest-scx-rivals",
        title: "guest-scx-rivals: misses and cost of SCHED_DEADLINE, of the agents, and of a scheduler in the kernel",
        programs: &[TACTUS, TACTUS_SCX, PROMISES],
        has_peers: false,
        papers: &[],
        system: System::Archive,
        is_hypervisor: false,
        time: Time::Executed,
        cpus: 1,
        tries: 1,
        rounds: Rounds { suite: None, short: 2, long: 10 },
        takes: Takes::Rounds,
        limit: |extent| Duration::from_secs(120 + 360 * u64::from(extent.rounds)),
        words: |extent| {
            let program = ["/bin/promises", "--tactus", "/bin/tactus", "--scheduler", "/bin/tactus-scx"];
            program.into_iter().map(String::from).chain(extent.words(Takes::Rounds)).collect()
        },
        beside: None,
        judge: |_, _| Ok(()),
    },
    Job {
        name: "guest-agent",
        title: "guest-agent: the CPU time of the agent beside a task that wakes 200 and 2,000 times a second",
        programs: &[TACTUS_GUEST, AGENT_LOAD],
        has_peers: false,
        papers: &[],
        system: System::Archive,
        is_hypervisor: false,
        time: Time::Executed,
        cpus: 1,
        tries: 1,
        rounds: ONCE,
        takes: Takes::Nothing,
        limit: |_| Duration::from_secs(300),
        words: |_| ["/bin/agent-load", "/bin/tactus-guest"].map(String::from).to_vec(),
        beside: None,
        judge: |_, _| Ok(()),
    },
    Job {
        name: "guest-hints",
        title: "guest-hints: late wake-ups in a guest are explained, and boosts at its interrupts and by its hints halve its latency",
        programs: &[TACTUS_GUEST, WAKE_UPS],
        has_peers: false,
        papers: &[],
        system: System::Archive,
        is_hypervisor: false,
        time: Time::Host,
        cpus: 1,
        tries: 2,
        rounds: ONCE,
        takes: Takes::Nothing,
        limit: |_| Duration::from_secs(240),
        words: |_| {
            let [seconds, before] = [hints::SECONDS, hints::WITHOUT_AGENT].map(|count| count.to_string());
            ["/bin/wake-ups", "/bin/tactus-guest", &seconds, &before].map(String::from).to_vec()
        },
        beside: Some(hints::check),
        judge: |_, _| Ok(()),
    },
    Job {
        name: "guest-debian",
        title: "guest-debian: the package and the operator's page in Debian, with systemd and VMs of libvirt",
        programs: &[OPERATOR],
        has_peers: false,
        papers: &[],
        system: System::Debian,
        is_hypervisor: false,
        time: Time::Executed,
        cpus: 2,
        tries: 1,
        rounds: ONCE,
        takes: Takes::Nothing,
        limit: |_| Duration::from_secs(1_200),
        words: |_| ["./operator", "--page", "operate.md"].map(String::from).to_vec(),
        beside: None,
        judge: |_, _| Ok(()),
    },
];

/// Returns the number of seconds for which each policy schedules the kernel: one in `cargo xtask test`.
fn seconds(extent: &Extent) -> u64 {
    if extent.rounds < 10 { 1 } else { 10 }
}

/// Mechanisms that every guest kernel supports.
const MECHANISMS: [&str; 6] =
    ["SCHED_FIFO", "SCHED_DEADLINE", "affinity", "freezer, cgroup v2", "CPU quota", "CPU weight"];

/// Checks the report of `tactus doctor` in a guest with a known configuration.
fn doctor(kernel: &Kernel, ran: &Ran) -> Result<(), String> {
    let start = ran.output.find('{').ok_or("the doctor printed no JSON")?;
    let found: Value = serde_json::from_str(&ran.output[start..]).map_err(|error| format!("not JSON: {error}"))?;
    let mut wrong = Vec::new();
    let mut expect = |what: &str, found: &Value, right: Value| {
        if *found != right {
            wrong.push(format!("{what} is {found}, expected {right}"));
        }
    };
    expect("kernel.release", &found["kernel"]["release"], kernel.release.clone().into());
    expect("privileges.user", &found["privileges"]["user"], 0.into());
    expect("cpus.online", &found["cpus"]["online"], "0-1".into());
    expect("promises_can_be_kept", &found["promises_can_be_kept"], true.into());
    for name in MECHANISMS {
        let mechanism = found["mechanisms"].as_array().into_iter().flatten().find(|entry| entry["name"] == name);
        let works = mechanism.map_or(&Value::Null, |entry| &entry["works"]);
        expect(name, works, true.into());
    }
    let classes = found["lateness"].as_array().map_or(0, Vec::len);
    expect("the number of classes whose timers were measured", &classes.into(), 2.into());
    if wrong.is_empty() { Ok(()) } else { Err(wrong.join("\n")) }
}

/// Keeps the values of the live claims that the guest has measured, for `tactus lab run E1 E2 --live --measured FILE --record`.
fn claims(_: &Kernel, ran: &Ran) -> Result<(), String> {
    let wrong = |why: String| format!("its output is no list of verdicts: {why}");
    let begin =
        ran.output.lines().position(|line| line.starts_with('[')).ok_or_else(|| wrong("no JSON".to_string()))?;
    let text: String = ran.output.lines().skip(begin).flat_map(|line| [line, "\n"]).collect();
    let found: Value = serde_json::from_str(&text).map_err(|why| wrong(why.to_string()))?;
    let ids = found.as_array().into_iter().flatten().flat_map(|paper| paper["verdicts"].as_array()).flatten();
    let ids: Vec<&str> = ids.filter_map(|verdict| verdict["id"].as_str()).collect();
    if ids != ["E1", "E2"] {
        return Err(wrong(format!("it is about {ids:?}")));
    }
    let file = root().join(CLAIMS);
    std::fs::write(&file, text).map_err(|why| format!("cannot write {}: {why}", file.display()))?;
    println!("      next: tactus lab run E1 E2 --live --measured {CLAIMS} --record");
    Ok(())
}

/// The values of the last run of `guest-scx-claims`.
const CLAIMS: &str = "target/guest/claims.json";

#[cfg(test)]
mod tests {
    use super::super::boot::End;
    use super::*;
    use std::path::PathBuf;

    #[test]
    fn the_judge_of_the_doctor_can_say_no() {
        let (image, release) = (PathBuf::new(), "7.2.1".to_string());
        let kernel = Kernel { image, configuration: None, release, has_virtio: true, hypervisor: Vec::new() };
        let ran = |output: &str| Ran {
            end: End::Exited(0),
            output: output.to_string(),
            up: None,
            disturbed: 0.0,
            beside: Ok(()),
        };
        let mut good = serde_json::json!({
            "promises_can_be_kept": true,
            "kernel": { "release": "7.2.1" },
            "privileges": { "user": 0 },
            "cpus": { "online": "0-1" },
            "mechanisms": MECHANISMS.map(|name| serde_json::json!({ "name": name, "works": true })),
            "lateness": [{}, {}],
        });
        assert_eq!(doctor(&kernel, &ran(&format!("tried\n{good}"))), Ok(()));
        good["kernel"]["release"] = "6.1".into();
        good["mechanisms"][1]["works"] = false.into();
        let wrong = doctor(&kernel, &ran(&good.to_string())).unwrap_err();
        assert_eq!(wrong.lines().count(), 2, "{wrong}");
        assert!(wrong.contains("\"6.1\"") && wrong.contains("SCHED_DEADLINE"), "{wrong}");
        assert!(doctor(&kernel, &ran("error")).is_err());
    }

    #[test]
    fn a_storm_gets_its_rounds_and_its_seed() {
        let storm = JOBS.iter().find(|job| job.name == "guest-storm").unwrap();
        let words = (storm.words)(&Extent { rounds: 3, first: 2, seed: 7 }).join(" ");
        assert_eq!(words, "/bin/storm --tactus /bin/tactus --rounds 3 --first 2 --seed 7");
    }

    #[test]
    fn the_rounds_of_each_job_are_documented() {
        let text = std::fs::read_to_string(root().join("CONTRIBUTING.md")).unwrap();
        for Job { name, rounds: Rounds { suite, short, long }, .. } in JOBS {
            let row = format!("| `{name}` | {}, {short}, {long} |", suite.unwrap_or(0));
            assert!(text.contains(&row), "CONTRIBUTING.md lacks the row {row}");
        }
    }
}
