//! The service of this machine with many VMs, as its clients see it: the part of `cargo xtask bench` about `tactus serve`.
//!
//! The VMs are sleeping processes with the command lines of VMs. The service has a core of its own. Each line states what was
//! measured and the bound that the project has set itself. `--runs` is the number of times that each is measured; the
//! benchmark reports the median, with minimum and maximum.

use api::{Client, Desired, Limit, Mechanism, Promise};
use sched::Nanos;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use sys::child::{Child as Hog, Work};
use sys::clock;
use sys::process::Process;
use sys::thread::{self, Thread};
use tempfile::TempDir;

/// Maximum time for the service to find all VMs, and to end.
const PATIENCE: Nanos = Nanos::s(60);
/// Time for which the idle service is measured.
const IDLE: Nanos = Nanos::s(10);
/// Interval between two paced changes, and their number.
const PACE: (Nanos, u32) = (Nanos::ms(10), 1_000);
/// Number of clients that make the paced changes.
const CLIENTS: u32 = 4;
/// Number of changes in a burst.
const BURST: u32 = 10_000;

/// A process with the command line of a VM.
struct Vm(Child);

impl Vm {
    /// Starts a VM that sleeps.
    fn start(number: usize) -> Vm {
        Vm::run(number, "read line")
    }

    /// Starts a VM that is always runnable.
    fn spin(number: usize) -> Vm {
        Vm::run(number, "while :; do :; done")
    }

    fn run(number: usize, work: &str) -> Vm {
        let mut vm = Command::new("sh");
        let name = format!("guest=vm{number:04}");
        vm.arg0("qemu-system-x86_64").args(["-c", work, "sh", "-name", &name]);
        Vm(vm.stdin(Stdio::piped()).stdout(Stdio::null()).spawn().expect("there is room for a process"))
    }
}

impl Drop for Vm {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A service with a core of its own.
struct Service {
    place: TempDir,
    process: Child,
    client: Client,
}

impl Service {
    fn begin() -> Service {
        let place = TempDir::new().expect("there is room for a temporary directory");
        let mut serve = Command::new(env!("CARGO_BIN_EXE_tactus"));
        serve.args(["serve", "--socket", "api.sock", "--state", "state", "--directory", "live"]);
        serve.args(["--labels", "none", "--libvirt", "none"]).current_dir(place.path()).stdin(Stdio::null());
        let process = serve.stderr(Stdio::null()).spawn().expect("the service starts");
        let client = Client::at(&place.path().join("api.sock")).expect("a client needs no service yet");
        let service = Service { place, process, client };
        until("the service has a core", || service.client.host().is_ok_and(|host| host.core.is_some()));
        service
    }

    /// Waits until the service knows this number of VMs.
    fn await_vms(&self, count: usize) {
        until("all VMs are found", || self.client.list().is_ok_and(|all| all.vms.len() >= count));
    }

    /// Returns the CPU time of the front end.
    fn cpu_time(&self) -> Nanos {
        let tids = thread::threads(self.process.id()).expect("the service runs");
        let ran = |tid: u32| Thread::open(tid)?.meter()?.read();
        tids.into_iter().filter_map(|tid| ran(tid).ok()).fold(Nanos::ZERO, |sum, usage| sum + usage.ran)
    }

    /// Returns the largest resident set of the front end so far. Unit: MiB.
    fn memory(&self) -> f64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.process.id())).expect("the service runs");
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("the kernel reports it");
        line.split_whitespace().next().and_then(|kib| kib.parse::<f64>().ok()).expect("it is a number") / 1024.0
    }

    fn socket(&self) -> std::path::PathBuf {
        self.place.path().join("api.sock")
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        if let Ok(process) = Process::open(self.process.id()) {
            let _ = process.terminate();
            let _ = process.ends_within(PATIENCE);
        }
        let _ = self.process.wait();
    }
}

fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let end = clock::now() + PATIENCE;
    while !is_so() {
        assert!(clock::now() < end, "not within {PATIENCE}: {what}");
        clock::sleep(Nanos::ms(10));
    }
}

fn promise(slice: Nanos, period: Nanos) -> Desired {
    let promise = Promise {
        slice_ns: slice.as_ns(),
        period_ns: period.as_ns(),
        cpus: 1,
        gang: false,
        limit: Limit::Soft,
        mechanism: Mechanism::Auto,
    };
    Desired { promise: Some(promise), ..Desired::default() }
}

/// The durations of many requests. Unit: ms.
struct Times(Vec<f64>);

impl Times {
    /// Measures `count` requests that begin every `pace`.
    fn of(count: u32, pace: Nanos, mut request: impl FnMut(u32)) -> Times {
        let mut next = clock::now();
        let time = |number| {
            clock::sleep_until(next);
            // A late request counts from its planned begin.
            request(number);
            let took = clock::now().saturating_since(next);
            next = if pace.is_zero() { clock::now() } else { next + pace };
            took.as_ns() as f64 / 1e6
        };
        Times::sorted((0..count).map(time).collect())
    }

    fn sorted(mut times: Vec<f64>) -> Times {
        times.sort_by(f64::total_cmp);
        Times(times)
    }

    fn quantile(&self, percent: usize) -> f64 {
        self.0[(self.0.len() - 1) * percent / 100]
    }
}

/// Returns the median of `figures`, with minimum and maximum.
fn spread(mut figures: Vec<f64>) -> (f64, f64, f64) {
    figures.sort_by(f64::total_cmp);
    (figures[figures.len() / 2], figures[0], figures[figures.len() - 1])
}

/// Measures `runs` times, and prints the result beside its bound.
fn report(runs: usize, what: &str, unit: &str, most: f64, mut measure: impl FnMut() -> f64) {
    let (median, least, largest) = spread((0..runs).map(|_| measure()).collect());
    let verdict = if median <= most { "met" } else { "NOT met" };
    println!("{what:<58}{median:>9.2} {unit:<4} ({least:.2} to {largest:.2}), at most {most}: {verdict}");
}

/// The time in which the command `tactus list` prints all VMs. Unit: ms.
fn time_of_list(socket: &Path) -> f64 {
    let begin = clock::now();
    let mut list = Command::new(env!("CARGO_BIN_EXE_tactus"));
    let done = list.args(["list", "--socket"]).arg(socket).stdout(Stdio::null()).status();
    assert!(done.is_ok_and(|status| status.success()));
    clock::now().since(begin).as_ns() as f64 / 1e6
}

fn with_100_vms(runs: usize) {
    let vms: Vec<Vm> = (0..100).map(Vm::start).collect();
    let service = Service::begin();
    service.await_vms(vms.len());
    clock::sleep(Nanos::s(2));
    report(runs, "CPU time of the idle front end with 100 VMs", "%", 0.5, || {
        let (begin, before) = (clock::now(), service.cpu_time());
        clock::sleep(IDLE);
        let ran = service.cpu_time() - before;
        ran.as_ns() as f64 * 100.0 / clock::now().since(begin).as_ns() as f64
    });
    let set = |number: u32| {
        let vm = format!("vm{:04}", number % 50);
        let slice = Nanos::us(100 + u64::from(number / 50 % 2) * 10);
        let set = service.client.set(&vm, None, &promise(slice, Nanos::ms(100)), None);
        set.unwrap_or_else(|error| panic!("{vm}: {error}"));
    };
    report(runs, "100 changes a second by four clients, 99 of 100", "ms", 50.0, || {
        let of_client = |client: u32| {
            let _ = sys::attributes::run_promptly();
            // The clients begin one after another, and each has VMs of its own.
            clock::sleep(PACE.0.saturating_mul(u64::from(client)));
            Times::of(PACE.1 / CLIENTS, PACE.0.saturating_mul(u64::from(CLIENTS)), |nth| set(CLIENTS * nth + client))
        };
        let of_client = &of_client;
        let all = std::thread::scope(|scope| {
            let clients: Vec<_> = (0..CLIENTS).map(|client| scope.spawn(move || of_client(client))).collect();
            clients.into_iter().flat_map(|client| client.join().expect("a client does not panic").0).collect()
        });
        Times::sorted(all).quantile(99)
    });
    let begin = clock::now();
    let burst = Times::of(BURST, Nanos::ZERO, set);
    let took = clock::now().since(begin).as_ns() as f64 / 1e9;
    println!(
        "{BURST} changes in a row: {:.0} a second, none lost, 99 % within {:.2} ms",
        f64::from(BURST) / took,
        burst.quantile(99)
    );
}

/// Reads the live stream of a page until the connection is closed. Returns the number of its messages with VMs.
fn read_live(socket: &Path) -> std::io::Result<(UnixStream, std::thread::JoinHandle<usize>)> {
    let mut stream = UnixStream::connect(socket)?;
    stream.write_all(b"GET /v1/live?interval_ms=100 HTTP/1.1\r\nhost: tactus\r\n\r\n")?;
    let lines = BufReader::new(stream.try_clone()?).lines().map_while(Result::ok);
    let count = || lines.filter(|line| line.starts_with("event: vms")).count();
    Ok((stream, std::thread::spawn(count)))
}

fn with_a_page(runs: usize) {
    let vms: Vec<Vm> = (0..100).map(Vm::spin).collect();
    let service = Service::begin();
    service.await_vms(vms.len());
    for number in 0..vms.len() {
        let set = service.client.set(&format!("vm{number:04}"), None, &promise(Nanos::us(500), Nanos::ms(50)), None);
        set.unwrap_or_else(|error| panic!("{number}: {error}"));
    }
    report(runs, "CPU time of the front end with 100 VMs and a page", "%", 5.0, || {
        let (stream, count) = read_live(&service.socket()).expect("the service answers");
        clock::sleep(Nanos::s(1));
        let (begin, before) = (clock::now(), service.cpu_time());
        clock::sleep(IDLE);
        let ran = service.cpu_time() - before;
        let percent = ran.as_ns() as f64 * 100.0 / clock::now().since(begin).as_ns() as f64;
        stream.shutdown(std::net::Shutdown::Both).expect("it is connected");
        let updates = count.join().expect("the reader does not panic");
        assert!(updates >= 90, "{updates} updates in 11 s, and not ten a second");
        percent
    });
}

fn with_1000_vms(runs: usize) {
    let vms: Vec<Vm> = (0..1_000).map(Vm::start).collect();
    let service = Service::begin();
    service.await_vms(vms.len());
    report(runs, "the command `tactus list` with 1,000 VMs", "ms", 100.0, || time_of_list(&service.socket()));
    report(1, "memory of the front end with 1,000 VMs", "MiB", 60.0, || service.memory());
}

fn beside_hogs(runs: usize) {
    let spin = Work::Spin { busy: Nanos::ms(1), idle: Nanos::ZERO };
    let hogs: Vec<Hog> = (0..7).map(|_| Hog::start(spin).expect("there is room for a process")).collect();
    let service = Service::begin();
    let vm = format!("pid:{}", hogs[0].pid());
    // As the commands do. The hogs do not inherit it.
    let _ = sys::attributes::run_promptly();
    report(runs, "a change in force beside six hogs, 99 of 100", "ms", 100.0, || {
        let change = |number: u32| {
            let slice = Nanos::ms(1 + u64::from(number % 4));
            let set = service.client.set(&vm, None, &promise(slice, Nanos::ms(10)), None);
            set.unwrap_or_else(|error| panic!("{error}"));
        };
        // The children of this process live for a minute.
        Times::of(500, Nanos::ms(20), change).quantile(99)
    });
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|argument| argument != "--bench").collect();
    let at = arguments.iter().position(|argument| argument == "--runs");
    let runs = at.and_then(|at| arguments.get(at + 1)?.parse().ok()).unwrap_or(3);
    sys::privileges::raise_file_limit().expect("the limit of open files can be raised");
    with_100_vms(runs);
    with_a_page(runs);
    with_1000_vms(runs);
    beside_hogs(runs);
}
