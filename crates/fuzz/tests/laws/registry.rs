//! Checks that every descriptor in the registry has the required content.

use sched::{Descriptor, Knob, Nanos, Topology, Unit};

/// Returns the errors in a descriptor.
fn gaps(policy: &Descriptor) -> Vec<String> {
    let mut gaps = Vec::new();
    let mut check = |right: bool, gap: String| {
        if !right {
            gaps.push(format!("{}: {gap}", policy.name));
        }
    };
    check(!policy.title.trim().is_empty(), "no title".to_string());
    check(!policy.source.trim().is_empty(), "no source".to_string());
    check(!policy.good_for.trim().is_empty(), "no good_for".to_string());
    check(!policy.bad_at.trim().is_empty(), "no bad_at".to_string());
    check(!policy.essay().trim().is_empty(), "no essay".to_string());
    for knob in policy.knobs {
        let Knob { name, help, source, least, most, default, .. } = knob;
        check(!help.is_empty(), format!("no help for knob {name}"));
        check(!source.is_empty(), format!("no source for knob {name}"));
        check((least..=most).contains(&default), format!("the default of knob {name} is out of its range"));
        let namesakes = policy.knobs.iter().filter(|other| other.name == *name).count();
        check(namesakes == 1, format!("two knobs are called {name}"));
    }
    gaps
}

#[test]
fn every_policy_and_every_knob_is_explained() {
    let gaps: Vec<String> = policies::ALL.iter().flat_map(|policy| gaps(policy)).collect();
    assert!(gaps.is_empty(), "{}", gaps.join("\n"));
}

#[test]
fn every_policy_builds_with_its_defaults_and_is_found_by_its_name() {
    assert!(policies::ALL.len() > 1);
    for policy in policies::ALL {
        assert_eq!(policies::find(policy.name).map(|found| found.name), Some(policy.name));
        for cpus in [1, 2, 7] {
            assert!((policy.build)(&Topology::new(cpus), &policy.defaults()).is_ok(), "{} on {cpus} CPUs", policy.name);
        }
    }
    assert!(policies::find("no-such-policy").is_none());
}

#[test]
fn a_knob_without_help_or_source_is_a_gap() {
    const KNOBS: &[Knob] = &[
        Knob::count("mute", [1, 1, 2], "").from("a book"),
        Knob::time("idle", Nanos::ms(1), (Nanos::ms(2), Nanos::ms(3)), "says something"),
        Knob::count("mute", [1, 1, 2], "again").from("a book"),
    ];
    let wrong = Descriptor { knobs: KNOBS, ..*policies::find("round-robin").unwrap() };
    let gaps = gaps(&wrong).join("; ");
    for part in ["no help for knob mute", "no source for knob idle", "idle is out of its range", "two knobs"] {
        assert!(gaps.contains(part), "{gaps}");
    }
    assert_eq!(KNOBS[1].unit, Unit::Time);
}
