//! Boosts of the vCPUs of a VM by the hints of its guest: a thread reads the hints of the guest's agent, and lends the vCPUs a priority for a
//! short time.
//!
//! ```text
//! port of the VM ──▶ Booster (crate coordination) ──▶ donors of the vCPUs, and of the threads on the way of their interrupts
//! ```
//!
//! No attribute of the VM changes: donors lend the priority. A watcher ends all loans when the thread hangs. When this process ends or is
//! stopped, the kernel ends each loan as soon as its donor runs, which may wait while the boosted thread spins on its CPU: a guardian
//! that lowers the donors, as the core's does, is not part of this version.

use coordination::wire::{FromGuest, FromHost, Refusal, VERSION};
use coordination::{Boost, Booster, Coordination, EXPIRY, Stream};
use sched::{Instant, Nanos};
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use sys::attributes::{self, Attributes};
use sys::clock::Timer;
use sys::event::{Bell, Waiting};
use sys::inheritance::Donor;
use sys::thread::{Identity, Thread};
use sys::usage::Meter;
use sys::{Error, Result, clock, thread};

/// Maximum number of bytes that are read at once, the pause after a read of so many, and that after any other read: a guest that floods its
/// port takes no more of the host.
const READ_MOST: usize = 64 * coordination::wire::SIZE;
const FLOODED: Nanos = Nanos::ms(5);
const READ_APART: Nanos = Nanos::us(200);
/// Maximum priority of a boost: the threads above it stay below the clients of the core.
const PRIORITY_MOST: u8 = 90;
/// Time from a decision until the watcher ends all loans, unless another decision is made.
const HANGS: Nanos = Nanos::ms(12);
/// The sources of events.
const END: u64 = 0;
const PORT: u64 = 1;
const ALARM: u64 = 2;

/// The threads of a VM.
#[derive(Clone, Debug)]
pub struct VmThreads {
    /// The threads of the vCPUs, in the order of the guest's CPUs.
    pub vcpus: Vec<Identity>,
    /// The threads on the way of interrupts to the vCPUs: the main loop, and those of vhost. They are boosted with any vCPU, one priority
    /// above it: the interrupt that wakes an urgent task comes from them.
    pub carriers: Vec<Identity>,
}

/// What came of the hints of a VM.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Boosted {
    /// Number of hints.
    pub hints: u64,
    /// Number of boosts of vCPUs.
    pub boosts: u64,
    /// CPU time of the vCPUs and of the carriers while they were boosted.
    pub boosted: Nanos,
    /// Number of bytes that were no message, and of hints that came late, twice or about a vCPU that the guest lacks.
    pub dropped: u64,
}

/// A thread with its donor.
struct Lent {
    donor: Donor,
    meter: Meter,
    /// CPU time at the last decision.
    counted: Nanos,
}

impl Lent {
    fn begin(identity: Identity) -> Result<Lent> {
        let donor = Donor::start(Arc::new(Bell::new()?))?;
        donor.lend_to(identity.tid)?;
        // The tid may have been reused before the loan began.
        let thread = Thread::open_as(identity)?;
        Ok(Lent { donor, meter: thread.meter()?, counted: Nanos::ZERO })
    }

    /// Lends a priority. A thread that has ended gets none.
    fn set(&self, priority: Option<u32>) -> Result<()> {
        match self.donor.set(priority) {
            Err(Error::Gone(_)) => Ok(()),
            result => result,
        }
    }

    /// Returns the CPU time since the last call, which a caller may only want to begin anew.
    fn used(&mut self) -> Nanos {
        let ran = self.meter.read().map_or(self.counted, |usage| usage.ran);
        let used = ran.saturating_sub(self.counted);
        self.counted = ran;
        used
    }
}

/// The donors of a VM. The watcher ends their loans if the thread with the hints hangs.
struct Donors {
    vcpus: Vec<Lent>,
    carriers: Vec<Lent>,
}

impl Donors {
    fn begin(threads: &VmThreads) -> Result<Donors> {
        let begin = |all: &[Identity]| all.iter().map(|&identity| Lent::begin(identity)).collect::<Result<Vec<Lent>>>();
        Ok(Donors { vcpus: begin(&threads.vcpus)?, carriers: begin(&threads.carriers)? })
    }

    fn tids(&self) -> Vec<u32> {
        self.vcpus.iter().chain(&self.carriers).map(|lent| lent.donor.tid()).collect()
    }
}

/// Reads hints from `port`, and boosts the vCPUs, until `end` rings or the VM closes the port. The calling thread gets a real-time priority,
/// two above that of a boost.
///
/// # Errors
/// A thread of the VM has ended or is no thread of a VM, the privilege for a real-time priority lacks, or the boost of `with` is no priority
/// of at most 90.
pub fn serve(port: UnixStream, threads: &VmThreads, with: Coordination, end: &Bell) -> Result<Boosted> {
    let priority = priority_of(with.boost)?;
    port.set_nonblocking(true).map_err(|source| Error::Call { what: "read a port".to_string(), source })?;
    // Donors start with the attributes of this thread.
    let donors = Donors::begin(threads)?;
    let (alarm, alarms, over) = (Timer::new()?, Waiting::new()?, AtomicBool::new(false));
    alarms.add(&alarm, ALARM)?;
    let tids = donors.tids();
    std::thread::scope(|scope| {
        let watcher = std::thread::Builder::new().name("tactus-lapse".to_string());
        let watching = watcher.spawn_scoped(scope, || watch((&alarm, &alarms), &over, &tids, priority + 3));
        watching.map_err(|source| Error::Call { what: "start a watcher".to_string(), source })?;
        let served = attributes::set(thread::current(), Attributes::raised(priority + 2)).and_then(|()| {
            let vcpus = donors.vcpus.len();
            let mut serving = Serving {
                port,
                stream: Stream::default(),
                booster: Booster::new(with, vcpus, clock::now()),
                with,
                priority,
                donors,
                alarm: &alarm,
                boosted: vec![false; vcpus],
                is_welcome: false,
                resumes: Instant::ZERO,
                found: Boosted::default(),
            };
            serving.run(end)
        });
        over.store(true, Ordering::Release);
        // The watcher ends at its next alarm.
        alarm.set(clock::now())?;
        served
    })
}

/// Returns the real-time priority of a boost, with room for those above it.
fn priority_of(boost: Boost) -> Result<u32> {
    match boost {
        Boost::Class { priority, .. } if priority.number() <= PRIORITY_MOST => Ok(u32::from(priority.number())),
        _ => Err(Error::Absent {
            what: "this boost".to_string(),
            why: format!("a vCPU is boosted to a real-time priority of at most {PRIORITY_MOST}"),
            remedy: "choose a boost such as rr:8",
        }),
    }
}

/// Ends all loans when the alarm goes off: no decision was made in time.
fn watch((alarm, alarms): (&Timer, &Waiting), over: &AtomicBool, donors: &[u32], priority: u32) {
    // Without the priority, the watcher is late on a busy host.
    let _ = attributes::set(thread::current(), Attributes::raised(priority));
    loop {
        let went_off = matches!(alarms.next(Instant::NEVER), Ok(Some(ALARM))) && alarm.went_off();
        // The donors have ended, and other threads may have their tids.
        if over.load(Ordering::Acquire) {
            return;
        }
        if !went_off {
            continue;
        }
        for &donor in donors {
            // A donor may have ended meanwhile.
            let _ = attributes::apply(donor, Attributes::of(attributes::Policy::Other { nice: 19 }));
        }
    }
}

/// The thread that reads hints.
struct Serving<'a> {
    port: UnixStream,
    stream: Stream,
    booster: Booster,
    with: Coordination,
    priority: u32,
    donors: Donors,
    alarm: &'a Timer,
    /// Whether each vCPU is boosted.
    boosted: Vec<bool>,
    /// Whether the last hello was welcome.
    is_welcome: bool,
    /// Instant from which the port is read again.
    resumes: Instant,
    found: Boosted,
}

impl Serving<'_> {
    fn run(&mut self, end: &Bell) -> Result<Boosted> {
        let (alone, both) = (Waiting::new()?, Waiting::new()?);
        alone.add(end, END)?;
        both.add(end, END)?;
        both.add(&self.port, PORT)?;
        loop {
            let now = clock::now();
            let next = self.booster.next();
            let event = match self.resumes > now {
                true => alone.next(next.min(self.resumes))?,
                false => both.next(next)?,
            };
            match event {
                Some(END) => break,
                Some(PORT) if !self.read() => break,
                _ => {}
            }
            self.decide()?;
        }
        self.booster.clear();
        self.decide()?;
        self.found.boosted = self.booster.boosted();
        self.found.dropped = self.stream.skipped + self.booster.dropped();
        Ok(self.found)
    }

    /// Reads messages. Returns false if the VM has closed the port.
    fn read(&mut self) -> bool {
        let mut bytes = [0; READ_MOST];
        let length = match self.port.read(&mut bytes) {
            Ok(0) => return false,
            Ok(length) => length,
            Err(error) => return matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted),
        };
        let now = clock::now();
        self.resumes = now.saturating_add(if length == READ_MOST { FLOODED } else { READ_APART });
        let mut messages = Vec::new();
        self.stream.read(&bytes[..length], FromGuest::read, |message| messages.push(message));
        for message in messages {
            match message {
                FromGuest::Hello { vcpus, versions, .. } => self.answer(vcpus, versions),
                FromGuest::Hint(_) if !self.is_welcome => {}
                FromGuest::Hint(hint) => {
                    self.found.hints += 1;
                    self.booster.receive(hint, now);
                }
                FromGuest::Goodbye => self.booster.clear(),
            }
        }
        true
    }

    /// Answers a hello. All earlier hints are void.
    fn answer(&mut self, vcpus: u16, (oldest, newest): (u8, u8)) {
        self.booster.clear();
        let answer = if !(oldest..=newest).contains(&VERSION) {
            FromHost::Refused(Refusal::Version)
        } else if usize::from(vcpus) != self.donors.vcpus.len() {
            FromHost::Refused(Refusal::Vcpus)
        } else {
            let Coordination { protocol, budget, window, .. } = self.with;
            FromHost::Welcome { version: VERSION, protocol, budget, window }
        };
        self.is_welcome = matches!(answer, FromHost::Welcome { .. });
        // The host never waits for a guest: an agent that misses the answer says hello again.
        let _: io::Result<usize> = self.port.write(&answer.bytes());
    }

    fn decide(&mut self) -> Result<()> {
        let is_boosted = self.boosted.clone();
        let was_any = is_boosted.contains(&true);
        let of_vcpu = |(lent, &is_boosted): (&mut Lent, &bool)| if is_boosted { lent.used() } else { Nanos::ZERO };
        let used: Vec<Nanos> = self.donors.vcpus.iter_mut().zip(&is_boosted).map(of_vcpu).collect();
        if was_any {
            self.spend_carriers();
        }
        let boosted = &mut self.boosted;
        self.booster.decide(clock::now(), &used, |vcpu, boost| boosted[vcpu] = boost.is_some());
        let is_any = boosted.contains(&true);
        let lapse = clock::now().saturating_add(EXPIRY).saturating_add(HANGS);
        self.alarm.set(if is_any { lapse } else { Instant::NEVER })?;
        if is_any && !was_any {
            self.donors.carriers.iter().try_for_each(|lent| lent.set(Some(self.priority + 1)))?;
            for lent in &mut self.donors.carriers {
                lent.used();
            }
        }
        for (vcpu, lent) in self.donors.vcpus.iter_mut().enumerate() {
            if self.boosted[vcpu] == is_boosted[vcpu] {
                continue;
            }
            // The kernel brings the CPU time of a thread up to date when its priority changes, and else at a tick.
            lent.set(self.boosted[vcpu].then_some(self.priority))?;
            let time = lent.used();
            if self.boosted[vcpu] {
                self.found.boosts += 1;
            } else {
                self.booster.spend(time);
            }
        }
        if was_any && !is_any {
            self.donors.carriers.iter().try_for_each(|lent| lent.set(None))?;
            self.spend_carriers();
        }
        Ok(())
    }

    /// Counts the CPU time of the carriers since the last call.
    fn spend_carriers(&mut self) {
        for lent in &mut self.donors.carriers {
            self.booster.spend(lent.used());
        }
    }
}
