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
/// The weight is kept in Linux's scale (1024 = normal). Nice values and Xen's weights have exact equivalents in Linux's
/// scale. A control group's `cpu.weight` is rounded, as in the kernel. Range: 1 … 2^28.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Weight(u32);

impl Weight {
    /// The default weight: nice 0, Xen's 256, a control group's 100.
    pub const NORMAL: Weight = Weight(1024);
    /// The weight of SCHED_IDLE. Source: `WEIGHT_IDLEPRIO`, kernel/sched/sched.h, v5.13.
    pub const IDLE: Weight = Weight(3);
    /// The heaviest weight.
    pub const MAX: Weight = Weight(1 << 28);

    /// Returns a weight in Linux's scale, 1024 = normal. `None` outside 1 … 2^28.
    #[must_use]
    pub fn linux(weight: u32) -> Option<Weight> {
        (1..=Weight::MAX.0).contains(&weight).then_some(Weight(weight))
    }

    /// Returns a weight in Xen's scale, 256 = normal. `None` outside 1 … 65535 (Xen's own range, `xl sched-credit`).
    #[must_use]
    pub fn xen(weight: u32) -> Option<Weight> {
        (1..=65_535).contains(&weight).then_some(Weight(weight * 4))
    }

    /// Returns the weight of a nice value. `None` outside −20 … 19.
    #[must_use]
    pub fn nice(nice: i32) -> Option<Weight> {
        let index = usize::try_from(nice + 20).ok()?;
        NICE_WEIGHTS.get(index).map(|&weight| Weight(weight))
    }

    /// Returns the nice value with the nearest weight by ratio. Of two equally near values, returns the nice value with
    /// the larger weight.
    #[must_use]
    pub fn nearest_nice(self) -> i32 {
        let asked = u64::from(self.0);
        let table = |nice: i32| u64::from(Weight::nice(nice).expect("it is a nice value").0);
        // The border between two neighbouring nice values is the geometric mean of their weights; the border belongs to
        // the heavier neighbour.
        (-20..19).find(|&nice| asked * asked >= table(nice) * table(nice + 1)).unwrap_or(19)
    }

    /// Returns the weight of a control group's `cpu.weight`, 100 = normal. `None` outside 1 … 10000.
    #[must_use]
    pub fn cgroup(weight: u32) -> Option<Weight> {
        (1..=10_000).contains(&weight).then(|| Weight((weight * 1024 + 50) / 100))
    }

    /// Returns the weight in Linux's scale, 1024 = normal.
    #[must_use]
    pub const fn as_linux(self) -> u32 {
        self.0
    }

    /// Returns the weight in Xen's scale, 256 = normal; rounded, at least 1.
    #[must_use]
    pub const fn as_xen(self) -> u32 {
        let rounded = (self.0 + 2) / 4;
        if rounded == 0 { 1 } else { rounded }
    }

    /// Converts `time` to virtual time at this weight: `⌊time · 1024 / weight⌋`.
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
    /// Writes the weight in Xen's scale. Linux's finer scale may leave a fraction: `256`, `83.75`.
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

/// The consequence of a slice that is used up before its period ends.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Limit {
    /// The entity competes for unreserved time.
    #[default]
    Soft,
    /// The entity does not run again before its next period.
    Hard,
}

/// A promise of CPU time: `slice` nanoseconds in every `period`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Reservation {
    /// CPU time per period. Range: 1 ns … `period`.
    pub slice: Nanos,
    /// Length of a period. Range: 1 ns … [`SPAN_MAX`].
    pub period: Nanos,
    /// Time from the beginning of a period until the slice is due; `None`: the whole period. Range: `slice` … `period`.
    pub deadline: Option<Nanos>,
    /// Instant at which the first period begins; `None`: the first wake-up of the entity.
    pub start: Option<Instant>,
    /// The consequence of a used-up slice.
    pub limit: Limit,
}

impl Reservation {
    /// Returns a soft reservation of `slice` in every `period`. The slice is due at the end of the period. The first
    /// period begins at the first wake-up of the entity.
    #[must_use]
    pub const fn new(slice: Nanos, period: Nanos) -> Reservation {
        Reservation { slice, period, deadline: None, start: None, limit: Limit::Soft }
    }

    /// Returns the time from the beginning of a period until the slice is due.
    #[must_use]
    pub fn relative_deadline(&self) -> Nanos {
        self.deadline.unwrap_or(self.period)
    }
}

/// Permission for an entity to run ahead of its share for a limited time (BVT).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Warp {
    /// Maximum lead of the entity, in virtual time at normal weight. Range: 0 … [`SPAN_MAX`].
    pub by: Nanos,
    /// Maximum CPU time of one warp; zero: unlimited. Range: 0 … [`SPAN_MAX`].
    pub limit: Nanos,
    /// Duration for which the warp is off after its limit; zero: forever. Range: 0 … [`SPAN_MAX`].
    pub rest: Nanos,
}

/// A static real-time priority. Range: 1 … 99, 99 the most urgent.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct RtPriority(u8);

impl RtPriority {
    /// Returns priority `n`; `None` outside 1 … 99.
    #[must_use]
    pub fn new(n: u8) -> Option<RtPriority> {
        (1..=99).contains(&n).then_some(RtPriority(n))
    }

    /// Returns the priority as a number, 1 … 99.
    #[must_use]
    pub const fn number(self) -> u8 {
        self.0
    }
}

/// The Linux scheduling class of an entity, for the policies that have classes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Class {
    /// SCHED_OTHER: shares by weight.
    #[default]
    Normal,
    /// SCHED_BATCH: shares by weight; a waking entity preempts only SCHED_IDLE entities.
    Batch,
    /// SCHED_IDLE: the minimum share. A waking entity of any other class preempts the entity.
    Idle,
    /// SCHED_FIFO: the entity runs until it blocks or yields, or until an entity of a higher priority arrives.
    Fifo(RtPriority),
    /// SCHED_ISO of BFS and MuQSS. The entity runs before all normal entities while the CPU time of real-time and
    /// isochronous entities stays below a limit. Above the limit, the entity ranks as normal.
    Isochronous,
    /// SCHED_RR: like FIFO, with time slices among equal priorities.
    RoundRobin(RtPriority),
    /// The stop class of a CPU: the entity runs before all other classes until it blocks (`stop_sched_class`,
    /// kernel/sched/stop_task.c).
    Stop,
}

impl Class {
    /// Returns the real-time priority, if the class has one.
    #[must_use]
    pub const fn rt_priority(self) -> Option<RtPriority> {
        match self {
            Class::Fifo(priority) | Class::RoundRobin(priority) => Some(priority),
            Class::Normal | Class::Batch | Class::Idle | Class::Isochronous | Class::Stop => None,
        }
    }
}

/// The parameters of one entity.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Params {
    /// Weight of the entity relative to the other members of its group.
    pub weight: Weight,
    /// Reservation of the entity, if any.
    pub reservation: Option<Reservation>,
    /// Linux scheduling class of the entity.
    pub class: Class,
    /// Wake-up latency that the entity tolerates, or the time slice that it requests (EEVDF); `None`: the policy's
    /// default. Range: 1 ns … [`SPAN_MAX`].
    pub latency: Option<Nanos>,
    /// Permission of the entity to run ahead of its share.
    pub warp: Option<Warp>,
    /// CPUs on which the entity may run; CPUs that the machine lacks are ignored.
    pub affinity: CpuSet,
    /// Group of the entity.
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
    /// Checks the rules that hold under every policy: the ranges of the durations, and at least one allowed CPU.
    ///
    /// # Errors
    /// The first violated rule.
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
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Quota {
    /// CPU time per period. Range: 1 ms (kernel: `min_cfs_quota_period`, kernel/sched/core.c) … [`SPAN_MAX`].
    pub quota: Nanos,
    /// Length of a period. Range: 1 ms … 1 s.
    pub period: Nanos,
}

impl Quota {
    /// Returns a ceiling of `quota` in every `period`.
    ///
    /// # Errors
    /// `quota` or `period` is outside the kernel's range.
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
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct GroupParams {
    /// Weight of the group relative to the other members of its parent group.
    pub weight: Weight,
    /// Ceiling of the group's CPU time per period, for policies that enforce `cpu.max`.
    pub quota: Option<Quota>,
    /// Ceiling of the group's CPU time in percent of one CPU, for policies that enforce Xen's cap. Range: from 1;
    /// `None`: no cap.
    pub cap_percent: Option<u32>,
    /// Whether the members of the group should run at the same time, for policies with gangs. Such a group holds the
    /// vCPUs of a parallel VM, or groups of VMs that work together.
    pub gang: bool,
}

/// The CPUs of a machine, their sibling threads and shared caches.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Topology {
    /// Number of CPUs. Range: 1 … [`CPUS_MAX`].
    pub cpus: usize,
    /// Number of hardware threads per core; CPUs `c` with equal `c / smt` share a core.
    pub smt: usize,
    /// Number of CPUs per last-level cache; CPUs `c` with equal `c / llc` share a cache.
    pub llc: usize,
}

impl Topology {
    /// Returns the topology of `cpus` single-threaded cores under one cache. Panics outside 1 … [`CPUS_MAX`].
    #[must_use]
    pub fn new(cpus: usize) -> Topology {
        assert!((1..=CPUS_MAX).contains(&cpus), "a machine has 1 to CPUS_MAX CPUs");
        Topology { cpus, smt: 1, llc: cpus }
    }

    /// Returns the set of all CPUs of the machine.
    #[must_use]
    pub fn all(&self) -> CpuSet {
        CpuSet::first_n(self.cpus)
    }

    /// Returns the CPUs of the machine in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = CpuId> + use<> {
        (0..self.cpus).map(CpuId::new)
    }

    /// Returns whether two CPUs share a last-level cache.
    #[must_use]
    pub fn share_cache(&self, a: CpuId, b: CpuId) -> bool {
        a.index() / self.llc == b.index() / self.llc
    }

    /// Returns whether two CPUs are hardware threads of one core.
    #[must_use]
    pub fn share_core(&self, a: CpuId, b: CpuId) -> bool {
        a.index() / self.smt == b.index() / self.smt
    }
}

/// A request that cannot be met. [`explain`](Refused::explain) gives the reason and the remedy.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Refused {
    /// A reservation with a slice of zero.
    SliceZero,
    /// A slice longer than its period.
    SliceAbovePeriod {
        /// The requested slice.
        slice: Nanos,
        /// The requested period.
        period: Nanos,
    },
    /// A span too long for 64-bit arithmetic.
    TooLong {
        /// Name of the span.
        what: &'static str,
        /// Longest permitted span.
        most: Nanos,
    },
    /// A span outside its range.
    OutOfRange {
        /// Name of the span.
        what: &'static str,
        /// Shortest permitted span.
        least: Nanos,
        /// Longest permitted span.
        most: Nanos,
    },
    /// None of the requested CPUs exists.
    NoCpu {
        /// The requested CPUs.
        affinity: Box<CpuSet>,
        /// Number of CPUs of the machine.
        cpus: usize,
    },
    /// A reservation that exceeds the unreserved utilisation of the CPUs.
    Utilisation {
        /// The requested reservation.
        asked: Reservation,
        /// Largest utilisation that one entity could still reserve, in millionths of one CPU.
        free_ppm: u64,
        /// CPU with this free utilisation; `None`: not tied to one CPU.
        on: Option<CpuId>,
    },
    /// A group that does not exist.
    NoGroup(GroupId),
    /// A group to remove that still has members or subgroups, or that is the root.
    GroupInUse(GroupId),
    /// A request that the policy does not support.
    Unsupported {
        /// The unsupported part of the request.
        reason: &'static str,
        /// The alternative request, in the imperative.
        remedy: &'static str,
    },
}

impl Refused {
    /// Returns the largest slice that would fit in the period of a refused reservation. `None`: no slice fits, or the
    /// slice was not refused as too long.
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
    /// Returns the reason and the remedy.
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
        let place = on.map_or_else(|| "on one CPU".to_string(), |cpu| format!("(on CPU {cpu})"));
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
            "40ms every 100ms is 40.00 % of a CPU, but only 30.00 % can still be promised on one CPU; \
             use at most 30ms every 100ms"
        );
    }
}
