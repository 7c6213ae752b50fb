//! The kernel of this machine and its build configuration.

use crate::{Result, file};
use procfs::ConfigSetting;

/// Returns the release of the kernel, such as `6.18.2`.
#[must_use]
pub fn release() -> String {
    rustix::system::uname().release().to_string_lossy().into_owned()
}

/// Returns the version of the kernel, such as `#1 SMP PREEMPT_DYNAMIC`.
#[must_use]
pub fn version() -> String {
    rustix::system::uname().version().to_string_lossy().into_owned()
}

/// Returns the boot ID of this machine.
///
/// # Errors
/// The kernel does not report the boot ID.
pub fn boot_id() -> Result<String> {
    Ok(file::read("/proc/sys/kernel/random/boot_id")?.trim().to_string())
}

/// The value of a build option.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Configured {
    /// The option is built in, or built as a module.
    With,
    /// The option is not set.
    Without,
    /// The option has this value.
    To(String),
    /// The kernel does not publish its configuration.
    Unknown,
}

/// The build options of the kernel.
#[derive(Debug)]
pub struct Configuration {
    options: Option<procfs::KernelConfig>,
}

impl Configuration {
    /// Reads the configuration from /proc/config.gz or /boot. If there is none, every option is
    /// [`Configured::Unknown`].
    #[must_use]
    pub fn read() -> Configuration {
        Configuration { options: procfs::kernel_config().ok().map(procfs::KernelConfig) }
    }

    /// Returns the value of option `name`, such as `CONFIG_HZ`.
    #[must_use]
    pub fn option(&self, name: &str) -> Configured {
        match self.options.as_ref().map(|options| options.0.get(name)) {
            None => Configured::Unknown,
            Some(None) => Configured::Without,
            Some(Some(ConfigSetting::Yes | ConfigSetting::Module)) => Configured::With,
            Some(Some(ConfigSetting::Value(value))) => Configured::To(value.clone()),
        }
    }

    /// Returns the number of ticks per second; `None` if unknown.
    #[must_use]
    pub fn tick_rate(&self) -> Option<u32> {
        match self.option("CONFIG_HZ") {
            Configured::To(value) => value.parse().ok(),
            _ => None,
        }
    }
}

/// Returns the last value of a boot parameter; `None` if the parameter was not given, or was given without a value.
#[must_use]
pub fn parameter(name: &str) -> Option<String> {
    given(&file::read("/proc/cmdline").ok()?, name)
}

fn given(line: &str, name: &str) -> Option<String> {
    let mut values = line.split_ascii_whitespace().rev().filter_map(|word| word.strip_prefix(name)?.strip_prefix('='));
    values.next().map(str::to_string)
}

/// The clock source.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ClockSource {
    /// The clock in use.
    pub current: String,
    /// The clocks that are available.
    pub available: Vec<String>,
}

/// Returns the clock source.
///
/// # Errors
/// The kernel does not report the clock source.
pub fn clock_source() -> Result<ClockSource> {
    let folder = "/sys/devices/system/clocksource/clocksource0";
    let current = file::read(format!("{folder}/current_clocksource"))?.trim().to_string();
    let available = file::read(format!("{folder}/available_clocksource"))?;
    Ok(ClockSource { current, available: available.split_ascii_whitespace().map(str::to_string).collect() })
}

/// State of sched_ext, the scheduling class of BPF schedulers.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum SchedExt {
    /// The kernel does not support sched_ext.
    Absent,
    /// The kernel supports sched_ext, and no scheduler is loaded.
    Vacant,
    /// A scheduler is loaded. The string is its name, or the state of sched_ext if the kernel does not report the name.
    Loaded(String),
}

/// Where the kernel describes sched_ext. Source: kernel/sched/ext.c (`scx_sched_attrs`), Linux 7.2.
const SCHED_EXT_STATE: &str = "/sys/kernel/sched_ext/state";

/// Returns whether a loaded scheduler schedules. While a scheduler begins or ends, none does.
#[must_use]
pub fn is_sched_ext_enabled() -> bool {
    file::read(SCHED_EXT_STATE).is_ok_and(|state| state.trim() == "enabled")
}

/// Returns the state of sched_ext.
#[must_use]
pub fn sched_ext() -> SchedExt {
    match file::read(SCHED_EXT_STATE) {
        Err(_) => SchedExt::Absent,
        Ok(state) if state.trim() == "disabled" => SchedExt::Vacant,
        Ok(state) => {
            let name = file::read("/sys/kernel/sched_ext/root/ops").unwrap_or(state);
            SchedExt::Loaded(name.trim().to_string())
        }
    }
}

/// Returns the active lockdown mode; `None` without lockdown.
#[must_use]
pub fn lockdown() -> Option<String> {
    let text = file::read("/sys/kernel/security/lockdown").ok()?;
    let (_, rest) = text.split_once('[')?;
    let (chosen, _) = rest.split_once(']')?;
    (chosen != "none").then(|| chosen.to_string())
}

/// Returns whether the kernel is fully preemptible (PREEMPT_RT).
#[must_use]
pub fn is_realtime() -> bool {
    file::value::<u32>("/sys/kernel/realtime", "0 or 1").is_ok_and(|on| on == 1)
}

/// Returns the number of clock ticks per second (USER_HZ), the unit of times in /proc.
#[must_use]
pub fn ticks_per_second() -> u64 {
    rustix::param::clock_ticks_per_second()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_reports_its_release_and_version() {
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
