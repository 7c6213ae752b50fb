//! [`Permission`]: whether a client may make a change.

use crate::caller::Caller;
use crate::inventory::Found;
use api::{Desired, Limit, Problem};
use certs::Role;

/// What decides whether a client may make a change.
#[derive(Debug)]
pub(crate) struct Permission<'p> {
    pub(crate) by: &'p Caller,
    /// Id of the VM.
    pub(crate) id: &'p str,
    /// The VM, if it runs.
    pub(crate) running: Option<&'p Found>,
    /// User of the VM when its desired state was set.
    pub(crate) of_record: Option<u32>,
    /// What is desired so far.
    pub(crate) before: &'p Desired,
    /// What the client wants.
    pub(crate) wanted: &'p Desired,
    /// What is promised to all other VMs of the client's user. Unit: percent of a CPU.
    pub(crate) promised_percent: u64,
    /// What a user may promise to all own VMs. Unit: percent of a CPU.
    pub(crate) quota_percent: u32,
}

impl Permission<'_> {
    /// Checks that the role of the client allows the change, or that the VM is of the client's user and the change keeps within
    /// what a user may do.
    pub(crate) fn check(&self) -> Result<(), Problem> {
        let Permission { by, id, running, of_record, .. } = *self;
        // The owner of the process may have changed since it was found.
        let owner = running.and_then(Found::owner);
        match (by.role(), by.user()) {
            (Some(Role::Admin), _) => Ok(()),
            (Some(Role::Operate), _) if running.is_some_and(|vm| !vm.is_vm()) => {
                forbidden(format!("{id} is no VM, so only an administrator may change it"), "ask an administrator")
            }
            (Some(Role::Operate), _) if running.is_some() && of_record.is_some_and(|user| Some(user) != owner) => {
                let detail = format!("{id} was set for another user, so only an administrator may change it");
                forbidden(detail, "ask an administrator")
            }
            (Some(Role::Operate), _) => Ok(()),
            (None, Some(user)) if owner == Some(user) && of_record.is_none_or(|of_record| of_record == user) => {
                self.check_own(user)
            }
            (role, _) => {
                let by = role.map_or_else(|| by.to_string(), |role| format!("{by} with the role {role}"));
                forbidden(format!("{by} may not change {id}"), "ask its owner or an administrator")
            }
        }
    }

    /// Checks what `user` wants for an own VM: it cannot slow down processes of others among its descendants, it does not end a
    /// limit of an administrator, and the promises of the user stay within the quota.
    fn check_own(&self, user: u32) -> Result<(), Problem> {
        if limits(self.wanted) || limits(self.before) {
            let detail = "only an administrator may limit a VM, or end its limit: among its descendants may be processes of others";
            return forbidden(detail.to_string(), "use a promise with a soft limit");
        }
        let (percent, quota) = (self.promised_percent + percent(self.wanted), self.quota_percent);
        if percent > u64::from(quota) {
            let detail =
                format!("the promises of user {user} would be {percent} % of a CPU, and the quota is {quota} %");
            return forbidden(detail, "ask an administrator; `tactus serve --user-quota` sets the quota");
        }
        Ok(())
    }
}

/// Returns whether a desired state limits the CPU time of a VM.
fn limits(desired: &Desired) -> bool {
    let is_hard = desired.promise.as_ref().is_some_and(|promise| promise.limit == Limit::Hard);
    is_hard || desired.weight.is_some() || desired.cap_percent.is_some()
}

/// Returns what is promised. Unit: percent of a CPU, rounded up.
pub(crate) fn percent(desired: &Desired) -> u64 {
    let of_promise = |promise: &api::Promise| promise.slice_ns.saturating_mul(100).div_ceil(promise.period_ns.max(1));
    desired.promise.as_ref().map_or(0, of_promise)
}

fn forbidden(detail: String, remedy: &str) -> Result<(), Problem> {
    Err(Problem::new(403, "Forbidden", detail, remedy))
}
