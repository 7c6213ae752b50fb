//! The imbalance that a busy CPU corrects: what the groups of a scheduling domain have to do, and what to pull.
//!
//! Three kinds of groups are distinguished by decayed averages. A group with spare capacity has fewer tasks than CPUs,
//! or uses its CPUs little. An overloaded group has more tasks than CPUs and uses its CPUs fully. Any other group is
//! fully busy. A busy CPU pulls only from an overloaded group.
//!
//! A CPU that has lost a task counts as one with spare capacity until its utilisation has recovered: a CPU that has
//! lost half of its utilisation recovers in 57 ms. Such a CPU pulls no task from the same cache.
//!
//! The class differs from the kernel as follows. The capacity of a CPU is constant. A utilisation that was estimated
//! when a task blocked (`util_est`) does not count. A domain in which affinities prevented a balance is not marked for
//! the domain above (`group_imbalanced`).
//!
//! Source: kernel/sched/fair.c (`update_sd_lb_stats`, `group_classify`, `find_busiest_group`, `calculate_imbalance`,
//! `find_busiest_queue`), v5.13, v6.6 and v6.17. The names of v6.10 and later are `sched_balance_find_src_group` and
//! `sched_balance_find_src_rq`.

use super::Fair;
use super::domain::{Level, span};
use super::pelt::UNIT;
use super::rule::Rule;
use sched::{CpuId, CpuSet, Cx, Running};

/// The kinds of groups, in ascending order of what they have to do.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Kind {
    HasSpare,
    FullyBusy,
    Overloaded,
}

/// The quantity that a pull is to move.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Amount {
    /// This number of tasks.
    Tasks(u64),
    /// Tasks with this load in total.
    Load(u64),
    /// Tasks with this utilisation in total.
    Util(u64),
}

impl Amount {
    pub(super) const fn value(self) -> u64 {
        match self {
            Amount::Tasks(value) | Amount::Load(value) | Amount::Util(value) => value,
        }
    }
}

/// The sums of the averages and numbers of a group's CPUs.
#[derive(Clone, Copy, Debug)]
struct Group {
    first: CpuId,
    cpus: u64,
    load: u64,
    util: u64,
    runnable: u64,
    /// Number of runnable tasks of all classes.
    running: u64,
    /// Number of runnable tasks of this class.
    fair: u64,
    idle: u64,
}

impl Group {
    const fn capacity(&self) -> u64 {
        self.cpus * UNIT
    }

    /// Returns the load per capacity of a CPU.
    const fn average(&self) -> u64 {
        self.load * UNIT / self.capacity()
    }

    fn kind(&self, imbalance: u64) -> Kind {
        let used = self.util * imbalance;
        let waits = self.capacity() * imbalance < self.runnable * 100;
        if self.running > self.cpus && (self.capacity() * 100 < used || waits) {
            return Kind::Overloaded;
        }
        if self.running < self.cpus || !waits && self.capacity() * 100 > used {
            Kind::HasSpare
        } else {
            Kind::FullyBusy
        }
    }
}

impl<R: Rule> Fair<R> {
    /// Returns the CPU from which `cpu`, which is busy, is to pull in this domain, and the amount. CPUs in `except` do
    /// not count. `None`: the domain is balanced.
    pub(super) fn imbalance(
        &mut self,
        cpu: CpuId,
        level: usize,
        except: &CpuSet,
        cx: &Cx<'_>,
    ) -> Option<(CpuId, Amount)> {
        let Level { span: size, group: width, imbalance } = self.levels[level];
        for other in span(cx.topology(), cpu, size) {
            self.note_cpu(other, cx.now());
        }
        let local = self.sum_group(CpuId::new(cpu.index() / width * width), width, except, cx);
        let others = span(cx.topology(), cpu, size).step_by(width).filter(|&first| first != local.first);
        let others = others.map(|first| self.sum_group(first, width, except, cx));
        let add = |(load, cpus), group: Group| (load + group.load, cpus + group.cpus);
        let (load, cpus) = others.clone().fold((local.load, local.cpus), add);
        let mean = load * UNIT / (cpus * UNIT);
        let busiest = others
            .filter(|group| group.fair > 0)
            .reduce(|best, other| if other.is_busier(&best, imbalance) { other } else { best })?;
        let amount = self.amount(&local, &busiest, level, mean, cx)?;
        self.source(&busiest, width, amount, except, cx).map(|from| (from, amount))
    }

    fn sum_group(&self, first: CpuId, width: usize, except: &CpuSet, cx: &Cx<'_>) -> Group {
        let cpus = span(cx.topology(), first, width).count() as u64;
        let mut group = Group { first, cpus, load: 0, util: 0, runnable: 0, running: 0, fair: 0, idle: 0 };
        for cpu in span(cx.topology(), first, width).filter(|&cpu| !except.contains(cpu)) {
            let (averages, tasks) = (self.averages_of(cpu), u64::from(self.queues.root(cpu).tasks.all));
            group.load += averages.load;
            group.util += averages.util.min(UNIT);
            group.runnable += averages.runnable;
            group.fair += tasks;
            group.running += tasks + u64::from(cx.running(cpu) == Running::Above);
            group.idle += u64::from(self.is_idle(cpu, cx));
        }
        group
    }

    /// Returns what a busy CPU of `local` is to pull from `busiest`. `mean` is the load per capacity of a CPU in the
    /// domain.
    fn amount(&self, local: &Group, busiest: &Group, level: usize, mean: u64, cx: &Cx<'_>) -> Option<Amount> {
        let Level { span: size, group: width, imbalance } = self.levels[level];
        let (own, other) = (local.kind(imbalance), busiest.kind(imbalance));
        if own > other {
            return None;
        }
        if own == Kind::Overloaded
            && (local.average() >= busiest.average().min(mean)
                || 100 * busiest.average() <= imbalance * local.average())
        {
            return None;
        }
        let more = busiest.running.saturating_sub(local.running);
        // Before v6.6, the tasks of two groups were evened out by busy CPUs, too. A group of one CPU has no siblings.
        let evens = !self.queues.tunables.spare_waits;
        let siblings = evens && width > 1 && own == Kind::HasSpare && more > 1;
        if other != Kind::Overloaded && !siblings {
            return None;
        }
        let amount = if own == Kind::HasSpare {
            let one_cache = size <= cx.topology().llc;
            if other == Kind::Overloaded && !one_cache {
                Amount::Util(local.capacity().saturating_sub(local.util))
            } else {
                Amount::Tasks(if evens { more / 2 } else { 0 })
            }
        } else {
            if local.average() >= busiest.average().min(mean) {
                return None;
            }
            let surplus = busiest.average().checked_sub(mean).map_or(u64::MAX, |load| load * busiest.capacity());
            Amount::Load(surplus.min((mean - local.average()) * local.capacity()) / UNIT)
        };
        (amount.value() > 0).then_some(amount)
    }

    /// Returns the CPU of `group` with most of the quantity to pull.
    fn source(&self, group: &Group, width: usize, amount: Amount, except: &CpuSet, cx: &Cx<'_>) -> Option<CpuId> {
        let cpus = span(cx.topology(), group.first, width).filter(|&cpu| !except.contains(cpu));
        let busy = cpus.filter_map(|cpu| {
            let (averages, tasks) = (self.averages_of(cpu), u64::from(self.queues.root(cpu).tasks.all));
            let (fits, quantity) = match amount {
                Amount::Load(load) => (tasks > 1 || tasks == 1 && averages.load <= load, averages.load),
                Amount::Util(_) => (tasks > 1, averages.util.min(UNIT)),
                Amount::Tasks(_) => (tasks > 0, tasks),
            };
            (fits && quantity > 0).then_some((quantity, cpu))
        });
        busy.reduce(|best, other| if other.0 > best.0 { other } else { best }).map(|(_, cpu)| cpu)
    }
}

impl Group {
    /// Returns whether a CPU outside of both groups pulls from this group rather than from `best`.
    fn is_busier(&self, best: &Group, imbalance: u64) -> bool {
        let (own, other) = (self.kind(imbalance), best.kind(imbalance));
        if own != other {
            return own > other;
        }
        match own {
            Kind::Overloaded => self.average() > best.average(),
            Kind::FullyBusy => true,
            Kind::HasSpare => self.idle < best.idle || self.idle == best.idle && self.running > best.running,
        }
    }
}

#[cfg(test)]
mod tests;
