//! The reservation of a request, the threads that receive it, and refusals of what SCHED_DEADLINE cannot do.

use crate::Explanation;
use crate::dispatch::refusal::{Refusal, unreserved};
use crate::dispatch::request::PromiseRequest;
use crate::dispatch::role::Role;
use crate::dispatch::scan::Found;
use crate::kernel::Kernel;
use sched::{CpuSet, Limit, Nanos, Reservation};

/// The longest period. Source: `sysctl_sched_dl_period_max`, kernel/sched/deadline.c, Linux 6.18.
pub(super) const PERIOD_MOST: Nanos = Nanos::us(1 << 22);

/// The remedy for every request that only the dispatcher can serve.
const DISPATCH: &str = "use `--mechanism inherit`";

fn refused(reason: String, remedy: impl Into<String>) -> Refusal {
    Refusal::Mechanism(Explanation::new(reason, remedy.into()))
}

/// Returns the reservation per thread. `all` are the CPUs of the host.
pub(super) fn reservation(request: &PromiseRequest, all: &CpuSet) -> Result<Reservation, Refusal> {
    let reservation = request.per_cpu()?;
    if reservation.limit == Limit::Hard {
        let why = "SCHED_DEADLINE limits the reserved threads only, not a whole process";
        return Err(refused(why.to_string(), format!("leave out `--hard`, or {DISPATCH}")));
    }
    if reservation.period > PERIOD_MOST {
        let why = format!("the period ({}) is too long for SCHED_DEADLINE", reservation.period);
        return Err(refused(why, format!("use a period of at most {PERIOD_MOST}, or {DISPATCH}")));
    }
    if request.gang {
        let why = "the kernel does not begin the periods of several SCHED_DEADLINE threads together";
        return Err(refused(why.to_string(), format!("leave out `--gang`, or {DISPATCH}")));
    }
    let missing = all.minus(&request.affinity);
    if !missing.is_empty() {
        let why = format!("the promise excludes CPUs {missing}, and SCHED_DEADLINE uses all CPUs");
        return Err(refused(why, format!("leave out `--affinity`, or {DISPATCH}")));
    }
    Ok(reservation)
}

/// Chooses the threads of process `pid` that are reserved, one per CPU of the promise: the vCPUs of a VM, or the only
/// thread of another process.
pub(super) fn choose<T>(pid: u32, found: Vec<Found<T>>, cpus: usize) -> Result<Vec<Found<T>>, Refusal> {
    let (count, vcpus) = (found.len(), found.iter().filter(|new| new.role == Role::Vcpu).count());
    if vcpus > 0 && vcpus != cpus {
        let why = format!("process {pid} has {vcpus} vCPUs, and the promise is for {cpus} CPUs");
        return Err(refused(why, format!("use `--cpus {vcpus}`: SCHED_DEADLINE reserves each vCPU on its own")));
    }
    if vcpus == 0 && count > 1 {
        let why = format!(
            "process {pid} and its descendants have {count} threads, and SCHED_DEADLINE reserves single threads"
        );
        return Err(refused(why, format!("choose a process with one thread, or a VM; or {DISPATCH}")));
    }
    if vcpus == 0 && cpus > 1 {
        let why = format!("process {pid} has one thread, which runs on one CPU at a time");
        return Err(refused(why, format!("leave out `--cpus`, or {DISPATCH}")));
    }
    Ok(found.into_iter().filter(|new| vcpus == 0 || new.role == Role::Vcpu).collect())
}

/// Checks a chosen thread. `all` are the CPUs of the host.
pub(super) fn check_thread<K: Kernel>(kernel: &K, new: &Found<K::Thread>, all: &CpuSet) -> Result<(), Refusal> {
    let tid = new.identity.tid;
    unreserved(tid, kernel.attributes(&new.thread).map_err(Refusal::from)?)?;
    let own = kernel.affinity(&new.thread).map_err(Refusal::from)?;
    if !all.minus(&own).is_empty() {
        let why = format!(
            "thread {tid} may run on CPUs {own} only, and the kernel grants SCHED_DEADLINE only to a thread that may run on \
             every CPU"
        );
        return Err(refused(
            why,
            format!("let it run on CPUs {all} (taskset --cpu-list --pid {all} {tid}), or {DISPATCH}"),
        ));
    }
    Ok(())
}

/// Returns the warning that thread `tid` of client `name` has no part in the promise.
pub(super) fn not_served(name: &str, tid: u32) -> Explanation {
    let why = format!("{name} has started thread {tid}, and SCHED_DEADLINE reserves only the threads of the request");
    Explanation::new(why, "use `--mechanism inherit` for processes that start threads or children")
}
