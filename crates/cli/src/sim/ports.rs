//! The policies of `--policy`: registered ones, and ports such as `scx:edf`, each in a process of the program with this port.

use crate::failure::{Failure, usage};
use crate::scx::beside;
use anyhow::Error;
use input::knobs::KnobSetting;
use port::{PORTS, PortSource, Process, StartError};
use run::Choice;
use scenario::Scenario;
use std::path::PathBuf;

/// The beginning of the names of programs with a port.
const PROGRAM: &str = "tactus-port-";

/// Returns the name of the port, if `name` names one.
fn port_name(name: &str) -> Option<&str> {
    name.trim().strip_prefix(PortSource::PREFIX)
}

/// Returns the policies with these `names`, or the scenario's own policy. Only registered policies have knobs.
pub(super) fn choose(scenario: &Scenario, names: &[String], settings: &[KnobSetting]) -> Result<Vec<Choice>, Failure> {
    if !names.iter().any(|name| port_name(name).is_some()) {
        return Ok(run::choose(scenario, names, settings)?);
    }
    let registered: Vec<String> = names.iter().filter(|name| port_name(name).is_none()).cloned().collect();
    let mut registered = match (registered.is_empty(), settings) {
        (true, []) => Vec::new(),
        (true, [setting, ..]) => {
            let right = "leave the knob out, or name a policy that has it";
            return Err(usage(format!("a port has no knob `{}`", setting.name), right));
        }
        (false, _) => run::choose(scenario, &registered, settings)?,
    }
    .into_iter();
    let choice = |name: &String| match port_name(name) {
        Some(name) => choose_port(name, |program| beside(&format!("{PROGRAM}{program}"))),
        None => Ok(registered.next().expect("each name has a choice")),
    };
    names.iter().map(choice).collect()
}

/// Rejects ports where only registered policies work.
pub(super) fn reject(names: &[String], reason: &str) -> Result<(), Failure> {
    match names.iter().find_map(|name| port_name(name)) {
        None => Ok(()),
        Some(port) => Err(usage(reason.to_string(), &format!("use the policy `{port}`"))),
    }
}

/// Returns the port of this name. `path` returns the path of a program with ports.
fn choose_port(name: &str, path: impl Fn(&str) -> PathBuf) -> Result<Choice, Failure> {
    let Some(port) = port::find(name) else {
        let names: Vec<String> = PORTS.iter().map(|port| format!("{}{}", PortSource::PREFIX, port.name)).collect();
        return Err(usage(format!("there is no port `{name}`"), &format!("use {}", names.join(" or "))));
    };
    // Starts a process once, so that a program that does not work is an error and not a refusal within the run.
    let (program, path) = (port.program, path(port.program));
    match Process::start(&path, program) {
        Ok(_) => Ok(Choice::made(PortSource::new(port, path))),
        Err(StartError::NotFound) => Err(usage(
            format!("the program {PROGRAM}{program} is neither beside tactus nor in PATH"),
            "build it with `cargo build --release --package scx --features port`, which needs a C compiler (docs/sched-ext.md)",
        )),
        Err(StartError::NoPort(reason)) => Err(usage(
            format!("{} has no port `{name}`: {reason}", path.display()),
            "build it anew with `cargo build --release --package scx --features port`",
        )),
        Err(StartError::Failed(error)) => {
            Err(Error::new(error).context(format!("cannot run {}", path.display())).into())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::failure::explained;

    fn refusal(name: &str, path: &str) -> String {
        let failure = choose_port(name, |_| path.into()).expect_err("it does not work");
        let explanation = explained(failure);
        format!("{}; {}", explanation.reason, explanation.remedy)
    }

    #[test]
    fn what_lacks_for_a_port_is_said_with_its_remedy() {
        let missing = refusal("edf", "/nonexistent/tactus-port-edf");
        assert!(missing.contains("neither beside tactus nor in PATH; build it with"), "{missing}");
        let gangs = refusal("gang-edf", "/nonexistent/tactus-port-edf");
        assert!(gangs.contains("the program tactus-port-edf is neither"), "{gangs}");
        let other = refusal("edf", "/bin/false");
        assert!(other.contains("/bin/false has no port `edf`: the program ends at once; build it anew"), "{other}");
        let unknown = refusal("bfq", "/bin/false");
        assert_eq!(unknown, "there is no port `bfq`; use scx:bmq or scx:edf or scx:gang-edf");
    }

    #[test]
    fn a_port_is_refused_where_only_registered_policies_work() {
        let names = |names: &[&str]| names.iter().map(ToString::to_string).collect::<Vec<_>>();
        assert!(reject(&names(&["edf", "cfs"]), "no").is_ok());
        let failure = reject(&names(&["edf", " scx:edf"]), "a guest has no ports").expect_err("it is a port");
        let explanation = explained(failure);
        assert_eq!((&*explanation.reason, &*explanation.remedy), ("a guest has no ports", "use the policy `edf`"));
    }
}
