//! [`Enforced`]: what a core keeps for one VM, and how that becomes what is desired.

use crate::inventory::Found;
use crate::terms::{differ_in_times_only, request, share};
use api::Desired;
use daemon::dispatch::{PromiseRequest, Refusal};
use daemon::kernel::CpuShare;
use daemon::live::{Client, PromiseInForce};
use sched::EntityId;

/// What a core keeps for one VM.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub(crate) struct Enforced {
    promise: Option<(PromiseRequest, Vec<EntityId>)>,
    share: Option<CpuShare>,
}

impl Enforced {
    /// Returns what a core keeps for a VM according to its roster.
    pub(crate) fn of(promise: Option<PromiseInForce>, share: Option<CpuShare>) -> Enforced {
        Enforced { promise: promise.map(|it| (it.request, it.entities)), share }
    }

    /// Returns the entities of the promise.
    pub(crate) fn entities(&self) -> &[EntityId] {
        self.promise.as_ref().map_or(&[], |(_, entities)| entities)
    }

    /// Returns the request of the promise.
    pub(crate) fn request(&self) -> Option<&PromiseRequest> {
        self.promise.as_ref().map(|(request, _)| request)
    }

    /// Returns whether the VM has a share of the CPUs.
    pub(crate) fn has_share(&self) -> bool {
        self.share.is_some()
    }

    /// Returns whether this is what is desired for `vm`.
    pub(crate) fn is_desired(&self, core: &Client, vm: &Found, desired: &Desired) -> bool {
        let (promise, share) = wanted(core, vm, desired);
        self.request() == promise.as_ref() && self.share == share
    }

    /// Ends what is left of a promise, after the core has dismissed its entity `e`. A promise without one of its CPUs is not
    /// what is desired.
    pub(crate) fn dismissed(&mut self, core: &Client, e: EntityId) {
        let rest = self.promise.take().map(|(_, entities)| entities).unwrap_or_default();
        rest.iter().filter(|other| **other != e).for_each(|&other| core.dismiss(other));
    }

    /// Makes `core` keep what is desired for `vm`.
    ///
    /// # Errors
    /// The core refuses it. What was in force before is in force again, unless the core refuses that, too
    /// ([`is_desired`](Enforced::is_desired)).
    pub(crate) fn become_desired(&mut self, core: &Client, vm: &Found, desired: &Desired) -> Result<(), Refusal> {
        let (wanted, wanted_share) = wanted(core, vm, desired);
        let (before, before_share) = (self.request().cloned(), self.share);
        self.change(core, vm, wanted, wanted_share).inspect_err(|_| {
            // The promise and the share of before had room, and have it again.
            let _ = self.change(core, vm, before, before_share);
        })
    }

    /// Returns whether `core` would make the promise that is desired for `vm`. Nothing changes.
    ///
    /// # Errors
    /// The core would refuse it.
    pub(crate) fn would_become(&self, core: &Client, vm: &Found, desired: &Desired) -> Result<(), Refusal> {
        let (Some(wanted), _) = wanted(core, vm, desired) else { return Ok(()) };
        match &self.promise {
            Some((before, _)) if *before == wanted => Ok(()),
            Some((before, entities)) if differ_in_times_only(before, &wanted) => {
                core.would_adjust(entities[0], wanted.reservation.slice, wanted.reservation.period)
            }
            before => {
                let instead = before.as_ref().and_then(|(_, entities)| entities.first().copied());
                core.would_admit(&wanted, vm.identity().into(), instead)
            }
        }
    }

    /// Changes the promise and the share. After a refusal, a part of the change may be in force.
    fn change(
        &mut self,
        core: &Client,
        vm: &Found,
        wanted: Option<PromiseRequest>,
        share: Option<CpuShare>,
    ) -> Result<(), Refusal> {
        if self.share != share {
            // Linux does not move a thread that inherits a real-time priority into a group of version 1 without real-time
            // runtime, so the share changes while no promise is in force.
            self.promise(core, vm, None)?;
            self.give(core, vm, share)?;
        }
        self.promise(core, vm, wanted)
    }

    /// Makes, changes or ends the promise. After a refusal of a changed slice or period, the promise stays.
    fn promise(&mut self, core: &Client, vm: &Found, wanted: Option<PromiseRequest>) -> Result<(), Refusal> {
        match (self.promise.take(), wanted) {
            (Some((before, entities)), Some(wanted)) if before == wanted => self.promise = Some((before, entities)),
            (Some((before, entities)), Some(wanted)) if differ_in_times_only(&before, &wanted) => {
                let changed = core.adjust(entities[0], wanted.reservation.slice, wanted.reservation.period);
                self.promise = Some((if changed.is_ok() { wanted } else { before }, entities));
                changed?;
            }
            (before, wanted) => {
                before.iter().flat_map(|(_, entities)| entities).for_each(|&e| core.dismiss(e));
                if let Some(wanted) = wanted {
                    let entities = core.admit_process(&wanted, vm.identity().into())?;
                    self.promise = Some((wanted, entities));
                }
            }
        }
        Ok(())
    }

    /// Ends the share of the CPUs, and gives another one. After a refusal, there is no share.
    fn give(&mut self, core: &Client, vm: &Found, wanted: Option<CpuShare>) -> Result<(), Refusal> {
        if self.share.take().is_some() {
            core.end_share(vm.process.pid);
        }
        if let Some(share) = wanted {
            core.share_process(vm.identity().into(), share)?;
        }
        self.share = wanted;
        Ok(())
    }
}

/// Returns the promise and the share that `core` must keep for `vm`.
fn wanted(core: &Client, vm: &Found, desired: &Desired) -> (Option<PromiseRequest>, Option<CpuShare>) {
    let in_force = Some(desired).filter(|desired| !desired.paused);
    let promise = in_force.and_then(|desired| desired.promise.as_ref());
    (promise.map(|promise| request(&vm.name, &vm.vcpus, promise, core.setup())), in_force.and_then(share))
}
