//! The empty loop: the cost of a wake-up.

use crate::{cpu, hogs};
use sched::{CpuSet, Nanos};
use sys::attributes::{self, Attributes};
use sys::usage::Meter;
use sys::{affinity, clock, thread};

/// Measures the CPU time per wake-up of a FIFO thread that wakes twice per period and sleeps again at once. The thread
/// runs beside the hogs of the other measurements. Unit: ns.
pub(crate) fn measure(period: Nanos, length: Nanos) -> f64 {
    let _hogs = hogs();
    let body = move || -> sys::Result<f64> {
        let me = thread::current();
        affinity::set(me, &CpuSet::one(cpu()))?;
        attributes::set(me, Attributes::raised(98))?;
        clock::set_slack(Nanos::ns(1))?;
        let step = Nanos::ns(period.as_ns() / 2);
        let meter = Meter::open(me)?;
        let before = meter.read()?;
        let (mut at, mut wakes) = (clock::now(), 0_u64);
        let end = at.saturating_add(length);
        while at < end {
            at = at.saturating_add(step);
            clock::sleep_until(at);
            wakes += 1;
        }
        Ok((meter.read()?.ran - before.ran).as_ns() as f64 / wakes as f64)
    };
    std::thread::spawn(body)
        .join()
        .expect("it does not panic")
        .expect("SCHED_FIFO is permitted where promises are kept")
}
