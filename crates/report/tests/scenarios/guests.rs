//! Reports of guests, created from recorded events or from runs.

use expect_test::expect;
use measure::Meter;
use measure::statistics::Spread;
use report::{GuestReport, Report, Summary, Widths, guests, medians};
use run::{Observers, Run};
use scenario::Scenario;
use sched::{Action, CpuId, EntityId, GroupId, GroupParams, Input, Instant, Nanos, Notice, Params, Wake};
use trace::{Event, Sink};

const A: EntityId = EntityId::new(0, 0);
const B: EntityId = EntityId::new(1, 0);
const CPUS: [CpuId; 2] = [CpuId::new(0), CpuId::new(1)];

fn us(us: u64) -> Instant {
    Instant::ZERO + Nanos::us(us)
}

/// Measures two tasks of a group on two vCPUs. The job of one task loses 4 ms to steal time; the other task spins.
fn measured() -> Meter {
    let group = GroupId::new(1, 0);
    let params = Params { group, ..Params::default() };
    let attach = |entity, name: &str| Event::Attach { entity, name: name.into(), params: Box::new(params) };
    let run = |entity, cpu| Event::Action(Action::Run { cpu, entity, until: Instant::NEVER });
    let wake = |entity| Event::Input(Input::Wake { entity, why: Wake::Timer });
    let mut meter = Meter::new();
    for (at, event) in [
        (
            0,
            Event::GroupCreated {
                group,
                name: "app".into(),
                parent: GroupId::ROOT,
                params: Box::new(GroupParams::default()),
            },
        ),
        (0, attach(A, "reader")),
        (0, attach(B, "spinner")),
        (0, wake(B)),
        (0, run(B, CPUS[1])),
        (1_000, Event::Release { entity: A, deadline: us(4_000) }),
        (1_000, wake(A)),
        (1_000, run(A, CPUS[0])),
        (1_000, Event::Input(Input::Freeze { cpu: CPUS[0], preempted: false })),
        (1_500, Event::Input(Input::Thaw { cpu: CPUS[0], stolen: Nanos::ZERO })),
        (2_000, Event::Input(Input::Freeze { cpu: CPUS[0], preempted: false })),
        (2_500, Event::Input(Input::Event { entity: B, what: Notice::SpinWait { waited: Nanos::us(300) } })),
        (5_500, Event::Input(Input::Thaw { cpu: CPUS[0], stolen: Nanos::ZERO })),
        (6_000, Event::Complete { entity: A }),
        (6_000, Event::Input(Input::Block { cpu: CPUS[0] })),
        (6_000, Event::Action(Action::Stop { cpu: CPUS[0], entity: A })),
        (10_000, Event::End),
    ] {
        meter.record(us(at), &event);
    }
    meter
}

fn report() -> Report {
    let text = "name = \"x\"\ncpus = 1\nlength = \"10ms\"\npolicy = \"credit\"\n[[vm]]\nname = \"web\"\nvcpus = 2\nworkload = \"hog\"\n";
    let scenario = Scenario::from_bytes("test.toml", text.into()).unwrap_or_else(|problems| panic!("{problems}"));
    let choice = run::choose(&scenario, &[], &[]).expect("the scenario names its policy").remove(0);
    let mut report = Run::new(scenario.clone(), choice).play(Observers::none()).map(Report::of).expect("it runs");
    let policy = run::policy("cfs").expect("there is one");
    report.guests.push(GuestReport::new(
        "web",
        (policy, &policy.defaults()),
        2,
        (Instant::ZERO, Instant::ZERO + scenario.length),
        &measured(),
    ));
    report
}

#[test]
fn a_guest_is_told_with_its_losses_and_what_each_task_got() {
    let guest = &report().guests[0];
    assert_eq!((guest.stolen_ns, guest.stolen_ppm), (4_000_000, 200_000));
    let cpus: Vec<_> = guest.cpus.iter().map(|cpu| (cpu.freezes, cpu.stolen_ns)).collect();
    assert_eq!(cpus, [(2, 4_000_000), (0, 0)]);
    let [reader, spinner] = guest.entities.as_slice() else { panic!("two were there") };
    assert_eq!((reader.got.delivered_ns, reader.got.stolen_ns), (1_000_000, 4_000_000));
    assert_eq!((reader.got.wakeups, reader.got.wakeup_max_ns), (1, 500_000));
    assert_eq!((reader.got.responses, reader.got.response_p50_ns, reader.got.misses), (1, 5_000_000, 1));
    assert_eq!((spinner.got.spins, spinner.got.spun_ns, spinner.got.delivered_ppm), (1, 300_000, 1_000_000));
    let app = &guest.groups[0];
    assert_eq!((app.name.as_str(), app.entities, app.got.stolen_ns), ("app", 2, 4_000_000));
    assert_eq!(guest.entities[0].group.as_deref(), Some("app"));
}

#[test]
fn guests_have_tables_of_their_own() {
    let report = report();
    expect![[r#"

        In web (cfs, 2 vCPUs):
        4ms stolen, 20.0% of its vCPUs' time, in 2 pieces
                asked         got CPU time jobs late  by wait p50   p99   max response p50 p99 max stolen spinning preempted
        reader  weight 256  10.0%      1ms       1/1 2ms    500us 500us 500us          5ms 5ms 5ms    4ms        0         0
        spinner weight 256 100.0%     10ms         –   –        0     0     0            –   –   –      0    300us         0
        all                 55.0%     11ms       1/1 2ms        0 500us 500us          5ms 5ms 5ms    4ms    300us         0
        (1 more columns need a larger --width, or --json)
    "#]].assert_eq(&guests(std::slice::from_ref(&report), Widths(120)));
    let other = Report { policy: "credit2".to_string(), ..report.clone() };
    let both = guests(&[report.clone(), other], Widths(120));
    assert!(both.contains("under credit2 4ms stolen, 20.0% of its vCPUs' time, in 2 pieces"), "{both}");
    assert_eq!(both.matches("\nreader").count(), 1, "each task once, with a line for each policy:\n{both}");
    // The host has no steal time. A report without guests has no table of guests and no field `guests`.
    let alone = Report { guests: Vec::new(), ..report.clone() };
    assert_eq!(guests(std::slice::from_ref(&alone), Widths(120)), "");
    let json = |report: &Report| serde_json::to_value(report).expect("it can be written");
    assert!(json(&alone).get("guests").is_none());
    assert_eq!(json(&report)["guests"][0]["entities"][0]["stolen_ns"], 4_000_000);
}

#[test]
fn guests_have_medians_of_their_own_over_many_runs() {
    let runs: Vec<Report> = (0..9_u64)
        .map(|seed| {
            let mut report = Report { seed, ..report() };
            let guest = &mut report.guests[0];
            guest.stolen_ppm = [1, 9, 3, 5, 2, 8, 4, 7, 6][usize::try_from(seed).expect("it is small")] * 10_000;
            guest.entities[0].got.response_p99_ns += seed * 1_000_000;
            if seed > 4 {
                guest.entities.truncate(1);
            }
            report
        })
        .collect();
    let summary = Summary::new(&runs);
    assert_eq!((summary.seeds.len(), summary.confidence_ppm), (9, 960_937));
    let guest = &summary.guests[0];
    assert_eq!(guest.stolen_ppm, Spread { median: 50_000, low: 20_000, high: 80_000 });
    let [reader, spinner] = guest.entities.as_slice() else { panic!("two were there") };
    let right = Spread { median: 9_000_000, low: 6_000_000, high: 12_000_000 };
    assert_eq!((reader.runs, reader.got["response_p99_ns"]), (9, right));
    assert_eq!((spinner.runs, spinner.got["spun_ns"].median), (5, 300_000));
    expect![[r#"
              asked         got wait p99 wait max
        web/0 weight 256 100.0%        0        0
        web/1 weight 256   0.0%     10ms     10ms
        all              100.0%     10ms     10ms

        In web (cfs):
        5.0% (2.0%–8.0%) of its vCPUs' time stolen
                asked         got late wait p99 wait max wake-up p50 wake-up p99 response p50   response p99 stolen spinning
        reader  weight 256  10.0%    1    500us    500us       500us       500us          5ms 9ms (6ms–12ms)    4ms        0
        spinner weight 256 100.0%    0        0        0           0           0            0              0      0    300us
        all                 55.0%    1    500us    500us           0       500us          5ms            5ms    4ms    300us

        Medians of 9 runs, with intervals of the true median (96.1% confidence).
    "#]].assert_eq(&medians(std::slice::from_ref(&summary), Widths(140)));
    let both = medians(&[summary.clone(), Summary { policy: "credit2".to_string(), ..summary }], Widths(100));
    assert!(both.lines().all(|line| line.chars().count() <= 100), "{both}");
    assert!(both.contains("under credit2 5.0% (2.0%–8.0%) of its vCPUs' time stolen"), "{both}");
    assert!(both.contains(" more columns need a larger --width"), "{both}");
}

/// Runs a VM whose guest has the key `coordination` with the value `how`.
fn coordinated(host: &str, guest: &str, how: &str) -> Result<Report, String> {
    let text = format!(
        "name = \"x\"\ncpus = 1\nlength = \"2s\"\npolicy = \"{host}\"\ncosts = \"cortex-a15\"\ntask = [{{ name = \"hog\", workload = \"hog\" }}]\n\
         [[vm]]\nname = \"vm\"\n[vm.guest]\npolicy = \"{guest}\"\ncoordination = {how}\n\
         [[vm.task]]\nname = \"typing\"\nworkload = {{ cyclictest = {{ interval = \"10ms\", work = \"200us\" }} }}\n\
         [[vm.task]]\nname = \"batch\"\nworkload = \"hog\"\n"
    );
    let scenario = Scenario::from_bytes("test.toml", text.into()).unwrap_or_else(|problems| panic!("{problems}"));
    let choice = run::choose(&scenario, &[], &[]).expect("the scenario names its policy").remove(0);
    let run = Run { seed: 1, ..Run::new(scenario, choice) };
    let mut auditor = run.auditor().expect("its policies exist");
    let report =
        run.play(Observers::none().world(&mut auditor)).map(Report::of).map_err(|problems| problems.to_string())?;
    assert_eq!(auditor.findings(), []);
    Ok(report)
}

#[test]
fn the_report_says_what_came_of_a_guests_coordination() {
    let report = coordinated("linux", "linux", "\"s0\"").expect("it runs");
    let came = report.guests[0].coordination.clone().expect("they coordinate");
    assert_eq!((came.protocol, came.hints), ("s0", came.hypercalls));
    assert_eq!(came.hints_per_1000_s, came.hints * 500, "in two seconds");
    assert_eq!(came.hypercalls_ns, came.hypercalls * 1180, "2000 cycles at 1.7 GHz");
    assert!(came.boosts > 50 && came.boosted_ns > 0 && came.boosted_ppm == came.boosted_ns / 2_000, "{came:?}");
    let text = report::guests(&[report], report::Widths(120));
    let told = text.lines().find(|line| line.starts_with("coordinated by s0: ")).expect("it is told");
    assert!(told.contains(" hints, ") && told.contains(" hypercalls taking "), "{told}");

    let greedy = coordinated("linux", "linux", "{ protocol = \"rfc-v1\", budget = \"1ms\", limit = \"100us\" }")
        .expect("it runs");
    let came = greedy.guests[0].coordination.clone().expect("they coordinate");
    assert!(came.over_budget + came.over_limit > 0 && came.boosted_ns <= 20 * 1_000_000, "{came:?}");
    let text = report::guests(&[greedy], report::Widths(120));
    assert!(text.contains("\nboosts denied: "), "{text}");
}

#[test]
fn over_many_runs_coordination_has_medians() {
    let how = |budget: &str| format!("{{ protocol = \"rfc-v1\", budget = \"{budget}\", limit = \"100us\" }}");
    let runs = ["1ms", "2ms", "3ms"].map(|budget| coordinated("linux", "linux", &how(budget)).expect("it runs"));
    let summary = Summary::new(&runs);
    let told = summary.guests[0].coordination.as_ref().expect("they coordinate");
    let of = |number: fn(&report::CoordinationGot) -> u64| {
        let numbers = runs.iter().map(|run| number(run.guests[0].coordination.as_ref().expect("they coordinate")));
        Spread::of(&numbers.collect::<Vec<u64>>())
    };
    assert_eq!((told.protocol, told.runs), ("rfc-v1", 3));
    assert_eq!((told.got["hints"], told.got["hints_per_1000_s"]), (of(|it| it.hints), of(|it| it.hints_per_1000_s)));
    assert_eq!((told.got["hypercalls_ns"], told.got["boosts"]), (of(|it| it.hypercalls_ns), of(|it| it.boosts)));
    assert_eq!((told.got["boosted_ppm"], told.got["over_limit"]), (of(|it| it.boosted_ppm), of(|it| it.over_limit)));
    let text = medians(&[summary], Widths(120));
    assert!(text.contains("\ncoordinated by rfc-v1: ") && text.contains("\nboosts denied: "), "{text}");
}

#[test]
fn what_does_not_suit_a_policy_is_said_where_it_is_asked_for() {
    let no_classes =
        coordinated("cfs", "linux", "{ protocol = \"s0\", boost = \"rr:8\" }").expect_err("cfs has no classes");
    assert!(
        no_classes.starts_with(
            "test.toml:11:43: `vm`: the host's policy, `cfs`, has no real-time classes; use a boost of weight"
        ),
        "{no_classes}"
    );
    let usual = coordinated("cfs", "linux", "\"s0\"").expect_err("the usual boost is one of a class");
    assert!(usual.starts_with("test.toml:11:16: `vm`: the host's policy, `cfs`, has no"), "{usual}");
    coordinated("cfs", "cfs", "{ protocol = \"s0\", boost = \"nice:-20\", detector = \"cfs\" }")
        .expect("weights will do");
    let no_deadlines =
        coordinated("linux", "cfs", "{ protocol = \"s0\", detector = \"bfs\" }").expect_err("cfs has none");
    assert!(
        no_deadlines.starts_with(
            "test.toml:11:46: `vm`: the guest's policy, `cfs`, keeps no virtual deadline; use a guest under"
        ),
        "{no_deadlines}"
    );
}
