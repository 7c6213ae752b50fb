//! The keeper: the thread that finds what is new and watches over the guardian.

use super::{Setup, Shared, as_agent};
use crate::Reason;
use crate::dispatch::{Known, find};
use crate::guardian::Handle;
use crate::kernel::{Kernel, priority};
use crate::table::Table;
use sched::{Instant, Nanos};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use sys::attributes::{self, Attributes};
use sys::{Result, clock, thread};

/// How often threads and children that are new are looked for where the kernel does not tell: once in the shortest period,
/// within these.
const SCAN: (Nanos, Nanos) = (Nanos::ms(1), Nanos::ms(100));
/// The number of the keeper's bell.
pub(super) const ROUSE: u64 = 0;
/// How often the guardian is looked at.
const WATCH: Nanos = Nanos::ms(50);

/// Makes the calling thread the keeper: it runs as soon as nobody who was raised wants its CPU.
pub(super) fn enter() -> Result<()> {
    attributes::set(thread::current(), Attributes::raised(priority::SENTINEL))?;
    clock::set_slack(Nanos::ns(1))
}

/// Who has the guardian.
pub(super) struct Watcher<'s> {
    setup: &'s Setup,
    table: Arc<Table>,
    guardian: Option<Handle>,
}

impl<'s> Watcher<'s> {
    /// Begins a guardian.
    ///
    /// # Errors
    /// It does not come up: nobody may be raised then.
    pub(super) fn start(setup: &'s Setup, table: Arc<Table>) -> std::result::Result<Watcher<'s>, Reason> {
        let guardian = Some(Handle::start(&setup.directory, &table, &setup.executable)?);
        Ok(Watcher { setup, table, guardian })
    }

    fn is_alive(&mut self) -> bool {
        self.guardian.as_mut().is_some_and(|guardian| guardian.is_alive(&self.table, clock::now()))
    }

    /// Begins another one, once this one is gone for good.
    fn replace(&mut self) -> std::result::Result<(), Reason> {
        if let Some(dead) = self.guardian.take() {
            dead.kill();
        }
        self.guardian = Some(Handle::start(&self.setup.directory, &self.table, &self.setup.executable)?);
        Ok(())
    }

    /// Nobody is raised any more: it has nothing to guard.
    pub(super) fn stop(&mut self) {
        if let Some(guardian) = self.guardian.take() {
            guardian.stop();
        }
    }
}

/// Keeps until it is over.
pub(super) fn serve(shared: &Shared<'_>, watcher: &mut Watcher<'_>) -> Result<()> {
    let (mut births, mut told, mut watched) = (None, true, Instant::ZERO);
    let mut again = None;
    while !shared.over.load(Ordering::Acquire) {
        let now = clock::now();
        let mut looks_back = told || again.is_some();
        if watched.saturating_add(WATCH) <= now {
            watched = now;
            watch(shared, watcher);
            looks_back = true;
        }
        // Read before looking, so that who is born meanwhile is looked for again.
        let latest = shared.kernel.births().ok();
        if told || latest.is_none() || latest != births {
            births = latest;
            look(shared);
        }
        // Who was left by its parent at once is found only now; who was sent away has time.
        if looks_back {
            again = look_back(shared);
        }
        let pause = shared.looking().max(SCAN.0).min(SCAN.1).min(again.unwrap_or(WATCH));
        let heard = shared.rest.next(clock::now().saturating_add(pause.min(WATCH)))?;
        told = heard.is_some();
        if heard == Some(ROUSE) {
            let _ = shared.rouse.rings();
        }
    }
    Ok(())
}

/// Takes in the threads and children that are new.
fn look(shared: &Shared<'_>) {
    let (known, looking): (Vec<Known>, _) = as_agent(|| {
        let mut dispatcher = shared.lock();
        (dispatcher.known(), dispatcher.looking())
    });
    shared.looking.store(looking.map_or(u64::MAX, Nanos::as_ns), Ordering::Relaxed);
    for known in known {
        let found = find(shared.kernel, &known);
        if found.is_empty() {
            continue;
        }
        let answer = as_agent(|| shared.lock().adopt(known.tree, found));
        match answer {
            Ok(call) => shared.call(&call),
            Err(refused) => shared.warn(refused.reason()),
        }
    }
}

/// Looks again for whom those are beginning who were sent away. Says when to come back, if there are any left.
fn look_back(shared: &Shared<'_>) -> Option<Nanos> {
    let mut leaving = as_agent(|| shared.lock().take_leaving());
    if leaving.is_empty() {
        return None;
    }
    for (_, restoring) in &mut leaving {
        restoring.look(&shared.kernel, &shared.table);
    }
    as_agent(|| shared.lock().keep_leaving(leaving))
}

/// Without a guardian nobody may be raised: all are what they were until there is a new one.
fn watch(shared: &Shared<'_>, watcher: &mut Watcher<'_>) {
    if watcher.is_alive() {
        return;
    }
    as_agent(|| shared.lock().suspend());
    match watcher.replace() {
        Ok(()) => {
            let call = as_agent(|| shared.lock().resume());
            shared.call(&call);
        }
        Err(reason) => shared.fail(reason),
    }
}
