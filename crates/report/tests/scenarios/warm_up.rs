//! Measurements after a warm-up. The warm-up does not change the run. The measured sums equal the sums of the whole run
//! minus those of a run that ends with the warm-up.

use report::{AppReport, Entity, GuestReport, Report};
use run::{Observers, Run};
use scenario::Scenario;
use sched::Nanos;

const XEN: &str = include_str!("../../../../scenarios/xen-io.toml");
const LEVELS: &str = include_str!("../../../../scenarios/two-levels.toml");
const COORDINATED: &str = include_str!("../../../../scenarios/coordination.toml");

fn played(text: &str, length: Nanos, warm_up: Nanos) -> Report {
    let mut scenario = Scenario::from_bytes("x.toml", text.into()).unwrap_or_else(|wrong| panic!("{wrong}"));
    (scenario.length, scenario.warm_up) = (length, warm_up);
    let choices = run::choose(&scenario, &[], &[]).expect("it works");
    let run = Run { seed: 7, ..Run::new(scenario, choices[0].clone()) };
    run.play(Observers::none()).map(Report::of).unwrap_or_else(|wrong| panic!("{wrong}"))
}

/// Returns the numbers of a report that are sums over the run.
fn counts(report: &Report) -> Vec<(String, u64)> {
    let mut all = Vec::new();
    let mut entities = |of: &str, entities: &[Entity]| {
        for Entity { name, got, .. } in entities {
            let numbers = [
                ("delivered", got.delivered_ns),
                ("stolen", got.stolen_ns),
                ("held", got.held_ns),
                ("releases", got.releases),
                ("completions", got.completions),
                ("responses", got.responses),
                ("periods", got.periods),
                ("dispatches", got.dispatches),
                ("preemptions", got.preemptions),
                ("migrations", got.migrations),
            ];
            all.extend(numbers.map(|(what, number)| (format!("{of} {name} {what}"), number)));
        }
    };
    entities("host", &report.entities);
    report.guests.iter().for_each(|guest| entities(&guest.name, &guest.entities));
    for guest in &report.guests {
        all.push((format!("{} stolen", guest.name), guest.stolen_ns));
        all.extend(told(guest));
        all.extend(guest.applications.iter().flat_map(said));
    }
    all.extend(report.applications.iter().flat_map(said));
    all
}

fn told(guest: &GuestReport) -> Vec<(String, u64)> {
    let Some(got) = &guest.coordination else { return Vec::new() };
    let numbers = [
        ("hints", got.hints),
        ("hypercalls", got.hypercalls),
        ("calls took", got.hypercalls_ns),
        ("boosts", got.boosts),
        ("boosted", got.boosted_ns),
        ("over budget", got.over_budget),
        ("over limit", got.over_limit),
        ("refused", got.refused),
    ];
    numbers.map(|(what, number)| (format!("{} {what}", guest.name), number)).into()
}

fn said(app: &AppReport) -> Vec<(String, u64)> {
    let adds_up = ["requests", "answers", "pictures", "left_out", "shown", "dropped", "blocks", "batches"];
    let values = app.values.0.iter().filter(|(name, _)| adds_up.contains(name));
    values.map(|(name, value)| (format!("{} {name}", app.name), *value)).collect()
}

#[test]
fn what_is_measured_is_what_is_later() {
    let applications = "name = \"x\"\ncpus = 2\nlength = \"1s\"\npolicy = \"cfs\"\n[disk]\nservice = \"1ms\"\n\
        [[task]]\nname = \"film\"\nworkload.video = { decode = \"9ms\", frames = \"drop-late\" }\n\
        [[task]]\nname = \"game\"\nworkload.game = {}\n[[task]]\nname = \"user\"\nworkload.web = {}\n\
        [[task]]\nname = \"copy\"\nworkload.dd = {}\n[[task]]\nname = \"stream\"\nworkload.micro_batch = { interval = \"70ms\", work = \"9ms\" }\n\
        [[task]]\nname = \"hog\"\nworkload = \"hog\"\n[[task]]\nname = \"hog 2\"\nworkload = \"hog\"\n";
    for (text, name) in [(XEN, "xen"), (LEVELS, "levels"), (COORDINATED, "coordinated"), (applications, "applications")]
    {
        // The warm-up and the run end at instants without other events.
        let (early, length) = (Nanos::us(333_667), Nanos::us(1_231_001));
        let [before, all] = [early, length].map(|length| played(text, length, Nanos::ZERO));
        let measured = played(text, length, early);
        assert_eq!((measured.warm_up_ns, measured.length_ns), (early.as_ns(), length.as_ns()));
        let (before, all, measured) = (counts(&before), counts(&all), counts(&measured));
        assert!(all.iter().filter(|(_, number)| *number > 0).count() > 8, "{name}: {all:?}");
        for ((what, all), measured) in all.iter().zip(&measured) {
            let before = before.iter().find(|(it, _)| it == what).map_or(0, |it| it.1);
            assert_eq!((what, all - before), (&measured.0, measured.1), "{name}");
        }
    }
}

#[test]
fn shares_and_rates_are_of_the_time_that_is_measured() {
    let hog = "name = \"x\"\ncpus = 1\nlength = \"1s\"\n[[task]]\nname = \"hog\"\nworkload = \"hog\"\n\
        [[task]]\nname = \"later\"\narrival = \"600ms\"\nworkload = \"hog\"\n";
    let text = hog.replace("length = \"1s\"", "length = \"1s\"\nwarm_up = \"200ms\"\npolicy = \"cfs\"");
    let report = played(&text, Nanos::s(1), Nanos::ms(200));
    let shares: Vec<u64> = report.entities.iter().map(|it| it.got.delivered_ppm / 10_000).collect();
    // Of the measured 800 ms, the first task runs alone for 400 ms and receives half of the other 400 ms. The second
    // task receives half of the 400 ms since its arrival.
    assert_eq!((shares, report.total.delivered_ppm), (vec![75, 50], 1_000_000));
    let rounds =
        "name = \"x\"\ncpus = 1\nlength = \"1s\"\npolicy = \"cfs\"\n[[task]]\nname = \"s\"\nworkload.stream = {}\n";
    let report = played(rounds, Nanos::s(1), Nanos::ms(205));
    // The application runs alone, so its speed is the maximum. The round in progress at the end of the warm-up does not
    // count.
    let speed = report.applications[0].values.0.iter().find(|(name, _)| *name == "speed_ppm").expect("it is told").1;
    assert_eq!(speed, 1_000_000);
}

#[test]
fn a_warm_up_that_leaves_nothing_is_refused() {
    let text =
        "name = \"x\"\ncpus = 1\nlength = \"1s\"\nwarm_up = \"1s\"\n[[task]]\nname = \"t\"\nworkload = \"hog\"\n";
    let problems = Scenario::from_bytes("x.toml", text.into()).expect_err("it measures nothing").to_string();
    assert_eq!(
        problems,
        "x.toml:4:11: a warm-up of 1s excludes the whole run of 1s; use a `warm_up` below 1s, or a longer run"
    );
}
