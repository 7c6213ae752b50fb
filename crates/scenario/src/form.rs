//! Reads single values of a scenario. [`input::form`] has the functions that all inputs share.

pub(super) use input::form::*;

use super::{HOSTS_MAX, Mechanism};
use input::duration;
use input::problem::{Wrong, quoted, right_instead};
use sched::id::CPUS_MAX;
use sched::{Class, CpuSet, Limit, Quota, RtPriority, Weight};
use sim::guest::{Spinning, Steal};
use toml::de::DeValue;

/// Maximum number of vCPUs of one VM. A guest is a machine, so the limit is that of a machine.
pub(super) const VCPUS_MAX: usize = CPUS_MAX;
/// Maximum cap: all CPUs of the largest machine. Unit: percent of one CPU.
const CAP_MAX: u32 = 100 * CPUS_MAX as u32;
/// Maximum pid on Linux (PID_MAX_LIMIT, linux/threads.h).
const PID_MAX: u32 = 4_194_304;
/// Maximum length of a name, in bytes.
const NAME_MAX: usize = 100;

/// Reads a name: one printable line. A name must not contain `/`, which separates a VM from its vCPUs.
pub(super) fn name(value: &DeValue<'_>) -> Result<String, Wrong> {
    const RIGHT: &str = "use some printable text of at most 100 bytes, without `/` and without spaces at its ends";
    let name = text("name", value, "a text in quotes")?;
    let reason = match () {
        () if name.is_empty() => "is empty",
        () if name.len() > NAME_MAX => "is too long",
        () if name.contains('/') => "contains `/`, which separates a VM from its vCPUs",
        () if name.trim() != name => "begins or ends with a space",
        () if !name.chars().all(input::source::is_printable) => "contains characters that cannot be printed",
        () => return Ok(name.to_string()),
    };
    Err(Wrong::new(
        format!("the name {}{reason}", if name.is_empty() { String::new() } else { quoted(name) + " " }),
        reason,
        RIGHT,
    ))
}

/// Reads the title of the scenario: one printable line.
pub(super) fn title(value: &DeValue<'_>) -> Result<String, Wrong> {
    let title = text("name", value, "a text in quotes")?;
    let fits =
        !title.trim().is_empty() && title.len() <= 2 * NAME_MAX && title.chars().all(input::source::is_printable);
    if fits {
        return Ok(title.to_string());
    }
    Err(Wrong::new(
        "the name of the scenario is no title",
        "not a title",
        "use one line of printable text, of at most 200 bytes",
    ))
}

/// Reads a number of CPUs: of the machine, per core or per cache.
pub(super) fn cpu_count(key: &'static str, value: &DeValue<'_>) -> Result<usize, Wrong> {
    integer_in(key, value, 1..=CPUS_MAX, "")
}

/// Reads the number of hosts, or the number of a host from 1.
pub(super) fn host_number(key: &'static str, value: &DeValue<'_>) -> Result<usize, Wrong> {
    integer_in(key, value, 1..=HOSTS_MAX, "")
}

/// Reads the number of vCPUs of a VM.
pub(super) fn vcpu_count(value: &DeValue<'_>) -> Result<usize, Wrong> {
    integer_in("vcpus", value, 1..=VCPUS_MAX, "")
}

/// Reads the seed of the run: any unsigned 64-bit number, including values above TOML's signed range.
pub(super) fn seed(value: &DeValue<'_>) -> Result<u64, Wrong> {
    let right = format!("a whole number from 0 to {}", u64::MAX);
    let DeValue::Integer(digits) = value else { return Err(mistyped("seed", value, right)) };
    u64::from_str_radix(digits.as_str(), digits.radix()).map_err(|_| out_of_range("seed", right))
}

/// Reads a weight in Xen's scale.
pub(super) fn weight(value: &DeValue<'_>) -> Result<Weight, Wrong> {
    scaled("weight", value, "a whole number from 1 to 65535 (256 is normal)", |number| {
        Weight::xen(u32::try_from(number).ok()?)
    })
}

/// Reads a nice value.
pub(super) fn nice(value: &DeValue<'_>) -> Result<Weight, Wrong> {
    scaled("nice", value, "a whole number from -20 (the most) to 19 (the least), 0 is normal", |number| {
        Weight::nice(i32::try_from(number).ok()?)
    })
}

/// Reads the `cpu.weight` of a control group.
pub(super) fn cgroup_weight(value: &DeValue<'_>) -> Result<Weight, Wrong> {
    scaled("cgroup_weight", value, "a whole number from 1 to 10000 (100 is normal)", |number| {
        Weight::cgroup(u32::try_from(number).ok()?)
    })
}

fn scaled(
    key: &str,
    value: &DeValue<'_>,
    right: &str,
    weight: impl Fn(i64) -> Option<Weight>,
) -> Result<Weight, Wrong> {
    let number = integer(key, value, right)?;
    weight(number).ok_or_else(|| out_of_range(key, right))
}

/// Reads a cap, in percent of one CPU.
pub(super) fn cap(value: &DeValue<'_>) -> Result<u32, Wrong> {
    integer_in("cap", value, 1..=CAP_MAX, ", in percent of one CPU; for no cap leave it out")
}

/// Reads a quota with its period, such as `50ms/100ms`. In `cpu.max`, the same quota is `50000 100000`.
pub(super) fn quota(value: &DeValue<'_>) -> Result<Quota, Wrong> {
    const RIGHT: &str = "CPU time and period in quotes, such as \"50ms/100ms\"";
    let typed = text("quota", value, RIGHT)?;
    let Some((quota, period)) = typed.split_once('/') else {
        let message = format!("{} is not a quota", quoted(typed));
        return Err(Wrong::new(message, "no period", format!("use {RIGHT}")));
    };
    let (quota, period) = (duration::parse("quota", quota.trim())?, duration::parse("quota period", period.trim())?);
    Quota::new(quota, period).map_err(|refused| (&refused).into())
}

/// Reads a list of CPUs.
pub(super) fn cpu_list(value: &DeValue<'_>) -> Result<CpuSet, Wrong> {
    const RIGHT: &str = "a list of CPUs in quotes, such as \"2\" or \"0-3,8\"";
    let typed = text("affinity", value, RIGHT)?;
    typed.parse().map_err(|_| {
        let help = format!("use {RIGHT}, each below {CPUS_MAX}, or \"all\"");
        Wrong::new(format!("{} is not a list of CPUs", quoted(typed)), "not a list of CPUs", help)
    })
}

/// Reads the limit of a reservation: `soft` or `hard`.
pub(super) fn limit(value: &DeValue<'_>) -> Result<Limit, Wrong> {
    word("limit", value, &[("soft", Limit::Soft), ("hard", Limit::Hard)], "\"soft\" or \"hard\"")
}

/// Reads a program and its arguments.
pub(super) fn command(value: &DeValue<'_>) -> Result<Vec<String>, Wrong> {
    const RIGHT: &str = "a program and its arguments, each in quotes, such as [\"sleep\", \"10\"]";
    let DeValue::Array(words) = value else { return Err(mistyped("command", value, RIGHT)) };
    let mut command = Vec::with_capacity(words.len());
    for word in words.iter() {
        let at = word.span().into();
        let wrong = |what: &str| Wrong::new(what, "not a word of a command", format!("use {RIGHT}")).part(at);
        match word.get_ref() {
            DeValue::String(text) if text.contains('\0') => {
                return Err(wrong("a word of the command has a zero byte in it"));
            }
            DeValue::String(text) => command.push(text.to_string()),
            other => return Err(wrong(&format!("a word of the command is {}", kind(other)))),
        }
    }
    if command.first().is_none_or(String::is_empty) {
        let right = format!("use {RIGHT}");
        return Err(Wrong::new("the command names no program", "no program", right));
    }
    Ok(command)
}

/// Reads a pid.
pub(super) fn pid(value: &DeValue<'_>) -> Result<u32, Wrong> {
    integer_in("pid", value, 1..=PID_MAX, ", the number of a process that runs")
}

/// Reads the mechanism of a live promise.
pub(super) fn mechanism(value: &DeValue<'_>) -> Result<Mechanism, Wrong> {
    let words = [
        ("auto", Mechanism::Auto),
        ("inherit", Mechanism::Inherit),
        ("fifo", Mechanism::Fifo),
        ("deadline", Mechanism::Deadline),
    ];
    word("mechanism", value, &words, "\"auto\", \"inherit\", \"fifo\" or \"deadline\"")
}

/// Reads the kind of the guest's spin locks: ticket, unfair or paravirtual.
pub(super) fn spin(value: &DeValue<'_>) -> Result<Spinning, Wrong> {
    const RIGHT: &str = "\"ticket\", \"unfair\" or { paravirt = \"15us\" }";
    let DeValue::Table(table) = value else {
        return word("spin", value, &[("ticket", Spinning::Ticket), ("unfair", Spinning::Unfair)], RIGHT);
    };
    match single(table) {
        Some((name, limit)) if name.value == "paravirt" => {
            let limit = time_above_zero("paravirt", limit.value).map_err(|wrong| wrong.part(limit.at))?;
            Ok(Spinning::Paravirt { limit })
        }
        _ => Err(Wrong::new("this is not one way to spin", "not one way", format!("use {RIGHT}"))),
    }
}

/// Reads whether a guest can observe its steal time.
pub(super) fn steal(value: &DeValue<'_>) -> Result<Steal, Wrong> {
    word("steal", value, &[("hidden", Steal::Hidden), ("known", Steal::Known)], "\"hidden\" or \"known\"")
}

/// Reads a Linux scheduling class: a word, or a class with a real-time priority.
pub(super) fn class(value: &DeValue<'_>) -> Result<Class, Wrong> {
    const RIGHT: &str = "\"normal\", \"batch\", \"idle\", \"iso\", \"stop\", { fifo = 50 } or { rr = 10 }";
    let table = match value {
        DeValue::String(typed) if matches!(typed.as_ref(), "fifo" | "rr") => {
            let help = format!("use {{ {typed} = 1 }} up to {{ {typed} = 99 }}");
            return Err(Wrong::new(format!("the class `{typed}` needs a priority"), "without a priority", help));
        }
        DeValue::String(_) => {
            let words = [
                ("normal", Class::Normal),
                ("batch", Class::Batch),
                ("idle", Class::Idle),
                ("iso", Class::Isochronous),
                ("stop", Class::Stop),
            ];
            return word("class", value, &words, RIGHT);
        }
        DeValue::Table(table) => table,
        _ => return Err(mistyped("class", value, RIGHT)),
    };
    let (name, priority) =
        single(table).ok_or_else(|| Wrong::new("this is not one class", "not one class", format!("use {RIGHT}")))?;
    let class = match name.value {
        "fifo" => Class::Fifo,
        "rr" => Class::RoundRobin,
        _ => {
            let message = format!("there is no class {} with a priority", quoted(name.value));
            return Err(Wrong::new(message, "unknown class", right_instead(name.value, &["fifo", "rr"])).part(name.at));
        }
    };
    let number = integer_in("priority", priority.value, 1..=99_u8, " (99 is the most urgent)")
        .map_err(|wrong| wrong.part(priority.at))?;
    Ok(class(RtPriority::new(number).expect("1 to 99 is the range of priorities")))
}
