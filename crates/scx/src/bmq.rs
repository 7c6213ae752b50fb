//! [`Settings`]: the numbers of the policy `bmq` for its port to BPF, `bpf/bmq.h`.

use input::knobs::{KnobSetting, apply_knobs};
use input::problem::{Problem, Problems};
use policies::bmq::{Tables, YieldEffect};
use sched::Knobs;
use zerocopy::{Immutable, IntoBytes};

/// Knobs of the Rust policy that have no effect in the port, each with the reason.
pub const UNUSED_KNOBS: [(&str, &str); 3] = [
    ("tick", "the ticks are those of the kernel (CONFIG_HZ)"),
    ("deadline-is-fifo", "sched_ext schedules no real-time threads"),
    ("interactive-boost", "the port gives no hints to a host"),
];
/// The best boost of a kind whose boost never improves.
const NEVER: i8 = 127;

/// `struct bmq_settings` of `bmq.h`.
#[derive(Clone, Copy, Debug, IntoBytes, Immutable)]
#[repr(C)]
pub struct Settings {
    slice: u64,
    rest_least: u64,
    timer_least: u64,
    long_run: u64,
    sleep_above: u64,
    short_runs: [u64; 25],
    sleep_shift: u32,
    sleep_most: u32,
    clamps: u32,
    yields: u32,
    yielder_goes_last: u32,
    one_better: u32,
    steal_most: u32,
    worst: i8,
    first: i8,
    yielded: i8,
    reserved: i8,
    best: [i8; 3],
    children: [i8; 25],
    levels: [[u8; 25]; 40],
    padding: [u8; 4],
}

impl Settings {
    /// Returns the settings for these knobs of the policy.
    #[must_use]
    pub fn new(knobs: &Knobs) -> Settings {
        let tables = Tables::new(knobs);
        let boost = |boost: i32| i8::try_from(boost).expect("a boost is small");
        Settings {
            slice: tables.slice.as_ns(),
            rest_least: tables.rest_least.as_ns(),
            timer_least: tables.timer_least.as_ns(),
            long_run: tables.long_run.as_ns(),
            sleep_above: tables.sleep_above.as_ns(),
            short_runs: tables.short_runs.map(|length| length.as_ns()),
            sleep_shift: tables.sleep_shift,
            sleep_most: tables.sleep_most,
            clamps: u32::from(tables.clamps),
            yields: match tables.yields {
                YieldEffect::GiveUp => 0,
                YieldEffect::Ignored => 1,
                YieldEffect::Skip => 2,
            },
            yielder_goes_last: u32::from(tables.yielder_goes_last),
            one_better: u32::from(tables.one_better),
            steal_most: tables.steal_most,
            worst: boost(tables.worst),
            first: boost(tables.first),
            yielded: boost(tables.yielded),
            reserved: 0,
            best: tables.best.map(|best| best.map_or(NEVER, boost)),
            children: tables.children.map(boost),
            levels: tables.levels,
            padding: [0; 4],
        }
    }

    /// Returns the settings for knobs of the command line.
    ///
    /// # Errors
    /// The policy has no such knob or value, or the knob has no effect in the port.
    pub fn from_options(knobs: &[String]) -> Result<Settings, Problems> {
        let settings = knobs.iter().map(|text| text.parse()).collect::<Result<Vec<KnobSetting>, Problems>>()?;
        for text in knobs {
            let name = text.split('=').next().unwrap_or_default().trim();
            if let Some((_, why)) = UNUSED_KNOBS.iter().find(|(unused, _)| *unused == name) {
                let problem = Problem::new(format!("the knob {name} has no effect with --native: {why}"));
                return Err(problem.help(format!("leave --knob {text} out, or leave --native out")).into());
            }
        }
        let bmq = policies::find("bmq").expect("it is registered");
        Ok(Settings::new(&apply_knobs(bmq, &settings)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_knob_without_effect_in_the_port_is_refused() {
        let of = |text: &str| Settings::from_options(&[text.to_string()]).map_err(|it| format!("{:?}", it.report()));
        assert_eq!(of("slice=2ms").unwrap().slice, 2 << 20);
        for (unused, _) in UNUSED_KNOBS {
            let bmq = policies::find("bmq").unwrap();
            assert!(bmq.knobs.iter().any(|knob| knob.name == unused), "{unused}");
        }
        let refused = of("tick=4ms").unwrap_err();
        assert!(refused.contains("no effect with --native") && refused.contains("leave --knob"), "{refused}");
        assert!(of("nothing=1").is_err());
    }

    #[test]
    fn every_level_of_the_port_has_seven_bits_and_is_not_that_of_rescued_threads() {
        for version in ["5.12", "5.13", "6.6", "6.12"] {
            let settings = Settings::from_options(&[format!("version={version}")]).unwrap();
            assert!(settings.levels.iter().flatten().all(|level| (1..128).contains(level)), "{version}");
        }
    }
}
