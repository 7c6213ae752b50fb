//! Quotas and caps: no group gets more CPU time than it may, over the time for which its limit has stood.

use super::Expected;
use sched::{GroupId, GroupParams, Host, Instant, Nanos};
use std::collections::BTreeMap;

/// A group, and what it has had since its limits were last changed.
#[derive(Clone, Copy, Debug)]
struct Limited {
    params: GroupParams,
    parent: Option<GroupId>,
    since: Instant,
    /// CPU time of its members and of those of the groups below.
    ran: Nanos,
    /// CPU time of its own members.
    members_ran: Nanos,
    members_most: u64,
}

#[derive(Debug, Default)]
pub(super) struct Limits {
    groups: BTreeMap<GroupId, Limited>,
}

/// A cap's account lags: credits are given every 30 ms and kept up to 30 ms each way (policies.md 7.3), and a tick
/// may fall between.
const CAP_LAG: Nanos = Nanos::ms(100);
/// A quota is handed out in bites of 5 ms, and noticed to be used up at a tick of 10 ms at most.
const QUOTA_BITE: Nanos = Nanos::ms(15);

impl Limits {
    pub(super) fn created(&mut self, group: GroupId, parent: GroupId, params: &GroupParams, at: Instant) {
        let limited = Limited {
            params: *params,
            parent: Some(parent),
            since: at,
            ran: Nanos::ZERO,
            members_ran: Nanos::ZERO,
            members_most: 0,
        };
        self.groups.insert(group, limited);
    }

    /// What was had under the old limit no longer counts.
    pub(super) fn adjusted(&mut self, group: GroupId, params: &GroupParams, at: Instant) {
        if let Some(limited) = self.groups.get_mut(&group) {
            (limited.params, limited.since) = (*params, at);
            (limited.ran, limited.members_ran) = (Nanos::ZERO, Nanos::ZERO);
        }
    }

    pub(super) fn removed(&mut self, group: GroupId) {
        self.groups.remove(&group);
    }

    pub(super) fn joined(&mut self, group: GroupId) {
        if let Some(limited) = self.groups.get_mut(&group) {
            limited.members_most += 1;
        }
    }

    /// A member of `group` ran: so did every group above.
    pub(super) fn ran(&mut self, group: GroupId, time: Nanos) {
        if let Some(limited) = self.groups.get_mut(&group) {
            limited.members_ran += time;
        }
        let mut next = Some(group);
        while let Some(limited) = next.and_then(|group| self.groups.get_mut(&group)) {
            limited.ran += time;
            next = limited.parent;
        }
    }

    /// Who had more than they may, in words.
    pub(super) fn judge(&self, now: Instant, host: &Host, expected: &Expected) -> Vec<String> {
        let mut found = Vec::new();
        for (group, limited) in &self.groups {
            let elapsed = now.since(limited.since);
            let late = expected.late.saturating_mul(2);
            if let Some(quota) = limited.params.quota.filter(|_| expected.quotas) {
                // What was running when the limit came may have been charged late, hence one period more.
                let periods = elapsed.as_ns() / quota.period.as_ns() + 2;
                let bites = (QUOTA_BITE + late).saturating_mul(host.cpus as u64);
                let most = quota.quota.saturating_mul(periods) + bites;
                if limited.ran > most {
                    found.push(format!("{group} had {} in {elapsed}; its quota allows {most}", limited.ran));
                }
            }
            if let Some(cap) = limited.params.cap_percent.filter(|_| expected.caps) {
                let lag = (CAP_LAG + late).saturating_mul(limited.members_most.max(1));
                let most = elapsed.scale(u64::from(cap), 100) + lag;
                // Xen's domains do not nest: a cap is for the members alone.
                if limited.members_ran > most {
                    found.push(format!("{group} had {} in {elapsed}; its cap allows {most}", limited.members_ran));
                }
            }
        }
        found
    }
}
