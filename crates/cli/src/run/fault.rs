//! The hidden options for fault injection.

use crate::args::Run;
use crate::failure::{Failure, usage};
use daemon::live::{Fault, FaultKind, StalledThread};
use sched::Nanos;
use sys::failing::{Call, Errno};

/// Returns the fault that `--stall` or `--fail` describes.
pub(crate) fn fault(args: &Run) -> Result<Option<Fault>, Failure> {
    match (&args.stall, &args.fail) {
        (Some(text), _) => stall(text).map(Some),
        (None, Some(text)) => failing_call(text).map(Some),
        (None, None) => Ok(None),
    }
}

/// Returns the fault that `text` describes: `agent:300ms`.
fn stall(text: &str) -> Result<Fault, Failure> {
    let (name, time) = text.split_once(':').unwrap_or((text, ""));
    let found = StalledThread::ALL.into_iter().find(|(_, it)| *it == name);
    let (thread, _) = found.ok_or_else(|| {
        let right = "use agent, holder, keeper or commands, and a time: agent:300ms";
        usage(format!("there is no thread `{name}`"), right)
    })?;
    Ok(Fault { kind: FaultKind::Stall(thread), after: length(time)? })
}

/// Returns the fault that `text` describes: `sched_setattr:EPERM:300ms`.
fn failing_call(text: &str) -> Result<Fault, Failure> {
    let mut parts = text.splitn(3, ':');
    let mut part = || parts.next().unwrap_or_default();
    let (call, error, time) = (part(), part(), part());
    let found = Call::find(call).zip(Errno::find(error));
    let (call, error) = found.ok_or_else(|| {
        let calls: Vec<&str> = Call::ALL.iter().map(|call| call.name).collect();
        let errors: Vec<&str> = Errno::ALL.iter().map(|error| error.name).collect();
        let right = format!("use one of {}; one of {}; and a time", calls.join(", "), errors.join(", "));
        usage(format!("`{call}` cannot fail with `{error}`"), &right)
    })?;
    let kind = FaultKind::Fail { call: call.name.to_string(), error: error.name.to_string() };
    Ok(Fault { kind, after: length(time)? })
}

/// Returns the time that `text` describes. 0 is a time, too.
fn length(text: &str) -> Result<Nanos, Failure> {
    if text == "0" { Ok(Nanos::ZERO) } else { Ok(input::duration::length(text)?) }
}
