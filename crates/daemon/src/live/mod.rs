//! The daemon on this host: agents, sentinels, a keeper and a guardian around one [`Dispatcher`].
//!
//! Whoever takes the dispatcher's lock runs at the priority of an agent while it has it: an ordinary thread that was
//! preempted with it would keep every agent waiting.

mod agent;
mod keeper;

use crate::Reason;
use crate::directory::{Directory, Refused};
use crate::dispatch::{Dispatcher, EVENTS_MOST, Left, Refusal, Wish};
use crate::kernel::priority;
use crate::linux::{Linux, Sentinels};
use crate::restore::{self, PATIENCE};
use crate::table::{Beating, Table};
use agent::Post;
use keeper::Watcher;
use sched::{CpuSet, Descriptor, EntityId, Instant, Knobs, Nanos, PromiseState};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::Builder;
use sys::attributes::{self, Attributes};
use sys::event::{Bell, Waiting};
use sys::{affinity, clock, memory, thread};
use trace::Event;

/// How many threads the table of originals has room for.
const ROWS: usize = 4096;

/// The knobs of `edf` on a real host: the machine deals in time that was promised alone, a slice that ran over is taken from the
/// next, and periods follow the beat of who sleeps (docs/decisions/0012).
pub const WORDS: [(&str, &str); 4] =
    [("enforce", "hard"), ("placement", "partitioned"), ("late", "carry"), ("rest", "renew")];

/// How the daemon is set up.
#[derive(Clone, Debug)]
pub struct Setup {
    /// Where the table of originals and the lock are.
    pub directory: Directory,
    /// The program that is the guardian, when called so.
    pub executable: PathBuf,
    /// Who decides.
    pub policy: &'static Descriptor,
    /// And how.
    pub knobs: Knobs,
}

/// What the threads of the daemon share.
struct Shared<'k> {
    kernel: &'k Linux,
    dispatcher: Mutex<Dispatcher<&'k Linux>>,
    table: Arc<Table>,
    posts: Vec<Post>,
    /// By the number of the CPU, which post is there.
    places: Vec<Option<usize>>,
    /// What the keeper rests at; its bell.
    rest: Arc<Waiting>,
    rouse: Bell,
    over: AtomicBool,
    /// How often what is new has to be looked for where nobody tells. Unit: ns.
    looking: AtomicU64,
    warnings: Mutex<Vec<Reason>>,
    failure: Mutex<Option<Reason>>,
    /// Rung when something happened that the front has to know.
    news: Bell,
}

impl<'k> Shared<'k> {
    fn lock(&self) -> MutexGuard<'_, Dispatcher<&'k Linux>> {
        self.dispatcher.lock().expect("who panics with the dispatcher ends the daemon")
    }

    /// Calls the agents of these CPUs.
    fn call(&self, cpus: &CpuSet) {
        for cpu in cpus.iter() {
            if let Some(Some(place)) = self.places.get(cpu.index()) {
                self.posts[*place].call();
            }
        }
    }

    /// The CPUs that have an agent: those that this process might use when it began.
    fn cpus(&self) -> CpuSet {
        self.posts.iter().map(|post| post.cpu).collect()
    }

    /// How often what is new has to be looked for.
    fn looking(&self) -> Nanos {
        Nanos::ns(self.looking.load(Ordering::Relaxed))
    }

    fn warn(&self, reason: Reason) {
        let mut warnings = self.warnings.lock().unwrap_or_else(PoisonError::into_inner);
        if !warnings.contains(&reason) {
            warnings.push(reason);
        }
    }

    /// Waits until every agent has taken a turn: from then on the guardian expects them to.
    fn begin_beating(&self) {
        let has_begun = |place| self.table.beats(Beating::Agent(place)) > 0;
        while !(0..self.posts.len()).all(has_begun) && !self.over.load(Ordering::Acquire) {
            clock::sleep(Nanos::us(200));
        }
        if !self.over.load(Ordering::Acquire) {
            self.table.set_agents(self.posts.len());
        }
    }

    /// One of the threads of the daemon has failed: all is over.
    fn fail(&self, reason: Reason) {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(reason);
        self.end();
        restore_all(self);
        // Nobody is raised, and the agents end: the front may take its time to say what happened.
        self.table.set_agents(0);
    }

    fn end(&self) {
        self.over.store(true, Ordering::Release);
        self.posts.iter().for_each(Post::call);
        self.rouse.ring();
        self.news.ring();
    }
}

/// Does `work` at the priority of an agent.
fn as_agent<T>(work: impl FnOnce() -> T) -> T {
    let me = thread::current();
    let before = attributes::get(me).ok();
    // Without the privilege there are no agents either that could be kept waiting.
    // Nothing is begun in it; and from reset-on-fork there is no way back without CAP_SYS_NICE.
    let class = Attributes::of(attributes::Policy::Fifo { priority: priority::AGENT });
    let raised = attributes::apply(me, class).is_ok();
    let done = work();
    if let (true, Some(before)) = (raised, before) {
        let _ = attributes::apply(me, before);
    }
    done
}

/// The daemon, as whoever asks it for something sees it.
#[derive(Clone, Copy)]
pub struct Front<'a, 'k> {
    shared: &'a Shared<'k>,
}

impl std::fmt::Debug for Front<'_, '_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Front").field("over", &self.is_over()).finish_non_exhaustive()
    }
}

impl Front<'_, '_> {
    /// Promises what `wish` asks for to process `pid` and all it begins.
    ///
    /// # Errors
    /// It is refused; nothing has changed.
    pub fn admit(&self, wish: &Wish, pid: u32) -> Result<Vec<EntityId>, Refusal> {
        let ours = ancestors();
        // Where there is no agent nobody is served, though the process itself may run there.
        let wish = Wish { affinity: wish.affinity.and(&self.shared.cpus()), ..wish.clone() };
        self.await_leaving(pid);
        let (entities, call) = as_agent(|| self.shared.lock().admit(&wish, pid, &ours))?;
        self.shared.call(&call);
        self.shared.rouse.ring();
        Ok(entities)
    }

    /// Ends the promise to `e`.
    pub fn dismiss(&self, e: EntityId) {
        let call = as_agent(|| self.shared.lock().dismiss(e));
        self.shared.call(&call);
        self.shared.rouse.ring();
    }

    /// Waits while those of the family of process `pid` who were sent away just now may still be beginning others: whom they
    /// begin would be taken for what it was before there was a promise.
    fn await_leaving(&self, pid: u32) {
        let end = clock::now() + PATIENCE;
        while as_agent(|| self.shared.lock().is_leaving(pid)) && clock::now() < end {
            clock::sleep(Nanos::ms(1));
        }
    }

    /// Exchanges what has happened for an empty list. Says how many events were lost because nobody came in time.
    pub fn read_journal(&self, events: &mut Vec<(Instant, Event)>) -> u64 {
        // Memory is had before the lock is.
        events.clear();
        events.reserve(EVENTS_MOST);
        as_agent(|| self.shared.lock().read_journal(events))
    }

    /// Who is not served any more since this was last asked.
    #[must_use]
    pub fn take_left(&self) -> Vec<Left> {
        as_agent(|| self.shared.lock().take_left())
    }

    /// Since when the journal counts, by the monotonic clock.
    #[must_use]
    pub fn epoch(&self) -> Instant {
        as_agent(|| self.shared.lock().epoch())
    }

    /// Whether this host tells when `e` wakes.
    #[must_use]
    pub fn is_seen(&self, e: EntityId) -> bool {
        as_agent(|| self.shared.lock().is_seen(e))
    }

    /// The current period of the promise of `e`; `None` if the policy keeps no promise for it.
    #[must_use]
    pub fn promise(&self, e: EntityId) -> Option<PromiseState> {
        as_agent(|| self.shared.lock().machine().promise(e))
    }

    /// What went wrong without ending anything.
    #[must_use]
    pub fn warnings(&self) -> Vec<Reason> {
        self.shared.warnings.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Whether the daemon has failed and restores.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.shared.over.load(Ordering::Acquire)
    }

    /// Becomes readable when the daemon has failed.
    #[must_use]
    pub fn news(&self) -> &Bell {
        &self.shared.news
    }
}

/// This process and those that began it: whoever holds them holds the daemon.
fn ancestors() -> Vec<u32> {
    let mut all = vec![std::process::id(), 1];
    let mut pid = std::process::id();
    while let Ok(status) = thread::status(pid) {
        if status.parent <= 1 {
            break;
        }
        all.push(status.parent);
        pid = status.parent;
    }
    all
}

/// Why the daemon could not begin, or did not end as it should.
#[derive(Debug)]
pub enum Failure {
    /// There is one already.
    Running(Reason),
    /// It cannot be had here.
    Refused(Reason),
    /// One of its threads failed. All is what it was before.
    Failed(Reason),
}

impl From<Refused> for Failure {
    fn from(refused: Refused) -> Failure {
        match refused {
            Refused::Held(_) => Failure::Running(refused.into()),
            other => Failure::Refused(other.into()),
        }
    }
}

impl From<sys::Error> for Failure {
    fn from(error: sys::Error) -> Failure {
        Failure::Refused(error.into())
    }
}

/// Runs the daemon for as long as `front` does, and restores everything.
///
/// # Errors
/// See [`Failure`].
pub fn serve<R>(setup: &Setup, front: impl FnOnce(Front<'_, '_>) -> R) -> Result<R, Failure> {
    let held = setup.directory.lock()?;
    // What a daemon that died has left behind comes first.
    restore::replay(&Linux::new()?, &setup.directory, &held).map_err(Failure::Refused)?;
    // Each held thread takes some; where it may not be more, too many threads are refused.
    let _ = sys::privileges::raise_file_limit();
    memory::lock().or_else(|error| if error.remedy().is_some() { Ok(()) } else { Err(error) })?;
    let cpus = affinity::get(thread::current())?;
    let posts = cpus.iter().map(Post::new).collect::<sys::Result<Vec<Post>>>()?;
    let mut places = vec![None; posts.last().map_or(0, |post| post.cpu.index() + 1)];
    posts.iter().enumerate().for_each(|(place, post)| places[post.cpu.index()] = Some(place));
    let sentinels = Sentinels::start(posts.iter().map(|post| (post.cpu, Arc::clone(&post.quiet))))?;
    let waiting = posts.iter().map(|post| (post.cpu, Arc::clone(&post.waiting)));
    let (rest, rouse) = (Arc::new(Waiting::new()?), Bell::new()?);
    rest.add(&rouse, keeper::ROUSE)?;
    let kernel = Linux::with(sentinels, waiting, Some(Arc::clone(&rest)))?;
    let table = Arc::new(setup.directory.create_table(ROWS, &held).map_err(Failure::Refused)?);
    let mut watcher = Watcher::start(setup, Arc::clone(&table)).map_err(Failure::Refused)?;
    let dispatcher = Dispatcher::new(&kernel, Arc::clone(&table), setup.policy, &setup.knobs, places.len());
    let dispatcher = dispatcher.map_err(|refused| Failure::Refused(Reason::new(refused.to_string(), "")))?;
    let shared = Shared {
        kernel: &kernel,
        dispatcher: Mutex::new(dispatcher),
        table: Arc::clone(&table),
        posts,
        places,
        rest,
        rouse,
        over: AtomicBool::new(false),
        looking: AtomicU64::new(u64::MAX),
        warnings: Mutex::new(Vec::new()),
        failure: Mutex::new(None),
        news: Bell::new()?,
    };
    let answer = run(&shared, &mut watcher, front);
    // Once more by comparison: what the dispatcher could not give back, the table still knows; and who may have been beginning
    // others then.
    // Were that not all, the guardian would try again when this process has ended, and the next start after that.
    if restore::restore(&kernel, &table, clock::sleep).is_settled() {
        table.finish();
        watcher.stop();
        setup.directory.remove_table(&held).map_err(Failure::Failed)?;
    }
    match shared.failure.into_inner().unwrap_or_else(PoisonError::into_inner) {
        Some(reason) => Err(Failure::Failed(reason)),
        None => answer,
    }
}

/// Begins the threads, has `front` do what it wants, and ends them.
fn run<R>(
    shared: &Shared<'_>,
    watcher: &mut Watcher<'_>,
    front: impl FnOnce(Front<'_, '_>) -> R,
) -> Result<R, Failure> {
    std::thread::scope(|scope| {
        let agents = (0..shared.posts.len()).map(|place| {
            let name = format!("tactus-agent-{}", shared.posts[place].cpu);
            let body =
                move || guarded(shared, || agent::enter(shared.posts[place].cpu), || agent::serve(shared, place));
            Builder::new().name(name).spawn_scoped(scope, body)
        });
        let begun = agents.collect::<std::io::Result<Vec<_>>>();
        let keeper = Builder::new().name("tactus-keeper".to_string()).spawn_scoped(scope, move || {
            guarded(shared, keeper::enter, || keeper::serve(shared, watcher));
        });
        let begun = begun.and(keeper);
        let answer = match begun {
            Ok(_) => {
                shared.begin_beating();
                Ok(catch_unwind(AssertUnwindSafe(|| front(Front { shared }))))
            }
            Err(error) => Err(Failure::Refused(Reason::new(format!("cannot begin a thread: {error}"), ""))),
        };
        restore_all(shared);
        await_leaving(shared);
        // From here on nobody is raised, and nobody has to beat.
        shared.table.set_agents(0);
        shared.end();
        match answer? {
            Ok(answer) => Ok(answer),
            Err(panic) => std::panic::resume_unwind(panic),
        }
    })
}

/// Runs a thread of the daemon: whatever goes wrong in it ends all.
fn guarded(shared: &Shared<'_>, enter: impl FnOnce() -> sys::Result<()>, serve: impl FnOnce() -> sys::Result<()>) {
    let body = AssertUnwindSafe(|| enter().and_then(|()| serve()));
    match catch_unwind(body) {
        Ok(Ok(())) => {}
        Ok(Err(error)) => shared.fail(error.into()),
        Err(_) => {
            let me = std::thread::current();
            let why = format!("the thread {} found a law broken", me.name().unwrap_or("of the daemon"));
            shared.fail(Reason::new(why, "a report of this, with what was printed above"));
        }
    }
}

/// Waits while those who were sent away may still be beginning others, for whom the keeper looks. The agents go on beating: the
/// guardian takes over if this process hangs.
fn await_leaving(shared: &Shared<'_>) {
    let end = clock::now() + PATIENCE;
    let has_leaving = || as_agent(|| shared.dispatcher.lock().is_ok_and(|dispatcher| dispatcher.has_leaving()));
    shared.rouse.ring();
    while !shared.over.load(Ordering::Acquire) && has_leaving() && clock::now() < end {
        clock::sleep(Nanos::ms(1));
    }
}

/// Everybody is what it was: in order where the dispatcher is whole, from the table where it is not.
fn restore_all(shared: &Shared<'_>) {
    let orderly = catch_unwind(AssertUnwindSafe(|| {
        as_agent(|| match shared.dispatcher.lock() {
            Ok(mut dispatcher) => {
                dispatcher.dismiss_all();
                true
            }
            Err(_) => false,
        })
    }));
    if !matches!(orderly, Ok(true)) {
        // Whom they are beginning is found in the end.
        restore::restore_at_once(shared.kernel, &shared.table);
    }
}
