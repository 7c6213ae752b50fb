//! [`Withheld`]: CPU time that a machine keeps free for [interfering threads](crate::interfering).
//!
//! Interfering threads precede every client. On each CPU with clients, the machine therefore has one entity more, which
//! never wakes. Its period is the shortest period of the clients there, and its slice is what the interfering threads of
//! this CPU take at most within that period. In a longer interval, they take no larger share. The test of the policy,
//! Σ slice/period ≤ 1 − reserve, therefore covers the clients and the interfering threads together. The journal omits these
//! entities: they never run, and have no part in any decision but admission.

use crate::interfering::InterferingThread;
use sched::{CpuId, CpuSet, EntityId, Instant, Machine, Nanos, Params, Refused, Reservation};

const MILLION: u64 = 1_000_000;

/// An entity for the interfering threads of a CPU.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Placeholder {
    entity: EntityId,
    reservation: Reservation,
}

/// The interfering threads, and the entities of a machine for them.
#[derive(Default)]
pub(super) struct Withheld {
    threads: Vec<InterferingThread>,
    /// Indexed by CPU. Empty as long as nothing was withheld.
    placeholders: Vec<Option<Placeholder>>,
}

impl Withheld {
    /// Returns what is withheld for `threads`: nothing yet.
    pub(super) fn new(threads: Vec<InterferingThread>) -> Withheld {
        Withheld { threads, placeholders: Vec::new() }
    }

    /// Returns the interfering threads.
    pub(super) fn threads(&self) -> &[InterferingThread] {
        &self.threads
    }

    /// Sets the interfering threads. Later calls of [`Withheld::keep`] count these.
    pub(super) fn set_threads(&mut self, threads: Vec<InterferingThread>) {
        self.threads = threads;
    }

    /// Returns whether there is nothing to withhold, and nothing withheld.
    pub(super) fn is_nothing(&self) -> bool {
        self.threads.is_empty() && self.placeholders.iter().all(Option::is_none)
    }

    /// Returns the reservation for the interfering threads of `cpu` if the shortest period there is `shortest`.
    fn wanted(&self, cpu: CpuId, shortest: Option<Nanos>) -> Option<Reservation> {
        let period = shortest?;
        let here = self.threads.iter().filter(|thread| thread.cpus.contains(cpu));
        let slice = here.fold(Nanos::ZERO, |sum, thread| sum.saturating_add(thread.demand.within(period)));
        (!slice.is_zero()).then(|| Reservation::new(slice.min(period), period))
    }

    /// Withholds time on `cpu` for clients whose shortest period is `shortest`; `None`: no clients.
    ///
    /// # Errors
    /// The time does not fit beside the clients of the CPU. What is withheld stays as it was.
    pub(super) fn keep(
        &mut self,
        machine: &mut Machine,
        cpu: CpuId,
        shortest: Option<Nanos>,
        now: Instant,
    ) -> Result<(), Refused> {
        self.set(machine, cpu, self.wanted(cpu, shortest), now)
    }

    /// Withholds time like [`Withheld::keep`], but at most the time that fits. The interfering threads of a CPU may have
    /// become more since its promises were made.
    pub(super) fn keep_what_fits(&mut self, machine: &mut Machine, cpu: CpuId, shortest: Option<Nanos>, now: Instant) {
        let Err(Refused::Utilisation { free_ppm, .. }) = self.keep(machine, cpu, shortest, now) else {
            return;
        };
        let slice = |period: Nanos| period.scale(free_ppm, MILLION);
        let most = shortest.map(|period| Reservation::new(slice(period), period));
        // What was withheld stays if this does not fit, either.
        let _ = self.set(machine, cpu, most.filter(|most| !most.slice.is_zero()), now);
    }

    fn set(
        &mut self,
        machine: &mut Machine,
        cpu: CpuId,
        wanted: Option<Reservation>,
        now: Instant,
    ) -> Result<(), Refused> {
        let had = self.placeholders.get(cpu.index()).copied().flatten();
        if wanted == had.map(|placeholder| placeholder.reservation) {
            return Ok(());
        }
        let affinity = CpuSet::one(cpu);
        let params = |reservation| Params { reservation: Some(reservation), affinity, ..Params::default() };
        let placeholder = match (had, wanted) {
            (None, None) => None,
            (Some(Placeholder { entity, .. }), None) => {
                machine.detach(now, entity);
                None
            }
            (None, Some(reservation)) => {
                Some(Placeholder { entity: machine.attach(now, params(reservation))?, reservation })
            }
            (Some(Placeholder { entity, .. }), Some(reservation)) => {
                machine.adjust(now, entity, params(reservation))?;
                Some(Placeholder { entity, reservation })
            }
        };
        if self.placeholders.len() <= cpu.index() {
            self.placeholders.resize(cpu.index() + 1, None);
        }
        self.placeholders[cpu.index()] = placeholder;
        Ok(())
    }
}
