//! Laws 1–8 and 10–12 for every policy on 1, 2, 4 and 16 CPUs, in fuzz runs with a few seeds each. The machine and the
//! auditor check each run, and each run is repeated. `cargo xtask fuzz` runs more seeds.

const SEEDS: u64 = 12;

fn hold(cpus: usize) {
    for policy in fuzz::chosen_policies() {
        let first = 1_000 * cpus as u64;
        match fuzz::smoke(policy, cpus, first, SEEDS) {
            Ok(stats) => assert!(stats.accepted > 1_000, "{}: {} inputs say little", policy.name, stats.accepted),
            Err(failure) => panic!("{failure}"),
        }
    }
}

#[test]
fn every_policy_keeps_the_laws_on_1_cpu() {
    hold(1);
}

#[test]
fn every_policy_keeps_the_laws_on_2_cpus() {
    hold(2);
}

#[test]
fn every_policy_keeps_the_laws_on_4_cpus() {
    hold(4);
}

#[test]
fn every_policy_keeps_the_laws_on_16_cpus() {
    hold(16);
}

/// Each canary is a policy that breaks a law or another rule, and the check of this rule detects the canary. The test
/// `no_alloc.rs` checks law 9.
#[test]
fn every_canary_is_caught() {
    let expected = [
        ("canary-forgets", "law 1"), // Law 11 or 12: the forgotten entity never runs.
        ("canary-hurries", "the policy does not let time pass"),
        ("canary-idles", "law 11"),
        ("canary-kicks", "the policy kicks without end"),
        ("canary-past", "law 1:"),
        ("canary-picks-blocked", "law"),
        ("canary-picks-held", "law 2:"),
        ("canary-refuses", "assertion `left == right` failed: a request was refused"),
        ("canary-remembers", "law 8:"),
        ("canary-rings", "law 7:"),
        ("canary-starves", "law 12"),
        ("canary-strays", "law 2:"),
        ("canary-wavers", "law 10"),
    ];
    let others = policies::CANARIES.iter().filter(|canary| expected.iter().all(|(name, _)| canary.name != *name));
    assert_eq!(others.map(|canary| canary.name).collect::<Vec<_>>(), ["canary-allocates"], "each has its judge");
    for (name, law) in expected {
        let canary = policies::CANARIES.iter().find(|canary| canary.name == name).expect("it is a canary");
        let caught = (0..60).find_map(|seed| fuzz::check(&fuzz::Options::draw(canary, seed)).err());
        let failure = caught.unwrap_or_else(|| panic!("{name} was not caught"));
        assert!(failure.what.starts_with(law), "{name} was caught for another reason: {failure}");
        assert!(failure.to_string().contains("replay: cargo xtask fuzz"), "it can be replayed: {failure}");
    }
}

/// Runs that once broke a law: policy, seed, steps and entities of the fuzzer's replay line, and a knob value that the
/// seed draws.
#[test]
fn runs_that_broke_a_law_keep_it() {
    let in_debt = ("parking", "in-debt");
    let broken = [
        ("credit", 1_795_334_867, 191, 17, in_debt),
        ("rs", 1_795_334_569, 245, 49, in_debt),
        // VMs stopped each other in turn, so that each VM ran for a nanosecond.
        ("cosched-relaxed", 1_795_359_644, 240, 54, ("version", "3")),
        // An idle CPU was kicked for a waiting vCPU, but could not steal again so soon after its last attempt.
        ("adaptive", 1_795_377_495, 475, 5, ("steal-limit", "on")),
        ("credit", 1_795_380_080, 270, 21, ("steal-limit", "on")),
        // A running entity was held at the end of its old slice, and had a slice left under its new reservation.
        ("edf", 1_795_391_252, 353, 1, ("charge", "wall")),
        // A refused change charged the chosen entity.
        ("edf", 1_795_392_177, 1267, 1, ("charge", "wall")),
        // At one instant, three VMs kicked the CPUs of their siblings in turn and preempted each other without end.
        ("balance", 1_795_381_881, 20, 49, ("coschedule", "on")),
        // The members of a gang share periods that begin before the first wake-up. The auditor began these periods at
        // the wake-up.
        ("gang-edf", 1_795_378_053, 5, 27, ("enforce", "hard")),
        // A change of weight enqueued a running vCPU on the CPU to which it was about to move.
        ("sedf", 2_000_004_763, 476, 1, ("unblock", "conservative")),
        // A task whose yield was ignored left before its CPU picked again.
        ("muqss", 1_795_386_548, 332, 1, ("yield-type", "0")),
        // An idle CPU ran one of two unparked entities in its queue, and did not offer the other one.
        ("credit", 929_901_753, 1176, 49, ("unparking", "waits")),
    ];
    for (name, seed, steps, entities, (knob, text)) in broken {
        let mut options = fuzz::Options::draw(policies::find(name).expect("it is in the registry"), seed);
        (options.steps, options.entities) = (steps, entities);
        let drawn = options.knobs.iter().find(|(drawn, _)| drawn.name == knob);
        let drawn = drawn.map(|(knob, value)| knob.show(value));
        assert_eq!(drawn.as_deref(), Some(text), "the seed draws other options than it did: {options}");
        if let Err(failure) = fuzz::check(&options) {
            panic!("{failure}");
        }
    }
}

/// A seed gives the same actions again, even after runs with other seeds. Another seed gives different actions.
#[test]
fn a_seed_decides_everything() {
    for policy in fuzz::chosen_policies() {
        let actions = |seed| fuzz::check(&fuzz::Options::draw(policy, seed)).expect("it keeps the laws").actions;
        let (first, other) = (actions(7), actions(8));
        assert_ne!(first, other, "{}", policy.name);
        assert_eq!(actions(7), first, "{}", policy.name);
    }
}

/// Returns these options with admission control, if the policy has a knob for it.
fn judging_admission(mut options: fuzz::Options) -> fuzz::Options {
    if options.policy.knobs.iter().any(|knob| knob.name == "admission") {
        options.knobs.set("admission", 1).expect("it is a switch");
    }
    options
}

/// Some policies guarantee reservations if the driver is punctual. At least four runs check each of these policies.
#[test]
fn every_period_of_a_calm_run_has_its_slice() {
    let promising = |options: &fuzz::Options| options.reservations && options.reservation_bound().is_some();
    let mut keepers = Vec::new();
    for policy in fuzz::chosen_policies() {
        // Some policies guarantee reservations only if a knob enables their admission control.
        let drawn = (0..400).map(|seed| judging_admission(fuzz::Options::draw(policy, seed)));
        let judged: Vec<_> = drawn.filter(promising).collect();
        if judged.is_empty() {
            continue;
        }
        assert!(judged.len() >= 4, "{}: {} of 400 runs judge periods", policy.name, judged.len());
        keepers.push(policy.name);
        for options in judged {
            println!("{options}");
            fuzz::check(&options).unwrap_or_else(|failure| panic!("{failure}"));
        }
    }
    println!("judged: {keepers:?}");
}

/// A failure is shrunk: the remaining run is small and still fails.
#[test]
fn a_failure_is_shrunk_to_a_small_run() {
    let canary = policies::CANARIES.iter().find(|canary| canary.name == "canary-past").expect("it is a canary");
    let failure = fuzz::check(&fuzz::Options::draw(canary, 3)).expect_err("it cheats at its first pick");
    assert!(failure.options.steps < 40 && failure.options.entities < 10, "{failure}");
}
