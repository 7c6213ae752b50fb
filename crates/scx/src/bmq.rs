//! The settings of the port of `bmq` to BPF, from knobs of the command line.

use input::knobs::{KnobSetting, apply_knobs};
use input::problem::{Problem, Problems};

pub use port::BmqSettings as Settings;

/// Knobs of the Rust policy that have no effect in the port, each with the reason.
pub const UNUSED_KNOBS: [(&str, &str); 3] = [
    ("tick", "the ticks are those of the kernel (CONFIG_HZ)"),
    ("deadline-is-fifo", "sched_ext schedules no real-time threads"),
    ("interactive-boost", "the port gives no hints to a host"),
];

/// Returns the settings for knobs of the command line.
///
/// # Errors
/// The policy has no such knob or value, or the knob has no effect in the port.
///
/// # Panics
/// Never panics, because the policy is registered.
pub fn settings(knobs: &[String]) -> Result<Settings, Problems> {
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

#[cfg(test)]
mod tests {
    use super::*;
    use zerocopy::IntoBytes;

    #[test]
    fn a_knob_without_effect_in_the_port_is_refused() {
        let of = |text: &str| settings(&[text.to_string()]).map_err(|it| format!("{:?}", it.report()));
        // The slice is the first number.
        assert_eq!(of("slice=2ms").unwrap().as_bytes()[..8], (2_u64 << 20).to_ne_bytes());
        for (unused, _) in UNUSED_KNOBS {
            let bmq = policies::find("bmq").unwrap();
            assert!(bmq.knobs.iter().any(|knob| knob.name == unused), "{unused}");
        }
        let refused = of("tick=4ms").unwrap_err();
        assert!(refused.contains("no effect with --native") && refused.contains("leave --knob"), "{refused}");
        assert!(of("nothing=1").is_err());
    }
}
