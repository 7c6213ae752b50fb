//! The parameters of entities and groups, and the topology of a machine.

use crate::explanation::Explanation;
use crate::id::{CPUS_MAX, CpuId, CpuSet, GroupId};
use crate::time::{Instant, Nanos, SPAN_MAX};
use alloc::boxed::Box;
use alloc::format;
use alloc::string::ToString;
use core::fmt;

/// nice −20 … 19 as weights, 1024 = nice 0. Source: `sched_prio_to_weight`, kernel/sched/core.c, v5.13.
const NICE_WEIGHTS: [u32; 40] = [
    88761, 71755, 56483, 46273, 36291, 29154, 23254, 18705, 14949, 11916, 9548, 7620, 6100, 4904, 3906, 3121, 2501,
    1991, 1586, 1277, 1024, 820, 655, 526, 423, 335, 272, 215, 172, 137, 110, 87, 70, 56, 45, 36, 29, 23, 18, 15,
];

/// A relative share of CPU time.
///
/// Kept in the finest of the three common scales, Linux's, where 1024 is normal. So a weight in any of them is kept
/// exactly. Range: 1 … 2^28.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Weight(u32);

impl Weight {
    /// The default weight: nice 0, Xen's 256, a control group's 100.
    pub const NORMAL: Weight = Weight(1024);
    /// The weight of SCHED_IDLE. Source: `WEIGHT_IDLEPRIO`, kernel/sched/sched.h, v5.13.
    pub const IDLE: Weight = Weight(3);
    /// The heaviest weight.
    pub const MAX: Weight = Weight(1 << 28);

    /// A weight in Linux's scale, 1024 = normal. `None` outside 1 … 2^28.
    #[must_use]
    pub fn linux(weight: u32) -> Option<Weight> {
        (1..=Weight::MAX.0).contains(&weight).then_some(Weight(weight))
    }

    /// A weight in Xen's scale, 256 = normal. `None` outside 1 … 65535 (Xen's own range, `xl sched-credit`).
    #[must_use]
    pub fn xen(weight: u32) -> Option<Weight> {
        (1..=65_535).contains(&weight).then_some(Weight(weight * 4))
    }

    /// The weight of a nice value. `None` outside −20 … 19.
    #[must_use]
    pub fn nice(nice: i32) -> Option<Weight> {
        let index = usize::try_from(nice + 20).ok()?;
        NICE_WEIGHTS.get(index).map(|&weight| Weight(weight))
    }

    /// The nice value whose weight is nearest by ratio; of two equally near ones the heavier.
    #[must_use]
    pub fn nearest_nice(self) -> i32 {
        let asked = u64::from(self.0);
        let table = |nice: i32| u64::from(Weight::nice(nice).expect("it is a nice value").0);
        // Between two neighbours, the heavier is as near as the lighter where the weight is their geometric mean.
        (-20..19).find(|&nice| asked * asked >= table(nice) * table(nice + 1)).unwrap_or(19)
    }

    /// A control group's `cpu.weight`, 100 = normal. `None` outside 1 … 10000.
    #[must_use]
    pub fn cgroup(weight: u32) -> Option<Weight> {
        (1..=10_000).contains(&weight).then(|| Weight((weight * 1024 + 50) / 100))
    }

    /// In Linux's scale, 1024 = normal.
    #[must_use]
    pub const fn as_linux(self) -> u32 {
        self.0
    }

    /// In Xen's scale, 256 = normal; rounded, at least 1.
    #[must_use]
    pub const fn as_xen(self) -> u32 {
        let rounded = (self.0 + 2) / 4;
        if rounded == 0 { 1 } else { rounded }
    }

    /// `time` on the weighted clock of this weight: `⌊time · 1024 / weight⌋`.
    #[must_use]
    pub fn virtual_time(self, time: Nanos) -> Nanos {
        if self.0 == Weight::NORMAL.0 { time } else { time.scale(1024, u64::from(self.0)) }
    }
}

impl Default for Weight {
    fn default() -> Weight {
        Weight::NORMAL
    }
}

impl fmt::Display for Weight {
    /// In Xen's scale, with the fraction Linux's finer one may leave: `256`, `83.75`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 % 4 {
            0 => write!(f, "{}", self.0 / 4),
            2 => write!(f, "{}.5", self.0 / 4),
            quarters => write!(f, "{}.{}", self.0 / 4, quarters * 25),
        }
    }
}

impl fmt::Debug for Weight {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// What happens when a slice is used up before its period ends.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Limit {
    /// The entity competes for unreserved time.
    #[default]
    Soft,
    /// The entity does not run again before its next period.
    Hard,
}

/// A promise of CPU time: `slice` in every `period`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Reservation {
    /// CPU time per period. Range: 1 ns … `period`.
    pub slice: Nanos,
    /// Range: 1 ns … [`SPAN_MAX`].
    pub period: Nanos,
    /// From the beginning of a period until the slice is due; `None`: the whole period. Range: `slice` … `period`.
    pub deadline: Option<Nanos>,
    /// When the first period begins; `None`: at the first wake-up of the entity.
    pub start: Option<Instant>,
    /// What happens beyond the slice.
    pub limit: Limit,
}

impl Reservation {
    /// A soft reservation of `slice` in every `period`, due at its end, from the first wake-up of the entity.
    #[must_use]
    pub const fn new(slice: Nanos, period: Nanos) -> Reservation {
        Reservation { slice, period, deadline: None, start: None, limit: Limit::Soft }
    }

    /// From the beginning of a period until the slice is due.
    #[must_use]
    pub fn relative_deadline(&self) -> Nanos {
        self.deadline.unwrap_or(self.period)
    }
}

/// Permission to run ahead of one's share for a limited time (BVT).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Warp {
    /// How far ahead, in virtual time at normal weight. Range: 0 … [`SPAN_MAX`].
    pub by: Nanos,
    /// The longest time it runs ahead in one go; zero: without end. Range: 0 … [`SPAN_MAX`].
    pub limit: Nanos,
    /// How long the warp is then off; zero: for good. Range: 0 … [`SPAN_MAX`].
    pub rest: Nanos,
}

/// A static real-time priority. Range: 1 … 99, 99 the most urgent.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct RtPriority(u8);

impl RtPriority {
    /// Priority `n`; `None` outside 1 … 99.
    #[must_use]
    pub fn new(n: u8) -> Option<RtPriority> {
        (1..=99).contains(&n).then_some(RtPriority(n))
    }

    /// The number, 1 … 99.
    #[must_use]
    pub const fn number(self) -> u8 {
        self.0
    }
}

/// The Linux scheduling class of an entity, for the policies that have classes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Class {
    /// SCHED_OTHER: shares by weight.
    #[default]
    Normal,
    /// SCHED_BATCH: shares by weight, never preempts at its wake-up.
    Batch,
    /// SCHED_IDLE: the least share; all others preempt it.
    Idle,
    /// SCHED_FIFO: runs until it blocks, yields or an entity of a higher priority arrives.
    Fifo(RtPriority),
    /// SCHED_ISO of BFS and MuQSS: before all normal tasks, as long as it does not use too much CPU time; else normal.
    Isochronous,
    /// SCHED_RR: like FIFO, with time slices among equals.
    RoundRobin(RtPriority),
    /// The stop class of a CPU: before all others, until it blocks (`stop_sched_class`, kernel/sched/stop_task.c).
    Stop,
}

impl Class {
    /// The real-time priority, if the class has one.
    #[must_use]
    pub const fn rt_priority(self) -> Option<RtPriority> {
        match self {
            Class::Fifo(priority) | Class::RoundRobin(priority) => Some(priority),
            Class::Normal | Class::Batch | Class::Idle | Class::Isochronous | Class::Stop => None,
        }
    }
}

/// The parameters of one entity.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Params {
    /// Its share among its siblings.
    pub weight: Weight,
    /// Its reservation, if it has one.
    pub reservation: Option<Reservation>,
    /// Its Linux scheduling class.
    pub class: Class,
    /// The wake-up latency that it tolerates, or the time slice that it requests (EEVDF); `None`: the policy's default.
    /// Range: 1 ns … [`SPAN_MAX`].
    pub latency: Option<Nanos>,
    /// Its permission to run ahead of its share.
    pub warp: Option<Warp>,
    /// The CPUs it may run on; CPUs the machine lacks are ignored.
    pub affinity: CpuSet,
    /// The group it belongs to.
    pub group: GroupId,
}

impl Default for Params {
    fn default() -> Params {
        Params {
            weight: Weight::NORMAL,
            reservation: None,
            class: Class::Normal,
            latency: None,
            warp: None,
            affinity: CpuSet::ALL,
            group: GroupId::ROOT,
        }
    }
}

impl Params {
    /// Checks the rules of every policy: the ranges of the reservation, and an allowed CPU.
    ///
    /// # Errors
    /// The violated rule, with the values that violate it.
    pub fn check(&self, host: &Topology) -> Result<(), Refused> {
        if let Some(reservation) = self.reservation {
            let Reservation { slice, period, .. } = reservation;
            if slice.is_zero() {
                return Err(Refused::SliceZero);
            }
            if slice > period {
                return Err(Refused::SliceAbovePeriod { slice, period });
            }
            if period > SPAN_MAX {
                return Err(Refused::TooLong { what: "period", most: SPAN_MAX });
            }
            let deadline = reservation.relative_deadline();
            if deadline < slice || deadline > period {
                return Err(Refused::OutOfRange { what: "deadline", least: slice, most: period });
            }
        }
        let least = Nanos::ns(1);
        if self.latency.is_some_and(|latency| latency < least || latency > SPAN_MAX) {
            return Err(Refused::OutOfRange { what: "latency", least, most: SPAN_MAX });
        }
        if self.warp.is_some_and(|warp| warp.by.max(warp.limit).max(warp.rest) > SPAN_MAX) {
            return Err(Refused::TooLong { what: "warp", most: SPAN_MAX });
        }
        if self.affinity.and(&host.all()).is_empty() {
            return Err(Refused::NoCpu { affinity: Box::new(self.affinity), cpus: host.cpus });
        }
        Ok(())
    }
}

/// A ceiling on a group's CPU time: `quota` in every `period`, summed over CPUs (`cpu.max`).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Quota {
    /// CPU time per period. Range: 1 ms … (kernel: `min_cfs_quota_period`, kernel/sched/core.c).
    pub quota: Nanos,
    /// Range: 1 ms … 1 s.
    pub period: Nanos,
}

impl Quota {
    /// `quota` in every `period`.
    ///
    /// # Errors
    /// Either is outside the kernel's range.
    pub fn new(quota: Nanos, period: Nanos) -> Result<Quota, Refused> {
        let (least, most) = (Nanos::ms(1), Nanos::s(1));
        if quota < least || quota > SPAN_MAX {
            return Err(Refused::OutOfRange { what: "quota", least, most: SPAN_MAX });
        }
        if period < least || period > most {
            return Err(Refused::OutOfRange { what: "quota period", least, most });
        }
        Ok(Quota { quota, period })
    }
}

/// The parameters of a group.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct GroupParams {
    /// Its share among its siblings.
    pub weight: Weight,
    /// Its ceiling per period, for policies that keep `cpu.max`.
    pub quota: Option<Quota>,
    /// Its ceiling in percent of one CPU, for policies that keep Xen's cap. Range: 1 …; `None`: no cap.
    pub cap_percent: Option<u32>,
    /// Whether its members should run at the same time, for policies with gangs: the vCPUs of a parallel VM, or, for a
    /// group of such groups, VMs that work together.
    pub gang: bool,
}

/// The CPUs of a machine, their sibling threads and shared caches.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Topology {
    /// The number of CPUs. Range: 1 … [`CPUS_MAX`].
    pub cpus: usize,
    /// Hardware threads per core; CPUs `c` with equal `c / smt` share a core.
    pub smt: usize,
    /// CPUs per last-level cache; CPUs `c` with equal `c / llc` share one.
    pub llc: usize,
}

impl Topology {
    /// `cpus` single-threaded cores under one cache. Panics outside 1 … [`CPUS_MAX`].
    #[must_use]
    pub fn new(cpus: usize) -> Topology {
        assert!((1..=CPUS_MAX).contains(&cpus), "a machine has 1 to CPUS_MAX CPUs");
        Topology { cpus, smt: 1, llc: cpus }
    }

    /// Every CPU of the machine.
    #[must_use]
    pub fn all(&self) -> CpuSet {
        CpuSet::first_n(self.cpus)
    }

    /// The CPUs of the machine, ascending.
    pub fn iter(&self) -> impl Iterator<Item = CpuId> + use<> {
        (0..self.cpus).map(CpuId::new)
    }

    /// Whether two CPUs share a last-level cache.
    #[must_use]
    pub fn share_cache(&self, a: CpuId, b: CpuId) -> bool {
        a.index() / self.llc == b.index() / self.llc
    }

    /// Whether two CPUs are threads of one core.
    #[must_use]
    pub fn share_core(&self, a: CpuId, b: CpuId) -> bool {
        a.index() / self.smt == b.index() / self.smt
    }
}

/// A request that cannot be met. [`explain`](Refused::explain) gives the reason and the remedy.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Refused {
    /// A reservation of nothing.
    SliceZero,
    /// A slice longer than its period.
    SliceAbovePeriod {
        /// The requested slice.
        slice: Nanos,
        /// The period.
        period: Nanos,
    },
    /// A span too long for 64-bit arithmetic.
    TooLong {
        /// Its name.
        what: &'static str,
        /// The longest.
        most: Nanos,
    },
    /// A span outside its range.
    OutOfRange {
        /// Its name.
        what: &'static str,
        /// The shortest.
        least: Nanos,
        /// The longest.
        most: Nanos,
    },
    /// None of the requested CPUs exists.
    NoCpu {
        /// The requested CPUs.
        affinity: Box<CpuSet>,
        /// The number of CPUs.
        cpus: usize,
    },
    /// The reservations would exceed the CPUs.
    Utilisation {
        /// The requested reservation.
        asked: Reservation,
        /// The largest utilisation that one entity could still reserve, in millionths of one CPU.
        free_ppm: u64,
        /// The CPU where that is free; `None`: any.
        on: Option<CpuId>,
    },
    /// No such group.
    NoGroup(GroupId),
    /// A group that still has members or subgroups cannot be removed.
    GroupInUse(GroupId),
    /// The policy does not support the request.
    Unsupported {
        /// What it does not support.
        reason: &'static str,
        /// What to request instead, in the imperative.
        remedy: &'static str,
    },
}

impl Refused {
    /// For a refused reservation, the largest slice that would still fit in its period; `None` if none does.
    #[must_use]
    pub fn nearest_slice(&self) -> Option<Nanos> {
        match *self {
            Refused::Utilisation { asked, free_ppm, .. } => {
                Some(asked.period.scale(free_ppm, 1_000_000)).filter(|slice| !slice.is_zero())
            }
            Refused::SliceAbovePeriod { period, .. } => Some(period),
            _ => None,
        }
    }
}

impl Refused {
    /// The reason, and the remedy.
    #[must_use]
    pub fn explain(&self) -> Explanation {
        match self {
            Refused::SliceZero => Explanation::new("slice is zero", "use 1 ns up to the period"),
            Refused::SliceAbovePeriod { slice, period } => Explanation::new(
                format!("slice ({slice}) is longer than the period ({period})"),
                format!("use at most {period}"),
            ),
            Refused::TooLong { what, most } => {
                Explanation::new(format!("{what} is too long"), format!("use at most {most}"))
            }
            Refused::OutOfRange { what, least, most } => {
                Explanation::new(format!("{what} is out of range"), format!("use {least} to {most}"))
            }
            Refused::NoCpu { affinity, cpus } => Explanation::new(
                format!("affinity ({affinity}) names none of the machine's CPUs"),
                format!("use some of 0-{}", cpus - 1),
            ),
            Refused::Utilisation { asked, free_ppm, on } => self.explain_utilisation(asked, *free_ppm, *on),
            Refused::NoGroup(group) => Explanation::new(format!("there is no group {group}"), "create the group first"),
            Refused::GroupInUse(group) => {
                Explanation::new(format!("group {group} still has members"), "remove the members first")
            }
            Refused::Unsupported { reason, remedy } => Explanation::new(*reason, *remedy),
        }
    }

    fn explain_utilisation(&self, asked: &Reservation, free_ppm: u64, on: Option<CpuId>) -> Explanation {
        let percent = |ppm: u64| (ppm / 10_000, ppm % 10_000 / 100);
        let (whole, part) = percent(asked.slice.scale(1_000_000, asked.period.as_ns()).as_ns());
        let (free, free_part) = percent(free_ppm);
        let place = on.map_or_else(|| "to one entity".to_string(), |cpu| format!("(on CPU {cpu})"));
        let reason = format!(
            "{} every {} is {whole}.{part:02} % of a CPU, but only {free}.{free_part:02} % can still be promised {place}",
            asked.slice, asked.period
        );
        match self.nearest_slice() {
            Some(slice) => Explanation::new(reason, format!("use at most {slice} every {}", asked.period)),
            None => Explanation::new(reason, "wait until another reservation ends"),
        }
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.explain().fmt(f)
    }
}

impl core::error::Error for Refused {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_three_scales_agree_on_normal() {
        assert_eq!(Weight::nice(0), Some(Weight::NORMAL));
        assert_eq!(Weight::xen(256), Some(Weight::NORMAL));
        assert_eq!(Weight::cgroup(100), Some(Weight::NORMAL));
        assert_eq!(Weight::nice(5).unwrap().to_string(), "83.75");
        assert_eq!((Weight::nice(20), Weight::xen(0), Weight::cgroup(10_001)), (None, None, None));
    }

    #[test]
    fn every_weight_has_the_nice_value_nearest_by_ratio() {
        for nice in -20..=19 {
            assert_eq!(Weight::nice(nice).unwrap().nearest_nice(), nice);
        }
        let of = |weight| Weight::linux(weight).unwrap().nearest_nice();
        // √(1024 · 820) = 916.3; √(88761 · 71755) = 79806.3; √(18 · 15) = 16.4.
        assert_eq!((of(917), of(916)), (0, 1));
        assert_eq!((of(1 << 28), of(79_807), of(79_806)), (-20, -20, -19));
        assert_eq!((of(17), of(16), of(1)), (18, 19, 19));
    }

    #[test]
    fn a_refused_reservation_names_the_nearest_that_fits() {
        let asked = Reservation::new(Nanos::ms(40), Nanos::ms(100));
        let refused = Refused::Utilisation { asked, free_ppm: 300_000, on: None };
        assert_eq!(refused.nearest_slice(), Some(Nanos::ms(30)));
        assert_eq!(
            refused.to_string(),
            "40ms every 100ms is 40.00 % of a CPU, but only 30.00 % can still be promised to one entity; \
             use at most 30ms every 100ms"
        );
    }
}
