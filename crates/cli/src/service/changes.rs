//! `tactus set`, `tactus unset`, `tactus pause` and `tactus resume`: changes of what is desired for a VM.

use super::views::{client, print};
use crate::failure::{Failure, usage};
use crate::service_args::{Named, Set};
use api::{Client, Desired, Error, Limit, Mechanism, Promise, Vm};

/// Number of attempts to change a VM that other clients change, too.
const ATTEMPTS: usize = 5;
/// HTTP status: another client has changed the VM.
const OUTDATED: u16 = 412;

pub(crate) fn set(args: &Set) -> Result<(), Failure> {
    let change = |desired: &mut Desired| wish(args, desired);
    let client = client(&args.at)?;
    if args.dry_run {
        return print(&would_be_changed(&client, &args.vm, args.if_generation, change)?, args.at.json);
    }
    let vm = changed(&client, &args.vm, args.if_generation, args.reason.as_deref(), change)?;
    print(&vm, args.at.json)
}

pub(crate) fn unset(args: &Named) -> Result<(), Failure> {
    named(args, |desired| {
        *desired = Desired::default();
        Ok(())
    })
}

pub(crate) fn pause(args: &Named) -> Result<(), Failure> {
    named(args, |desired| paused(&args.vm, desired, true))
}

pub(crate) fn resume(args: &Named) -> Result<(), Failure> {
    named(args, |desired| paused(&args.vm, desired, false))
}

fn named(args: &Named, change: impl Fn(&mut Desired) -> Result<(), Failure>) -> Result<(), Failure> {
    let vm = changed(&client(&args.at)?, &args.vm, None, args.reason.as_deref(), change)?;
    print(&vm, args.at.json)
}

fn paused(vm: &str, desired: &mut Desired, is_paused: bool) -> Result<(), Failure> {
    if desired.is_empty() {
        let reason = format!("nothing is desired for {vm}, so there is nothing to pause or resume");
        return Err(usage(reason, "use `tactus set` first"));
    }
    desired.paused = is_paused;
    Ok(())
}

/// Returns `vm` as it would be after `change`. Nothing changes.
pub(super) fn would_be_changed(
    client: &Client,
    vm: &str,
    generation: Option<u64>,
    change: impl Fn(&mut Desired) -> Result<(), Failure>,
) -> Result<Vm, Failure> {
    let Vm { mut desired, .. } = client.show(vm)?;
    change(&mut desired)?;
    Ok(client.would_set(vm, generation, &desired)?)
}

/// Applies `change` to what is desired for `vm`. If another client changes the VM at the same time, begins again with the
/// new state, unless the VM must have `generation`.
pub(super) fn changed(
    client: &Client,
    vm: &str,
    generation: Option<u64>,
    reason: Option<&str>,
    change: impl Fn(&mut Desired) -> Result<(), Failure>,
) -> Result<Vm, Failure> {
    let mut attempt = 0;
    loop {
        let Vm { generation: latest, mut desired, .. } = client.show(vm)?;
        change(&mut desired)?;
        attempt += 1;
        match client.set(vm, Some(generation.unwrap_or(latest)), &desired, reason) {
            Err(Error::Refused(problem))
                if problem.status == OUTDATED && generation.is_none() && attempt < ATTEMPTS => {}
            other => return Ok(other?),
        }
    }
}

/// Changes `desired` as `args` request.
fn wish(args: &Set, desired: &mut Desired) -> Result<(), Failure> {
    let time = |text: &Option<String>| {
        let parsed = text.as_deref().map(input::duration::length).transpose()?;
        Ok::<_, Failure>(parsed.map(sched::Nanos::as_ns))
    };
    let (slice, period) = (time(&args.slice)?, time(&args.period)?);
    let is_of_promise = [args.cpus.is_some(), args.gang.is_some(), args.hard, args.soft, args.mechanism.is_some()];
    if args.no_promise {
        desired.promise = None;
    } else if slice.is_some() || period.is_some() || is_of_promise.contains(&true) {
        let promise = match (desired.promise.take(), slice, period) {
            (Some(before), slice, period) => Promise {
                slice_ns: slice.unwrap_or(before.slice_ns),
                period_ns: period.unwrap_or(before.period_ns),
                ..before
            },
            (None, Some(slice_ns), Some(period_ns)) => {
                Promise { slice_ns, period_ns, cpus: 1, gang: false, limit: Limit::Soft, mechanism: Mechanism::Auto }
            }
            (None, ..) => {
                let reason = format!("{} has no promise yet, so the promise needs a slice and a period", args.vm);
                return Err(usage(reason, "use --slice 2ms --period 10ms"));
            }
        };
        let limit = match (args.hard, args.soft) {
            (true, _) => Limit::Hard,
            (_, true) => Limit::Soft,
            _ => promise.limit,
        };
        desired.promise = Some(Promise {
            cpus: args.cpus.unwrap_or(promise.cpus),
            gang: args.gang.unwrap_or(promise.gang),
            limit,
            mechanism: args.mechanism.map_or(promise.mechanism, Into::into),
            ..promise
        });
    }
    desired.weight = args.weight.or(desired.weight.filter(|_| !args.no_weight));
    desired.cap_percent = args.cap.or(desired.cap_percent.filter(|_| !args.no_cap));
    Ok(())
}
