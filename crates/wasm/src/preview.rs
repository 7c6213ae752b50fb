//! [`preview`]: what a host would do with other promises, from the demand of its VMs.
//!
//! The host becomes a scenario under its policy. Each VM is a VM with as many vCPUs as its promise has CPUs, and a
//! guest in which its threads run in turns. A thread repeats what was observed of it ([`Demand`]): its timer goes on, and its
//! other bursts come again as in the observation. A thread that was not observed counts as always runnable. The period in
//! force of a VM that is always runnable goes on. The time that no promise needs is shared as the policy does it, and not as
//! the kernel of the host.

use crate::demand::{Burst, Demand};
use input::files::Files;
use input::problem::{Problem, Problems};
use report::Report;
use run::{Observers, Progress, Run};
use scenario::Scenario;
use sched::{Instant, Nanos};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::Arc;

/// Knob that keeps a policy from allocating time that no promise needs. On a real host, the kernel allocates this time.
const ENFORCE: &str = "enforce";
/// Knob that determines when the first period of a changed promise begins: at once, or when the used part of the slice is due,
/// and at the latest at the end of the current period.
const CHANGE: &str = "change";
/// Minimum horizon of a preview, and the number of the longest periods that it has at least.
const HORIZON: Nanos = Nanos::s(1);
const PERIODS: u64 = 5;
/// Number of steps of a run, 1,000 events each, after which a preview is cut; and the number after which it is cut if it has
/// reached its minimum horizon.
const STEPS_MOST: u32 = 2_000;
const STEPS_ENOUGH: u32 = 200;
/// Range of a period, and maximum number of bursts of a thread.
const PERIOD_MOST: Nanos = Nanos::s(60);
const BURSTS_MOST: usize = 1_000;
/// Maximum length of an id that is a name in the scenario. Unit: bytes.
const NAME_MOST: usize = 90;

/// A host with its VMs, and what is desired for them.
#[derive(Clone, Debug, Deserialize)]
pub struct PreviewRequest {
    /// Number of CPUs.
    pub cpus: usize,
    /// The policy.
    pub policy: HostPolicy,
    /// Length of the observation. Unit: ns.
    #[serde(default)]
    pub observed_ns: u64,
    /// Whether the host is simulated, so that its policy allocates all time.
    #[serde(default)]
    pub simulated: bool,
    /// The VMs.
    pub vms: Vec<PreviewVm>,
}

/// The policy of the host, as in the interface of the service.
#[derive(Clone, Default, Debug, Deserialize)]
pub struct HostPolicy {
    /// Name of the policy.
    pub name: String,
    /// Values of its knobs, by name.
    pub knobs: BTreeMap<String, String>,
}

/// A VM.
#[derive(Clone, Debug, Deserialize)]
pub struct PreviewVm {
    /// Id in the interface of the service.
    pub id: String,
    /// What is desired, as in the interface of the service.
    #[serde(default)]
    pub desired: Desired,
    /// The CPUs of the promise in force. Empty: they are not known, or the promise is on no CPU in particular.
    #[serde(default)]
    pub cpus: Vec<usize>,
    /// Whether something else is desired than what is in force.
    #[serde(default)]
    pub is_changed: bool,
    /// Time from the end of the observation to the end of the current period of the promise in force. `None`: it is not known.
    /// Unit: ns.
    #[serde(default)]
    pub period_left_ns: Option<u64>,
    /// The threads.
    pub threads: Vec<Thread>,
}

impl PreviewVm {
    /// Returns the time until the first period of the promise begins; `None`: it begins at once. The period of a VM that
    /// sleeps mostly begins when it wakes up.
    fn start(&self, policy: &HostPolicy) -> Option<u64> {
        let is_awake = self.threads.iter().all(|thread| thread.demand() == Demand::Always);
        let has_period = !self.is_changed || policy.knobs.get(CHANGE).is_some_and(|change| change == "due");
        self.period_left_ns.filter(|_| is_awake && has_period)
    }
}

/// What is desired for a VM: the part of the interface of the service that a preview needs.
#[derive(Clone, Default, Debug, Deserialize)]
#[serde(default)]
pub struct Desired {
    /// The promise.
    pub promise: Option<Promise>,
    /// Weight in the scale of `cpu.weight`.
    pub weight: Option<u32>,
    /// Maximum CPU time. Unit: percent of a CPU.
    pub cap_percent: Option<u32>,
    /// Whether nothing of this is in force.
    pub paused: bool,
}

/// A promise: a slice in every period.
#[derive(Clone, Debug, Deserialize)]
pub struct Promise {
    /// CPU time in every period, summed over all CPUs of the promise. Unit: ns.
    pub slice_ns: u64,
    /// Length of the period. Unit: ns.
    pub period_ns: u64,
    /// Number of CPUs among which the slice is divided.
    #[serde(default = "one")]
    pub cpus: u16,
    /// Whether the parts of the slice are received at the same time.
    #[serde(default)]
    pub gang: bool,
    /// `soft` or `hard`.
    #[serde(default)]
    pub limit: Limit,
}

fn one() -> u16 {
    1
}

/// What happens to a VM that has used up its slice.
#[derive(Clone, Copy, Default, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Limit {
    /// It competes for the remaining time.
    #[default]
    Soft,
    /// It waits for its next period.
    Hard,
}

/// A thread of a VM.
#[derive(Clone, Default, Debug, Deserialize)]
#[serde(default)]
pub struct Thread {
    /// Whether the thread runs a vCPU.
    pub is_vcpu: bool,
    /// The bursts, as in the interface of the service. Unit: ns.
    pub bursts: Vec<Burst>,
    /// Whether the bursts were observed. A thread that slept throughout was observed, and has none.
    pub is_observed: bool,
}

impl Thread {
    fn demand(&self) -> Demand {
        Demand::of(&self.bursts[self.bursts.len().saturating_sub(BURSTS_MOST)..], self.is_observed)
    }
}

/// What a host would do.
#[derive(Clone, Debug, Serialize)]
pub struct Preview {
    /// The simulated time. Unit: ns.
    pub horizon_ns: u64,
    /// Whether the time is shorter than usual, because it has too many events.
    pub is_cut: bool,
    /// The scenario, and the files that it names.
    pub scenario: String,
    /// The files of the scenario, by name.
    pub files: BTreeMap<String, String>,
    /// The VMs, in the order of the request.
    pub vms: Vec<Predicted>,
}

/// What a VM would receive.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Predicted {
    /// Id of the VM.
    pub id: String,
    /// Whether the demand of a thread is not known, so that it counts as always runnable.
    pub is_assumed: bool,
    /// Number of periods in which the VM was runnable throughout.
    pub judged: u64,
    /// Number of these periods in which the VM received less CPU time than was due.
    pub missed: u64,
    /// CPU time. Unit: millionths of a CPU.
    pub delivered_ppm: u64,
    /// Number of wake-ups.
    pub wakeups: u64,
    /// 99th percentile of the time from a wake-up to the CPU; the largest of the vCPUs. Unit: ns.
    pub wakeup_p99_ns: u64,
    /// 99th percentile of the waits for a CPU; the largest of the vCPUs. Unit: ns.
    pub wait_p99_ns: u64,
    /// The longest wait for a CPU. Unit: ns.
    pub wait_max_ns: u64,
}

/// Runs the host of a request.
pub(crate) fn preview(request: &PreviewRequest) -> Result<Preview, Problems> {
    let horizon = Horizon::of(request)?;
    let (written, run) = begin(request, horizon)?;
    let (report, length) = match run {
        Ended::Finished(report) => (report, horizon.most),
        Ended::Cut(at) => {
            let shorter = at.saturating_since(Instant::ZERO);
            match written.run(written.read()?, Horizon { least: shorter, most: shorter })? {
                Ended::Finished(report) => (report, shorter),
                Ended::Cut(_) => return Err(Problem::new("the preview has too many events in no time").into()),
            }
        }
    };
    let Written { names, scenario, files } = written;
    let vms = request.vms.iter().zip(&names).map(|(vm, name)| predicted(vm, name, &report)).collect();
    Ok(Preview { horizon_ns: length.as_ns(), is_cut: length < horizon.least, scenario, files, vms })
}

/// Runs the host of a request. As in the core, a changed promise stays on its CPU if it fits there, and the other promises
/// stay where they are. If the policy refuses that, it places all promises anew.
fn begin(request: &PreviewRequest, horizon: Horizon) -> Result<(Written, Ended), Problems> {
    for stays in [|_: &PreviewVm| true, |vm: &PreviewVm| !vm.is_changed] {
        let written = write(request, stays);
        if let Ok(run) = written.run(written.read()?, horizon) {
            return Ok((written, run));
        }
    }
    let written = write(request, |_| false);
    let run = written.run(written.read()?, horizon)?;
    Ok((written, run))
}

/// The simulated time.
#[derive(Clone, Copy, Debug)]
struct Horizon {
    least: Nanos,
    /// The length of the observation, if that is longer and has few events.
    most: Nanos,
}

impl Horizon {
    /// Returns the simulated time of a request, whose values may be those of a slider.
    fn of(request: &PreviewRequest) -> Result<Horizon, Problem> {
        let promises = request.vms.iter().filter_map(|vm| vm.desired.promise.as_ref());
        let longest = promises.map(|promise| Nanos::ns(promise.period_ns)).max().unwrap_or(Nanos::ZERO);
        if longest > PERIOD_MOST {
            let reason = format!("a period of {longest} is too long for a preview");
            return Err(Problem::new(reason).help(format!("use at most {PERIOD_MOST}")));
        }
        let least = HORIZON.max(longest.saturating_mul(PERIODS));
        Ok(Horizon { least, most: least.max(Nanos::ns(request.observed_ns).min(PERIOD_MOST)) })
    }
}

/// A host as a scenario.
#[derive(Debug)]
struct Written {
    /// Names of the VMs.
    names: Vec<String>,
    scenario: String,
    files: BTreeMap<String, String>,
}

/// The end of a run.
#[derive(Debug)]
enum Ended {
    Finished(Box<Report>),
    /// The run had too many events until this instant.
    Cut(Instant),
}

impl Written {
    /// Reads the scenario. A mistake in it is one of the request.
    fn read(&self) -> Result<Scenario, Problems> {
        let files: BTreeMap<String, Vec<u8>> =
            self.files.iter().map(|(path, text)| (path.clone(), text.clone().into_bytes())).collect();
        let files: Arc<dyn Files> = Arc::new(files);
        Scenario::with_files("preview.toml", self.scenario.clone().into_bytes(), files)
    }

    /// Runs the scenario. Fails if the policy refuses a promise or a knob.
    fn run(&self, mut scenario: Scenario, horizon: Horizon) -> Result<Ended, Problems> {
        scenario.length = horizon.most;
        let scenario = Arc::new(scenario);
        let choices = run::choose(&scenario, &[], &[])?;
        let run = Run::new(Arc::clone(&scenario), choices.into_iter().next().expect("the scenario names a policy"));
        let (mut steps, mut at) = (0, Instant::ZERO);
        let goes_on = |progress: Progress| {
            steps += 1;
            at = progress.now;
            let is_enough = at.saturating_since(Instant::ZERO) >= horizon.least && horizon.least < horizon.most;
            steps <= if is_enough { STEPS_ENOUGH } else { STEPS_MOST }
        };
        let outcome = run.play_while(Observers::none(), goes_on)?;
        Ok(outcome.map_or(Ended::Cut(at), |outcome| Ended::Finished(Box::new(Report::of(outcome)))))
    }
}

/// Returns the names of VMs in a scenario: their ids, which are in messages, or numbers if an id cannot be a name.
fn names(vms: &[PreviewVm]) -> Vec<String> {
    let is_name = |id: &str| {
        let is_plain = |c: char| c.is_ascii_graphic() && !"/\"\\`".contains(c);
        (1..=NAME_MOST).contains(&id.len()) && id.chars().all(is_plain)
    };
    let all = vms.iter().enumerate();
    all.map(|(at, vm)| if is_name(&vm.id) { vm.id.clone() } else { format!("VM {at}") }).collect()
}

/// Returns the host of a request as a scenario. The promises of VMs for which `stays` is true stay on their CPUs. The other
/// VMs come after them.
fn write(request: &PreviewRequest, stays: fn(&PreviewVm) -> bool) -> Written {
    let (names, mut scenario, mut files) = (names(&request.vms), String::new(), BTreeMap::new());
    let mut line = |text: String| writeln!(scenario, "{text}").expect("text can be written to");
    line("name = \"preview\"".to_string());
    line(format!("cpus = {}", request.cpus));
    line(format!("length = \"{HORIZON}\""));
    let knobs = request.policy.knobs.iter().filter(|(name, _)| request.simulated || *name != ENFORCE);
    let knobs: Vec<String> = knobs.map(|(name, value)| format!("{name:?} = {value:?}")).collect();
    line(format!("policy = {{ name = {:?}, knobs = {{ {} }} }}", request.policy.name, knobs.join(", ")));
    let mut vms: Vec<_> = request.vms.iter().zip(&names).enumerate().collect();
    vms.sort_by_key(|(_, (vm, _))| !stays(vm));
    for (at, (vm, name)) in vms {
        let vcpus = vm.threads.iter().filter(|thread| thread.is_vcpu).count().max(1);
        let promise = vm.desired.promise.as_ref().filter(|_| !vm.desired.paused);
        let cpus = promise.map_or(vcpus, |promise| usize::from(promise.cpus.max(1)));
        line(format!("\n[[vm]]\nname = \"{name}\"\nvcpus = {cpus}\nguest = \"round-robin\""));
        if let Some(Promise { slice_ns, period_ns, gang, limit, .. }) = promise {
            let slice = slice_ns / cpus as u64;
            line(format!("slice = \"{slice}ns\"\nperiod = \"{period_ns}ns\"\ngang = {}", *gang && cpus > 1));
            if let Some(start) = vm.start(&request.policy) {
                line(format!("start = \"{start}ns\""));
            }
            line(format!("limit = \"{}\"", if matches!(limit, Limit::Hard) { "hard" } else { "soft" }));
        }
        let places: Vec<String> = vm.cpus.iter().filter(|cpu| **cpu < request.cpus).map(usize::to_string).collect();
        if promise.is_some() && stays(vm) && !places.is_empty() {
            line(format!("affinity = \"{}\"", places.join(",")));
        }
        if let Some(weight) = vm.desired.weight.filter(|_| !vm.desired.paused) {
            line(format!("cgroup_weight = {weight}"));
        }
        if let Some(cap) = vm.desired.cap_percent.filter(|_| !vm.desired.paused) {
            line(format!("cap = {cap}"));
        }
        for (number, thread) in vm.threads.iter().enumerate() {
            let Some(workload) = workload(thread, request.observed_ns, &format!("vm{at}-{number}.json"), &mut files)
            else {
                continue;
            };
            line(format!("[[vm.task]]\nname = \"thread-{number}\"\nworkload = {workload}"));
        }
    }
    Written { names, scenario, files }
}

/// Returns the workload of a thread, and adds its file; `None`: the thread sleeps throughout.
fn workload(thread: &Thread, observed_ns: u64, name: &str, files: &mut BTreeMap<String, String>) -> Option<String> {
    let (us, nearest) = (|ns: u64| ns.div_ceil(1_000), |ns: u64| (ns + 500) / 1_000);
    let (first, events): (u64, Vec<String>) = match thread.demand().after(observed_ns) {
        Demand::Nothing => return None,
        Demand::Always => return Some("\"hog\"".to_string()),
        Demand::Timer { first, period, jobs } => {
            let timer =
                format!("{{ \"ref\": \"timer\", \"period\": {}, \"mode\": \"absolute\" }}", nearest(period).max(1));
            let event = |(at, ran): (usize, u64)| format!("\"run{at}\": {}, \"timer{at}\": {timer}", us(ran));
            (first, jobs.into_iter().enumerate().map(event).collect())
        }
        Demand::Events { first, bursts } => {
            // A burst needs a sleep, so that time passes even if the CPU time is shorter than the unit of the file.
            let event = |(at, [ran, slept]): (usize, [u64; 2])| {
                format!("\"run{at}\": {}, \"sleep{at}\": {}", us(ran), us(slept).max(1))
            };
            (first, bursts.into_iter().enumerate().map(event).collect())
        }
    };
    let thread = format!("\"delay\": {}, \"loop\": -1, {}", us(first), events.join(", "));
    files.insert(name.to_string(), format!("{{ \"tasks\": {{ \"thread\": {{ {thread} }} }} }}\n"));
    Some(format!("{{ rt-app = \"{name}\" }}"))
}

/// Returns what the VM `name` of a report received.
fn predicted(vm: &PreviewVm, name: &str, report: &Report) -> Predicted {
    let siblings = format!("{name}/");
    let vcpus = report.entities.iter().filter(|entity| entity.name == name || entity.name.starts_with(&siblings));
    let mut predicted = Predicted {
        id: vm.id.clone(),
        is_assumed: vm.threads.iter().any(|thread| !thread.is_observed),
        judged: 0,
        missed: 0,
        delivered_ppm: 0,
        wakeups: 0,
        wakeup_p99_ns: 0,
        wait_p99_ns: 0,
        wait_max_ns: 0,
    };
    for vcpu in vcpus {
        let got = &vcpu.got;
        predicted.judged += got.periods_judged;
        predicted.missed += got.periods_missed;
        predicted.delivered_ppm += got.delivered_ppm;
        predicted.wakeups += got.wakeups;
        predicted.wakeup_p99_ns = predicted.wakeup_p99_ns.max(got.wakeup_p99_ns);
        predicted.wait_p99_ns = predicted.wait_p99_ns.max(got.wait_p99_ns);
        predicted.wait_max_ns = predicted.wait_max_ns.max(got.wait_max_ns);
    }
    predicted
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hog() -> Thread {
        Thread { is_vcpu: true, ..Thread::default() }
    }

    fn bursts(run_us: u64, sleep_us: u64) -> Thread {
        Thread { is_vcpu: true, bursts: vec![[0, run_us * 1_000, sleep_us * 1_000]], is_observed: true }
    }

    fn vm(id: &str, promise: Option<(u64, u64)>, threads: Vec<Thread>) -> PreviewVm {
        let promise = promise.map(|(slice_us, period_us)| Promise {
            slice_ns: slice_us * 1_000,
            period_ns: period_us * 1_000,
            cpus: 1,
            gang: false,
            limit: Limit::Soft,
        });
        let desired = Desired { promise, ..Desired::default() };
        PreviewVm { id: id.to_string(), desired, cpus: Vec::new(), is_changed: false, period_left_ns: None, threads }
    }

    /// A host with the policy of the core.
    fn host(cpus: usize, vms: Vec<PreviewVm>) -> PreviewRequest {
        let knobs = [("enforce", "hard"), ("late", "carry"), ("rest", "renew"), ("change", "due"), ("reserve", "10%")];
        let knobs = knobs.into_iter().map(|(name, value)| (name.to_string(), value.to_string())).collect();
        PreviewRequest {
            cpus,
            policy: HostPolicy { name: "gang-edf".to_string(), knobs },
            observed_ns: 0,
            simulated: false,
            vms,
        }
    }

    fn run(cpus: usize, vms: Vec<PreviewVm>) -> Preview {
        preview(&host(cpus, vms)).unwrap()
    }

    #[test]
    fn a_promise_is_kept_beside_busy_vms_and_is_refused_if_it_does_not_fit() {
        let others = || (0..3).map(|at| vm(&format!("hog {at}"), None, vec![hog()])).collect::<Vec<_>>();
        let with = |slice_us| {
            let promised = vec![vm("a/b", Some((slice_us, 10_000)), vec![hog(), hog()])];
            host(1, [promised, others()].concat())
        };
        let kept = preview(&with(2_000)).unwrap();
        let it = &kept.vms[0];
        assert_eq!((kept.horizon_ns, kept.is_cut, it.id.as_str()), (1_000_000_000, false, "a/b"));
        assert!(it.judged >= 98 && it.missed == 0 && it.delivered_ppm >= 200_000, "{it:?}");
        assert!(it.is_assumed);
        let refused = preview(&with(9_500)).unwrap_err().to_string();
        assert!(refused.contains("`VM 0`") && refused.contains("90.00 % can still be promised"), "{refused}");
        let sum: u64 = kept.vms.iter().map(|vm| vm.delivered_ppm).sum();
        assert!((990_000..=1_000_000).contains(&sum), "{kept:?}");
    }

    #[test]
    fn threads_repeat_their_bursts_and_a_thread_that_sleeps_does_nothing() {
        let asleep = Thread { is_vcpu: true, bursts: Vec::new(), is_observed: true };
        let vms = vec![
            vm("typing", Some((2_000, 10_000)), vec![bursts(1_000, 9_000)]),
            vm("asleep", None, vec![asleep]),
            vm("hog", None, vec![hog()]),
        ];
        let found = run(1, vms.clone());
        let longer = preview(&PreviewRequest { observed_ns: 4_000_000_000, ..host(1, vms) }).unwrap();
        assert_eq!((found.horizon_ns, longer.horizon_ns, longer.is_cut), (1_000_000_000, 4_000_000_000, false));
        let typing = &found.vms[0];
        assert!((95..=101).contains(&typing.wakeups) && !typing.is_assumed, "{typing:?}");
        assert!((95_000..=105_000).contains(&typing.delivered_ppm), "{typing:?}");
        assert_eq!(found.vms[1].delivered_ppm, 0);
        assert!(found.scenario.contains("rt-app") && found.files.len() == 1);
    }

    #[test]
    fn a_long_period_has_a_long_horizon_and_many_events_cut_it() {
        let long = run(1, vec![vm("a", Some((100_000, 1_000_000)), vec![hog()])]);
        assert_eq!((long.horizon_ns, long.is_cut), (5_000_000_000, false));
        let busy = (0..16).map(|at| vm(&at.to_string(), Some((100_000, 20_000_000)), vec![bursts(2, 2)])).collect();
        let cut = run(16, busy);
        assert!(cut.is_cut && (1..100_000_000_000).contains(&cut.horizon_ns), "{}", cut.horizon_ns);
        let request = host(1, vec![vm("a", Some((1_000, 61_000_000)), vec![hog()])]);
        assert!(preview(&request).unwrap_err().to_string().contains("too long"));
    }

    #[test]
    fn slice_and_cpus_are_divided_and_weights_caps_and_pauses_count() {
        let promise = Promise { slice_ns: 8_000_000, period_ns: 10_000_000, cpus: 2, gang: true, limit: Limit::Hard };
        let desired = Desired { promise: Some(promise), ..Desired::default() };
        let gang = PreviewVm {
            id: "gang".into(),
            desired,
            cpus: Vec::new(),
            is_changed: false,
            period_left_ns: None,
            threads: vec![hog(), hog()],
        };
        let mut paused = gang.clone();
        paused.desired.paused = true;
        let of = |vm: &PreviewVm| run(2, vec![vm.clone(), self::vm("hog", None, vec![hog(), hog()])]).vms.remove(0);
        let found = of(&gang);
        assert!(found.missed == 0 && (790_000..=810_000).contains(&found.delivered_ppm), "{found:?}");
        assert_eq!(of(&paused).judged, 0);
    }
}
