//! Shares by weight compared with the exact weighted share. A policy that states a bound (`guarantees.shares`) keeps
//! the bound at every instant of a run with hogs of random weights on one CPU.

use fuzz::Dice;
use sched::{Action, Descriptor, EntityId, Instant, Knobs, LoadBounds, Nanos, Params, Topology, Wake, Weight};
use sim::{Costs, Workload};
use trace::{Event, Sink};

const SEEDS: u64 = 60;
const LENGTH: Nanos = Nanos::s(3);

/// CPU time of each entity since the last arrival, and the maximum distance from the exact share in the run.
#[derive(Default)]
struct Shares {
    /// Weights and CPU times since the last arrival, in order of arrival.
    members: Vec<(EntityId, u64, Nanos)>,
    since: Instant,
    running: Option<(EntityId, Instant)>,
    worst: Nanos,
}

impl Shares {
    /// Charges the entity that ran until `now`, and compares all shares.
    fn pay(&mut self, now: Instant) {
        if let Some((e, from)) = self.running.as_mut() {
            let ran = now.since(std::mem::replace(from, now));
            let e = *e;
            if let Some(member) = self.members.iter_mut().find(|member| member.0 == e) {
                member.2 += ran;
            }
        }
        let all: u64 = self.members.iter().map(|member| member.1).sum();
        let time = now.since(self.since);
        for &(_, weight, got) in &self.members {
            let due = time.scale(weight, all);
            self.worst = self.worst.max(got.max(due) - got.min(due));
        }
    }
}

impl Sink for Shares {
    fn record(&mut self, at: Instant, event: &Event) {
        match event {
            Event::Attach { entity, params, .. } => {
                self.pay(at);
                self.members.push((*entity, params.weight.as_linux().into(), Nanos::ZERO));
                self.since = at;
                self.members.iter_mut().for_each(|member| member.2 = Nanos::ZERO);
            }
            Event::Action(Action::Run { entity, .. }) => {
                self.pay(at);
                self.running = Some((*entity, at));
            }
            Event::Action(Action::Stop { .. }) | Event::End => {
                self.pay(at);
                self.running = None;
            }
            _ => {}
        }
    }
}

/// Returns the stated bound for `weights`, and the maximum distance in a run with these weights.
fn run(policy: &'static Descriptor, knobs: &Knobs, weights: &[Weight], dice: &mut Dice) -> (Option<Nanos>, Nanos) {
    let host = Topology::new(1);
    let linux = |weight: Option<&Weight>| weight.map_or(1024, |weight| u64::from(weight.as_linux()));
    let load = LoadBounds {
        weight_least: linux(weights.iter().min()),
        weight_most: linux(weights.iter().max()),
        ..LoadBounds::of_hogs(&host, knobs, weights.len() as u64)
    };
    let bound = (policy.guarantees.shares)(&load);
    let mut shares = Shares::default();
    let mut host = sim::Driver::new(policy, host, knobs, Costs::NONE).expect("these knobs go together");
    host.watch(&mut shares);
    for &weight in weights {
        let params = Params { weight, ..Params::default() };
        let e = host.attach("hog", params, Workload::Scripted).expect("there is no reservation to refuse");
        host.wake(e, Wake::New { parent: None });
        let next = host.now() + dice.span(Nanos::ms(50));
        host.run_until(next);
    }
    host.finish(Instant::ZERO + LENGTH);
    drop(host);
    (bound, shares.worst)
}

fn weights(dice: &mut Dice) -> Vec<Weight> {
    let nice = |dice: &mut Dice| i32::try_from(dice.below(21)).expect("it is small") - 10;
    (0..2 + dice.below(7)).map(|_| Weight::nice(nice(dice)).expect("it is in range")).collect()
}

/// Knob settings under which a policy guarantees shares that it does not guarantee by default.
const VARIANTS: [(&str, &[(&str, i64)]); 2] = [("bvt", &[("recharge", 0), ("rounding", 0)]), ("bvt", &[("rule", 1)])];

/// Returns every policy with its default knobs, and with each of its variants.
fn variants() -> Vec<(&'static Descriptor, Knobs, String)> {
    let mut all = Vec::new();
    for policy in fuzz::chosen_policies() {
        all.push((policy, policy.defaults(), policy.name.to_string()));
        for (_, settings) in VARIANTS.iter().filter(|(name, _)| *name == policy.name) {
            let mut knobs = policy.defaults();
            settings.iter().for_each(|(knob, value)| knobs.set(knob, *value).expect("it is in range"));
            all.push((policy, knobs, format!("{} with {settings:?}", policy.name)));
        }
    }
    all
}

#[test]
fn shares_are_exact_within_their_bounds() {
    for (policy, knobs, name) in variants() {
        let (mut tightest, mut promised) = (0, false);
        for seed in 0..SEEDS {
            let mut dice = Dice::new(seed);
            let weights = weights(&mut dice);
            let (bound, worst) = run(policy, &knobs, &weights, &mut dice);
            let Some(bound) = bound else { continue };
            promised = true;
            assert!(worst <= bound, "{name} seed {seed}, {weights:?}: {worst} off; the bound is {bound}");
            tightest = tightest.max(worst.scale(100, bound.as_ns()).as_ns());
        }
        if promised {
            println!("{name}: the worst was {tightest} % of the bound");
            assert!(tightest >= 5, "{name}: {tightest} %; a bound twenty times too wide says nothing");
        }
    }
}

/// Checks that the comparison detects wrong shares. Round robin ignores weights, so the distance grows without bound.
#[test]
fn a_policy_without_weights_is_off_without_bound() {
    let policy = policies::find("round-robin").expect("it is registered");
    let heavy = [Weight::nice(-10), Weight::nice(10)].map(|weight| weight.expect("it is in range"));
    let (bound, worst) = run(policy, &policy.defaults(), &heavy, &mut Dice::new(1));
    assert_eq!(bound, None);
    assert!(worst > Nanos::s(1), "{worst}");
}
