//! A live run delivers the events of the daemon and the job reports of the processes separately. After a merge, they
//! are measured like the trace of a simulation.

use expect_test::expect;
use measure::{Meter, Siblings};
use report::{Report, RunDescription, Runs, Widths, compared, side_by_side};
use run::{Choice, Grant, Observers, Run, live};
use scenario::Scenario;
use sched::{Action, EntityId, Instant, Nanos};
use std::collections::BTreeMap;
use trace::{Event, Header, Job, Sink, Trace};

/// Time on the clock of the live host at the start of the run.
const START: Instant = Instant::at_ns(5_000_000_000_123);
const LENGTH: Nanos = Nanos::ms(200);

fn scenario() -> Scenario {
    let text = "name = \"live\"\ncpus = 1\nlength = \"200ms\"\npolicy = \"edf\"\n\
        [[group]]\nname = \"tenant\"\n\
        [[vm]]\nname = \"video\"\nparent = \"tenant\"\nslice = \"2100us\"\nperiod = \"10ms\"\n\
        workload.periodic = { period = \"10ms\", work = \"2033us\", phase = \"331us\" }\n\
        [[vm]]\nname = \"late\"\nslice = \"1ms\"\nperiod = \"7ms\"\nlimit = \"hard\"\narrival = \"13ms\"\n\
        workload.periodic = { period = \"7ms\", work = \"1477us\", deadline = \"3ms\" }\n\
        [[task]]\nname = \"batch\"\nworkload = \"hog\"\n";
    Scenario::from_bytes("live.toml", text.into()).unwrap_or_else(|problems| panic!("{problems}"))
}

fn at(ns: u64) -> Instant {
    START + Nanos::ns(ns)
}

/// Converts the instant `moment` of a simulation to the clock of the live host.
fn live_time(moment: Instant) -> Instant {
    if moment == Instant::NEVER { moment } else { at(moment.as_ns()) }
}

/// The observed events, and the job reports of each process.
type Apart = (Vec<(Instant, Event)>, Vec<(EntityId, Vec<Job>)>);

/// Splits the trace of a simulation into the events that a daemon would observe, and the job reports of the processes.
fn taken_apart(trace: &Trace) -> Apart {
    let (mut seen, mut told) = (Vec::new(), BTreeMap::<EntityId, Vec<Job>>::new());
    for (moment, event) in &trace.events {
        let now = live_time(*moment);
        match event {
            Event::Release { entity, deadline } => {
                let job = Job { released: now, deadline: live_time(*deadline), woke: None, done: None };
                told.entry(*entity).or_default().push(job);
            }
            Event::Complete { entity } => {
                let jobs = told.get_mut(entity).expect("it was released");
                jobs.iter_mut().find(|job| job.done.is_none()).expect("it was released").done = Some(now);
            }
            Event::Action(Action::Run { cpu, entity, until }) => {
                seen.push((now, Event::Action(Action::Run { cpu: *cpu, entity: *entity, until: live_time(*until) })));
            }
            Event::Action(Action::Extend { cpu, until }) => {
                seen.push((now, Event::Action(Action::Extend { cpu: *cpu, until: live_time(*until) })))
            }
            Event::Action(Action::SetAlarm { alarm, on, at }) => {
                seen.push((now, Event::Action(Action::SetAlarm { alarm: *alarm, on: *on, at: live_time(*at) })));
            }
            // The report of a live run contains the groups of its scenario.
            Event::GroupCreated { .. } | Event::End => {}
            other => seen.push((now, other.clone())),
        }
    }
    (seen, told.into_iter().collect())
}

fn measured(events: &[(Instant, Event)]) -> Meter {
    let mut meter = Meter::new();
    events.iter().for_each(|(now, event)| meter.record(*now, event));
    meter
}

/// Runs the simulation, and returns its report, its trace and its policy.
fn simulated(scenario: &Scenario) -> (Report, Trace, Choice) {
    let choice = run::choose(scenario, &[], &[]).expect("it names its policy").remove(0);
    let mut trace = Trace::new(Header { policy: choice.name().to_string(), cpus: 1, seed: 0 });
    let report = Run::new(scenario.clone(), choice.clone()).play(Observers::none().host(&mut trace)).map(Report::of);
    (report.unwrap_or_else(|problems| panic!("{problems}")), trace, choice)
}

/// Returns the grants that the simulation reported.
fn grants(report: &Report) -> Vec<Option<Grant>> {
    let grant = |ppm: u64| Grant { slice: Nanos::ns(ppm), period: Nanos::ns(1_000_000) };
    report.entities.iter().map(|entity| entity.granted_ppm.map(grant)).collect()
}

#[test]
fn what_was_taken_apart_is_put_together_again() {
    let scenario = scenario();
    let (report, trace, choice) = simulated(&scenario);
    assert!(report.total.completions > 30 && report.total.misses + report.total.unfinished_late > 0, "{report:?}");
    let (seen, told) = taken_apart(&trace);
    let events = live::merged(seen, &told, START, START + LENGTH);
    assert!(events.is_sorted_by_key(|(now, _)| *now));
    assert_eq!(events.len(), trace.events.len() - scenario.groups.len());
    let meter = measured(&events);
    let again = report::observed(
        &RunDescription::of(&scenario),
        &*choice.policy,
        &choice.knobs,
        0,
        (&meter, &Siblings::default()),
        &grants(&report),
    );
    assert_eq!(again, report);
    let json = serde_json::to_value(Runs { simulated: false, runs: &[again] }).unwrap();
    assert_eq!((&json["simulated"], &json["runs"][0]["groups"][0]["name"]), (&false.into(), &"tenant".into()));
}

#[test]
fn jobs_tell_how_late_they_began_and_count_while_their_entity_is_there() {
    let scenario = scenario();
    let (entity, params) = (EntityId::new(0, 0), Box::new(scenario.entities[1].params));
    let job = |released: u64, woke: Option<u64>, done: Option<u64>| Job {
        released: at(released * 1_000),
        deadline: at(released * 1_000 + 500),
        woke: woke.map(|us| at(us * 1_000)),
        done: done.map(|us| at(us * 1_000)),
    };
    let jobs = vec![
        job(10, Some(12), Some(20)), // Released before the arrival was observed.
        job(40, Some(43), Some(60)),
        job(50, None, Some(70)),
        job(80, Some(85), Some(101)), // Completed after the entity's departure.
        job(100, Some(100), None),    // The entity was absent.
    ];
    let seen = [
        (at(30_000), Event::Attach { entity, name: "late".to_string(), params }),
        (at(100_000), Event::Detach { entity }),
        (at(300_000_000), Event::Action(Action::Kick { cpu: sched::CpuId::new(0) })), // After the end.
    ];
    let unknown = EntityId::new(7, 0);
    let told = [(entity, jobs.clone()), (unknown, jobs)];
    let events = live::merged(seen, &told, START, START + LENGTH);
    assert_eq!(events.last(), Some(&(Instant::ZERO + LENGTH, Event::End)));
    let meter = measured(&events);
    let [member] = meter.members() else { panic!("one came") };
    let got = &member.got;
    assert_eq!((got.jobs.releases, got.jobs.completions, got.jobs.unfinished_late), (4, 3, 1));
    assert_eq!((got.wakeups.count(), got.wakeups.total()), (3, Nanos::us(2 + 3 + 5)));
}

#[test]
fn a_client_without_a_promise_is_reported_with_its_cpu_time() {
    let scenario = scenario();
    let (report, _, choice) = simulated(&scenario);
    let spec = &scenario.entities[2];
    let stay = (at(0), START + LENGTH);
    let seen = live::left_to_kernel(EntityId::new(9, 0), &spec.name, &spec.params, stay, Nanos::ms(50));
    let meter = measured(&live::merged(seen, &[], START, START + LENGTH));
    let observed = report::observed(
        &RunDescription::of(&scenario),
        &*choice.policy,
        &choice.knobs,
        0,
        (&meter, &Siblings::default()),
        &[None; 3],
    );
    let [batch] = observed.entities.as_slice() else { panic!("the others did not come") };
    assert_eq!((batch.name.as_str(), batch.got.delivered_ppm, batch.got.waits), ("batch", 250_000, 0));
    assert_eq!(observed.groups.len(), report.groups.len());
}

#[test]
fn a_prediction_and_what_came_of_it_stand_side_by_side() {
    let scenario = scenario();
    let (predicted, trace, choice) = simulated(&scenario);
    let (seen, mut told) = taken_apart(&trace);
    // In the live run, `video` was 40 us late at each wake-up, and `late` never arrived.
    for job in &mut told[0].1 {
        job.woke = Some(job.released + Nanos::us(40));
    }
    let late = EntityId::new(2, 0);
    let came = |event: &Event| match event {
        Event::Attach { entity, name, .. } => {
            assert_eq!(name == "late", *entity == late);
            *entity != late
        }
        Event::Detach { entity } => *entity != late,
        _ => true,
    };
    let seen = seen.into_iter().filter(|(_, event)| came(event));
    let meter = measured(&live::merged(seen, &told, START, START + LENGTH));
    let observed = report::observed(
        &RunDescription::of(&scenario),
        &*choice.policy,
        &choice.knobs,
        0,
        (&meter, &Siblings::default()),
        &grants(&predicted),
    );
    let compared = compared(&predicted, &observed);
    expect![[r#"
              asked                      got jobs late slices short wake-up p50   p99   max
        video 2.1ms/10ms    predicted  20.3%      0/20            –           0 669us 669us
                            observed   20.3%      0/20            –        40us  40us  40us
        late  1ms/7ms, hard predicted  14.4%     27/27         0/26           0     0     0
                            observed       –         –            –           –     –     –
        batch weight 256    predicted  66.2%         –            –           0     0     0
                            observed   66.2%         –            –           0     0     0
        all                 predicted 100.0%     27/47         0/26           0 669us 669us
                            observed   86.5%      0/20            –        40us  40us  40us
    "#]]
    .assert_eq(&side_by_side(&compared, Widths(100)));
    expect![[r#"
                           got jobs late slices short wake-up p50   p99   max
        video predicted  20.3%      0/20            –           0 669us 669us
              observed   20.3%      0/20            –        40us  40us  40us
        late  predicted  14.4%     27/27         0/26           0     0     0
              observed       –         –            –           –     –     –
        batch predicted  66.2%         –            –           0     0     0
              observed   66.2%         –            –           0     0     0
        all   predicted 100.0%     27/47         0/26           0 669us 669us
              observed   86.5%      0/20            –        40us  40us  40us
        (1 more columns need a larger --width, or --json)
    "#]]
    .assert_eq(&side_by_side(&compared, Widths(70)));
    let json = serde_json::to_value(&compared).unwrap();
    let late = &json["entities"][1];
    assert_eq!((&late["name"], &late["observed"]), (&"late".into(), &serde_json::Value::Null));
    assert!(late["predicted"]["wakeup_p99_ns"].is_u64());
    assert_eq!(json["entities"][0]["observed"]["wakeup_p50_ns"], 40_000);
}

/// The periods of a reservation that starts before the run continue in phase.
#[test]
fn a_start_before_the_run_is_its_first_period_in_the_run() {
    let reservation = |start| {
        let asked = sched::Reservation { start: Some(start), ..sched::Reservation::new(Nanos::ms(1), Nanos::ms(20)) };
        Box::new(sched::Params { reservation: Some(asked), ..sched::Params::default() })
    };
    let (entity, name) = (EntityId::new(0, 0), "gang".to_string());
    for (start, first) in [
        (Instant::at_ns(START.as_ns() - 33_000_000), 7_000_000),
        (Instant::at_ns(START.as_ns() - 40_000_000), 0),
        (at(13_000_000), 13_000_000),
    ] {
        let event = Event::Attach { entity, name: name.clone(), params: reservation(start) };
        let expected = Event::Attach { entity, name: name.clone(), params: reservation(Instant::at_ns(first)) };
        assert_eq!(live::relative(event, START), expected);
    }
}
