//! What kernel this is, and what it was built with.

use crate::{Result, file};
use procfs::ConfigSetting;

/// Its release, such as `6.18.2`.
#[must_use]
pub fn release() -> String {
    rustix::system::uname().release().to_string_lossy().into_owned()
}

/// How it was built, such as `#1 SMP PREEMPT_DYNAMIC`.
#[must_use]
pub fn version() -> String {
    rustix::system::uname().version().to_string_lossy().into_owned()
}

/// What this start of the machine is called.
///
/// # Errors
/// The kernel does not say.
pub fn boot_id() -> Result<String> {
    Ok(file::read("/proc/sys/kernel/random/boot_id")?.trim().to_string())
}

/// What is known of an option it was built with.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Configured {
    /// With it, or with it as a module.
    With,
    /// Without it.
    Without,
    /// To this value.
    To(String),
    /// It keeps no account of how it was built.
    Unknown,
}

/// The options it was built with.
#[derive(Debug)]
pub struct Configuration {
    options: Option<procfs::KernelConfig>,
}

impl Configuration {
    /// From /proc/config.gz or /boot; every option is unknown where neither is there.
    #[must_use]
    pub fn read() -> Configuration {
        Configuration { options: procfs::kernel_config().ok().map(procfs::KernelConfig) }
    }

    /// That of this name, `CONFIG_…`.
    #[must_use]
    pub fn option(&self, name: &str) -> Configured {
        match self.options.as_ref().map(|options| options.0.get(name)) {
            None => Configured::Unknown,
            Some(None) => Configured::Without,
            Some(Some(ConfigSetting::Yes | ConfigSetting::Module)) => Configured::With,
            Some(Some(ConfigSetting::Value(value))) => Configured::To(value.clone()),
        }
    }

    /// Its ticks in a second, where that is known.
    #[must_use]
    pub fn tick_rate(&self) -> Option<u32> {
        match self.option("CONFIG_HZ") {
            Configured::To(value) => value.parse().ok(),
            _ => None,
        }
    }
}

/// The value of a parameter it was started with: the last, where there are several. None: it was not given.
#[must_use]
pub fn parameter(name: &str) -> Option<String> {
    given(&file::read("/proc/cmdline").ok()?, name)
}

fn given(line: &str, name: &str) -> Option<String> {
    let mut values = line.split_ascii_whitespace().rev().filter_map(|word| word.strip_prefix(name)?.strip_prefix('='));
    values.next().map(str::to_string)
}

/// Where its time comes from.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ClockSource {
    /// The clock it uses.
    pub current: String,
    /// Those it could use.
    pub available: Vec<String>,
}

/// Where its time comes from.
///
/// # Errors
/// It does not say.
pub fn clock_source() -> Result<ClockSource> {
    let folder = "/sys/devices/system/clocksource/clocksource0";
    let current = file::read(format!("{folder}/current_clocksource"))?.trim().to_string();
    let available = file::read(format!("{folder}/available_clocksource"))?;
    Ok(ClockSource { current, available: available.split_ascii_whitespace().map(str::to_string).collect() })
}

/// Its schedulers written in BPF.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum SchedExt {
    /// It has no place for one.
    Absent,
    /// It has a place for one, and none is there.
    Vacant,
    /// One is there.
    Loaded(String),
}

/// Whether it has, or could have, a scheduler written in BPF.
#[must_use]
pub fn sched_ext() -> SchedExt {
    match file::read("/sys/kernel/sched_ext/state") {
        Err(_) => SchedExt::Absent,
        Ok(state) if state.trim() == "disabled" => SchedExt::Vacant,
        Ok(state) => {
            let name = file::read("/sys/kernel/sched_ext/root/ops").unwrap_or(state);
            SchedExt::Loaded(name.trim().to_string())
        }
    }
}

/// How it is locked down against its own root, where it is.
#[must_use]
pub fn lockdown() -> Option<String> {
    let text = file::read("/sys/kernel/security/lockdown").ok()?;
    let (_, rest) = text.split_once('[')?;
    let (chosen, _) = rest.split_once(']')?;
    (chosen != "none").then(|| chosen.to_string())
}

/// Whether threads are preempted nearly everywhere in it (PREEMPT_RT).
#[must_use]
pub fn is_realtime() -> bool {
    file::value::<u32>("/sys/kernel/realtime", "0 or 1").is_ok_and(|on| on == 1)
}

/// How many clock ticks of /proc there are in a second.
#[must_use]
pub fn ticks_per_second() -> u64 {
    rustix::param::clock_ticks_per_second()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_says_who_it_is() {
        assert!(release().starts_with(|first: char| first.is_ascii_digit()));
        assert!(version().contains('#'));
        assert_eq!(boot_id().unwrap().len(), 36);
        let clock = clock_source().unwrap();
        assert!(clock.available.contains(&clock.current));
        assert_eq!(ticks_per_second(), 100);
    }

    #[test]
    fn the_last_value_of_a_parameter_counts() {
        let line = "quiet rt_group_sched=1 rt_group_sched_other=5 rt_group_sched=0\n";
        assert_eq!(given(line, "rt_group_sched").as_deref(), Some("0"));
        assert_eq!(given(line, "quiet"), None);
        assert_eq!(parameter("no_such_parameter"), None);
    }

    #[test]
    fn an_option_is_known_or_it_is_said_that_none_is() {
        let configuration = Configuration::read();
        match configuration.option("CONFIG_NO_SUCH_OPTION") {
            Configured::Unknown => {
                eprintln!("SKIPPED: this kernel keeps no account of how it was built");
                assert_eq!(configuration.tick_rate(), None);
            }
            other => {
                assert_eq!(other, Configured::Without);
                assert!(configuration.tick_rate().is_some_and(|rate| rate >= 24));
            }
        }
    }
}
