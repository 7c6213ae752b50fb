//! `tactus schedinfo`: what is desired for a VM in the form of `virsh schedinfo`, for scripts that are written for it.
//!
//! `cpu_shares`, `global_period` and `global_quota` have the meaning that they have for QEMU (virsh(1), libvirt 11.3); the
//! two times are in microseconds. `slice` and `period` are a promise, also in microseconds.

use super::changes::{changed, would_be_changed};
use super::views::client;
use crate::failure::{Failure, usage};
use crate::output;
use crate::service_args::SchedInfo;
use api::{CAP_MOST, Desired, Limit, Mechanism, Promise, Vm, WEIGHT_MOST};
use serde_json::json;
use std::fmt::Write;

/// Nanoseconds per microsecond.
const NS: u64 = 1_000;
/// The period of a quota in the display. Unit: microseconds.
const QUOTA_PERIOD_US: u64 = 100_000;
/// The parameters, in the order of the display.
const PARAMETERS: [&str; 5] = ["cpu_shares", "global_period", "global_quota", "slice", "period"];

pub(crate) fn schedinfo(args: &SchedInfo) -> Result<(), Failure> {
    let wanted = args.set.iter().map(|text| parameter(text)).collect::<Result<Vec<_>, Failure>>()?;
    let client = client(&args.at)?;
    let change = |desired: &mut Desired| change(&wanted, desired);
    let vm = match (wanted.is_empty(), args.dry_run) {
        (true, _) => client.show(&args.vm)?,
        (false, true) => would_be_changed(&client, &args.vm, None, change)?,
        (false, false) => changed(&client, &args.vm, None, args.reason.as_deref(), change)?,
    };
    let text = if args.at.json { output::json(&values(&vm))? } else { shown(&vm) };
    Ok(output::print(&text)?)
}

/// Returns the parameters of a VM.
fn values(vm: &Vm) -> serde_json::Value {
    let Desired { promise, weight, cap_percent, .. } = &vm.desired;
    let quota = cap_percent.map_or(-1, |percent| i64::from(percent) * 1_000);
    let us = |time: fn(&Promise) -> u64| promise.as_ref().map_or(0, |promise| time(promise) / NS);
    let of = |name: &str| match name {
        "cpu_shares" => json!(weight.unwrap_or(100)),
        "global_period" => json!(QUOTA_PERIOD_US),
        "global_quota" => json!(quota),
        "slice" => json!(us(|promise| promise.slice_ns)),
        _ => json!(us(|promise| promise.period_ns)),
    };
    PARAMETERS.iter().map(|name| ((*name).to_string(), of(name))).collect::<serde_json::Map<_, _>>().into()
}

fn shown(vm: &Vm) -> String {
    let values = values(vm);
    let mut text = format!("{:15}: tactus\n", "Scheduler");
    for name in PARAMETERS {
        let _ = writeln!(text, "{name:15}: {}", values[name]);
    }
    text
}

/// Reads `NAME=VALUE`.
fn parameter(text: &str) -> Result<(&'static str, i64), Failure> {
    let wrong =
        || usage(format!("`{text}` is no parameter"), &format!("use NAME=NUMBER with {}", PARAMETERS.join(", ")));
    let (name, value) = text.split_once('=').ok_or_else(wrong)?;
    let name = PARAMETERS.into_iter().find(|known| *known == name).ok_or_else(wrong)?;
    Ok((name, value.parse().map_err(|_| wrong())?))
}

/// Changes `desired` as the parameters request.
fn change(wanted: &[(&'static str, i64)], desired: &mut Desired) -> Result<(), Failure> {
    let get = |name: &str| wanted.iter().rfind(|(known, _)| *known == name).map(|(_, value)| *value);
    let number = |name: &str| {
        let value = get(name).map(u64::try_from).transpose();
        value.map_err(|_| usage(format!("`{name}` is negative"), "use 0 or a positive number"))
    };
    if let Some(weight) = number("cpu_shares")? {
        let wrong = || usage(format!("cpu_shares={weight} is no weight"), "use 1 to 10000; an ordinary group has 100");
        let weight = u32::try_from(weight).ok().filter(|weight| (1..=WEIGHT_MOST).contains(weight));
        desired.weight = Some(weight.ok_or_else(wrong)?);
    }
    if get("global_period").is_some() && get("global_quota").is_none() {
        return Err(usage(
            "global_period needs a global_quota".to_string(),
            "use --set global_quota=50000 global_period=100000",
        ));
    }
    if get("global_quota").is_some_and(|quota| quota <= 0) {
        desired.cap_percent = None;
    } else if let Some(quota) = number("global_quota")? {
        desired.cap_percent = Some(cap(quota, number("global_period")?.unwrap_or(QUOTA_PERIOD_US))?);
    }
    let (slice, period) = (number("slice")?, number("period")?);
    if slice == Some(0) || period == Some(0) {
        desired.promise = None;
    } else if slice.is_some() || period.is_some() {
        let ns = |time: Option<u64>, before: Option<u64>| time.map(|us| us.saturating_mul(NS)).or(before);
        let before = desired.promise.take();
        let slice = ns(slice, before.as_ref().map(|promise| promise.slice_ns));
        let period = ns(period, before.as_ref().map(|promise| promise.period_ns));
        let (Some(slice_ns), Some(period_ns)) = (slice, period) else {
            return Err(usage("a promise needs a slice and a period".to_string(), "use --set slice=2000 period=10000"));
        };
        let first =
            Promise { slice_ns, period_ns, cpus: 1, gang: false, limit: Limit::Soft, mechanism: Mechanism::Auto };
        desired.promise = Some(Promise { slice_ns, period_ns, ..before.unwrap_or(first) });
    }
    Ok(())
}

/// Returns the cap of a quota in each period, in percent of a CPU.
fn cap(quota_us: u64, period_us: u64) -> Result<u32, Failure> {
    let hundredfold = quota_us.saturating_mul(100);
    let percent = hundredfold.checked_div(period_us).filter(|percent| percent * period_us == hundredfold);
    let percent = percent.and_then(|percent| u32::try_from(percent).ok()).filter(|cap| (1..=CAP_MOST).contains(cap));
    let reason = || format!("global_quota={quota_us} in global_period={period_us} is no whole percentage of a CPU");
    percent.ok_or_else(|| usage(reason(), "use 1 to 102400 %: global_quota=150000 is 150 % of a CPU"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(set: &[&str], mut desired: Desired) -> Result<Desired, String> {
        let words = |failure: Failure| format!("{failure:?}");
        let wanted = set.iter().map(|text| parameter(text)).collect::<Result<Vec<_>, _>>().map_err(words)?;
        change(&wanted, &mut desired).map_err(words)?;
        Ok(desired)
    }

    #[test]
    fn parameters_of_virsh_are_weight_cap_and_promise() {
        let desired =
            after(&["cpu_shares=50", "global_quota=150000", "slice=2000", "period=10000"], Desired::default());
        let desired = desired.unwrap();
        let promise = desired.promise.clone().unwrap();
        assert_eq!((desired.weight, desired.cap_percent), (Some(50), Some(150)));
        assert_eq!((promise.slice_ns, promise.period_ns), (2_000_000, 10_000_000));
        let faster = after(&["period=5000"], desired.clone()).unwrap().promise.unwrap();
        assert_eq!((faster.slice_ns, faster.period_ns), (2_000_000, 5_000_000));
        let less = after(&["global_period=10000", "global_quota=2500"], desired.clone()).unwrap();
        assert_eq!(less.cap_percent, Some(25));
        let none = after(&["global_quota=-1", "slice=0"], desired).unwrap();
        assert_eq!((none.cap_percent, none.promise, none.weight), (None, None, Some(50)));
    }

    #[test]
    fn other_parameters_and_values_are_refused() {
        for (set, said) in [
            (&["vcpu_quota=5000"][..], "is no parameter"),
            (&["slice"], "is no parameter"),
            (&["slice=2ms"], "is no parameter"),
            (&["slice=2000"], "needs a slice and a period"),
            (&["slice=-2000", "period=1"], "is negative"),
            (&["cpu_shares=0"], "is no weight"),
            (&["global_period=50000"], "needs a global_quota"),
            (&["global_quota=1234"], "no whole percentage"),
            (&["global_quota=1000", "global_period=0"], "no whole percentage"),
        ] {
            let refused = after(set, Desired::default()).unwrap_err();
            assert!(refused.contains(said), "{set:?}: {refused}");
        }
    }
}
