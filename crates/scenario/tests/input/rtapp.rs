//! Files of rt-app: the steps for each event, and the problems of invalid files.

use crate::rendered;
use expect_test::expect_file;
use scenario::rtapp::RtApp;
use sched::{Class, CpuId, CpuSet, Limit, Nanos, Params, Reservation, RtPriority, Weight};
use sim::program::{Length, ObjectId, TimerMode};
use sim::{Object, Step, TaskGroup, TaskSpec};

/// Every event, in the spellings that rt-app and its script accept.
const EVERY_EVENT: &str = include_str!("../../../../scenarios/rt-app/every-event.json");

fn read(text: &str) -> RtApp {
    RtApp::from_bytes("x.json", text.into()).unwrap_or_else(|problems| panic!("{problems}"))
}

/// Returns the steps of the only thread, whose body is `body`.
fn steps(body: &str) -> Vec<Step> {
    let mut app = read(&format!("{{ \"tasks\" : {{ \"t\" : {{ {body} }} }} }}"));
    assert_eq!(app.application.tasks.len(), 1);
    app.application.tasks.remove(0).steps
}

fn us(n: u64) -> Length {
    Length::Fixed(Nanos::us(n))
}

fn run(n: u64) -> Step {
    Step::Run(us(n))
}

fn task<'a>(app: &'a RtApp, name: &str) -> &'a TaskSpec {
    let named = |task: &&TaskSpec| task.name == name;
    app.application.tasks.iter().find(named).unwrap_or_else(|| panic!("there is a task {name}"))
}

fn object(app: &RtApp, name: &str, is: Object) -> ObjectId {
    let found = app.application.objects.iter().position(|(called, object)| called == name && *object == is);
    ObjectId(u32::try_from(found.unwrap_or_else(|| panic!("there is {is:?} {name}"))).unwrap())
}

#[test]
fn each_event_becomes_its_steps() {
    let app = read(EVERY_EVENT);
    assert_eq!(app.duration, Some(Nanos::s(2)));
    let names: Vec<&str> = app.application.tasks.iter().map(|task| task.name.as_str()).collect();
    assert_eq!(names, ["worker", "waiter", "talker-0", "talker-1", "beater", "parent"]);

    let (mutex, condition) = (object(&app, "m", Object::Mutex), object(&app, "c", Object::Condition));
    let (own, wakes) = (object(&app, "waiter", Object::Mutex), object(&app, "waiter", Object::Condition));
    let meet = object(&app, "meet", Object::Barrier { parties: 4 });
    let wait = Step::Wait { condition, mutex };
    let timer = |timer, period, mode| Step::Timer { timer, period: Nanos::us(period), mode };
    let body = vec![
        run(100),
        run(50),
        Step::Sleep(us(20)),
        run(30),
        Step::Lock(own),
        Step::Broadcast(wakes),
        Step::Unlock(own),
        timer(0, 1000, TimerMode::Relative),
        timer(1, 2000, TimerMode::Absolute),
        timer(0, 3000, TimerMode::Relative),
        Step::Run(Length::Fixed(Nanos::ns(409_600))),
        Step::Run(Length::Fixed(Nanos::ns(100))),
        Step::Yield,
        Step::Barrier(meet),
    ];
    assert_eq!(task(&app, "worker").steps, [Step::Repeat { times: None, body }]);

    let body = vec![
        Step::Lock(own),
        Step::Wait { condition: wakes, mutex: own },
        Step::Unlock(own),
        Step::Lock(mutex),
        Step::Signal(condition),
        wait.clone(),
        Step::Unlock(mutex),
        Step::Barrier(meet),
    ];
    assert_eq!(task(&app, "waiter").steps, [Step::Repeat { times: None, body }]);

    let sync = [Step::Lock(mutex), Step::Signal(condition), wait, Step::Unlock(mutex)];
    let mut body = vec![Step::Lock(mutex), Step::Signal(condition), Step::Unlock(mutex)];
    body.extend(sync);
    body.extend([run(10), Step::Barrier(meet)]);
    let talker = [Step::Repeat { times: None, body }];
    assert_eq!(
        (task(&app, "talker-0").steps.as_slice(), task(&app, "talker-1").steps.as_slice()),
        (&talker[..], &talker[..])
    );

    let body = vec![Step::Lock(mutex), Step::Broadcast(condition), Step::Unlock(mutex), Step::Sleep(us(500))];
    assert_eq!(task(&app, "beater").steps, [Step::Repeat { times: None, body }]);

    let parent = task(&app, "parent");
    assert_eq!(parent.delay, us(500));
    let [Step::Repeat { times: Some(3), body }] = parent.steps.as_slice() else { panic!("{:?}", parent.steps) };
    let [Step::Repeat { times: Some(2), body: forks }, Step::Sleep(_)] = body.as_slice() else { panic!("{body:?}") };
    let [Step::Fork(child), Step::Run(_)] = forks.as_slice() else { panic!("{forks:?}") };
    assert_eq!((child.name.as_str(), child.steps.as_slice()), ("child", &[run(70)][..]));
    assert_eq!(app.threads, 5 + 2, "a parent, and a child that makes room before the next");
}

#[test]
fn repeated_keys_keep_their_order_as_do_numbered_ones() {
    let body = vec![run(1), Step::Sleep(us(2)), run(3), Step::Sleep(us(4)), run(5)];
    let right = [Step::Repeat { times: None, body }];
    for text in [
        "\"run\" : 1, \"sleep\" : 2, \"run\" : 3, \"sleep\" : 4, \"run\" : 5",
        "\"run0\" : 1, \"sleep0\" : 2, \"run_b\" : 3, \"sleep-2\" : 4, 'run9' : 5, // the last\n",
        "/* in between */ \"run\" : 1, \"sleep\" : 2, \"sleep\" : 0, \"runtime\" : 3, \"sleep1\" : 4, \"run1\" : 5,",
    ] {
        assert_eq!(steps(text), right, "{text}");
    }
}

#[test]
fn loops_count_phases_and_threads() {
    let run = vec![run(1)];
    let repeat = |times, body| vec![Step::Repeat { times, body }];
    assert_eq!(steps("\"loop\" : 5, \"run\" : 1"), repeat(Some(5), run.clone()));
    assert_eq!(steps("\"loop\" : -1, \"run\" : 1"), repeat(None, run.clone()));
    assert_eq!(steps("\"loop\" : 1, \"run\" : 1"), run);
    let phases = "\"phases\" : { \"a\" : { \"run\" : 1 }, \"a\" : { \"loop\" : 7, \"run\" : 1 } }";
    let body = [run.clone(), repeat(Some(7), run.clone())].concat();
    assert_eq!(steps(phases), repeat(None, body.clone()));
    assert_eq!(steps(&format!("\"loop\" : 1, {phases}")), body);
    assert_eq!(steps(&format!("\"loop\" : 0, {phases}")), []);
}

#[test]
fn phases_ask_for_something_else_and_keep_what_they_do_not_name() {
    let cpus = |all: &[usize]| all.iter().map(|&cpu| CpuId::new(cpu)).collect::<CpuSet>();
    let fifo = Class::Fifo(RtPriority::new(7).unwrap());
    let text = "\"cpus\" : [2, 3], \"priority\" : -5, \"phases\" : { \"a\" : { \"run\" : 1 }, \
                \"b\" : { \"policy\" : \"SCHED_FIFO\", \"priority\" : 7, \"cpus\" : [1], \"run\" : 1 } }";
    let app = read(&format!("{{ \"tasks\" : {{ \"t\" : {{ {text} }} }} }}"));
    let begin = Params { weight: Weight::nice(-5).unwrap(), affinity: cpus(&[2, 3]), ..Params::default() };
    let [task] = app.application.tasks.as_slice() else { panic!("one") };
    assert_eq!(task.params, begin);
    let ask = |affinity| Step::Ask(Box::new(Params { class: fifo, affinity, ..Params::default() }));
    // The first round begins with the initial requests. Later rounds begin with the requests of the last phase, on the
    // thread's own CPUs.
    let later = vec![ask(cpus(&[2, 3])), run(1), ask(cpus(&[1])), run(1)];
    assert_eq!(task.steps, [run(1), ask(cpus(&[1])), run(1), Step::Repeat { times: None, body: later }]);
}

#[test]
fn task_groups_become_groups_of_the_application() {
    let app = read(
        "{ \"tasks\" : {
            \"one\" : { \"loop\" : -1, \"run\" : 2, \"taskgroup\" : \"/tg1\" },
            \"two\" : { \"phases\" : {
                \"a\" : { \"run\" : 1, \"taskgroup\" : \"/tg1/tg11\" },
                \"b\" : { \"run\" : 2 },
                \"c\" : { \"run\" : 3, \"taskgroup\" : \"/\" } } } } }",
    );
    let group = |name: &str, parent| TaskGroup { name: name.to_string(), parent };
    assert_eq!(app.application.groups, [group("tg1", None), group("tg1/tg11", Some(0))]);
    let repeat = |body| Step::Repeat { times: None, body };
    assert_eq!(task(&app, "one").steps, [Step::EnterGroup(Some(0)), repeat(vec![run(2)])]);
    // A phase that names no group stays in the group of the previous phase.
    let body = vec![Step::EnterGroup(Some(1)), run(1), run(2), Step::EnterGroup(None), run(3)];
    assert_eq!(task(&app, "two").steps, [repeat(body)]);
}

#[test]
fn a_file_names_at_most_as_many_task_groups_as_rt_app_takes() {
    let file = |count: usize| {
        let phase = |n| format!("\"p{n}\" : {{ \"run\" : 1, \"taskgroup\" : \"/g{n}\" }}");
        let phases: Vec<String> = (0..count).map(phase).collect();
        format!("{{ \"tasks\" : {{ \"t\" : {{ \"phases\" : {{ {} }} }} }} }}", phases.join(", "))
    };
    assert_eq!(read(&file(32)).application.groups.len(), 32);
    let refused = RtApp::from_bytes("x.json", file(33).into()).expect_err("one too many");
    assert!(refused.to_string().contains("too many task groups"), "{refused}");
}

#[test]
fn an_application_with_a_duration_may_stall() {
    let file = |global: &str| format!("{{ \"tasks\" : {{ \"t\" : {{ \"run\" : 1 }} }}, \"global\" : {{ {global} }} }}");
    assert!(read(&file("\"duration\" : 2")).application.may_stall);
    assert!(!read(&file("\"duration\" : -1")).application.may_stall && !read(&file("")).application.may_stall);
}

#[test]
fn policies_become_classes_shares_and_promises() {
    let params = |text: &str| {
        let app = read(&format!("{{ \"tasks\" : {{ \"t\" : {{ \"run\" : 1, {text} }} }} }}"));
        app.application.tasks[0].params
    };
    let default = Params::default();
    let rr = Class::RoundRobin(RtPriority::new(10).unwrap());
    assert_eq!(params("\"policy\" : \"SCHED_RR\""), Params { class: rr, ..default });
    assert_eq!(params("\"policy\" : \"SCHED_IDLE\""), Params { class: Class::Idle, ..default });
    assert_eq!(params("\"util_min\" : 100, \"nodes_membind\" : [0], \"taskgroup\" : \"\""), default);
    let slice = Params { latency: Some(Nanos::ms(100)), ..default };
    assert_eq!(params("\"dl-runtime\" : 100000"), slice, "what EEVDF is asked for");
    let mut promised = Reservation {
        deadline: Some(Nanos::ms(50)),
        limit: Limit::Hard,
        ..Reservation::new(Nanos::ms(12), Nanos::ms(100))
    };
    let dl = "\"policy\" : \"SCHED_DEADLINE\", \"dl-runtime\" : 12000, \"dl-period\" : 100000, \"dl-deadline\" : 50000";
    assert_eq!(params(dl), Params { reservation: Some(promised), ..default });
    promised.limit = Limit::Soft;
    assert_eq!(params(&format!("{dl}, \"dl-reclaim\" : true")), Params { reservation: Some(promised), ..default });
    // The property names of older versions, without a deadline.
    let old = "\"policy\" : \"SCHED_DEADLINE\", \"period\" : 20000, \"phases\" : {} "
        .replace("\"phases\" : {}", "\"runtime\" : 5000");
    let promised = Reservation { limit: Limit::Hard, ..Reservation::new(Nanos::ms(5), Nanos::ms(20)) };
    assert_eq!(params(&old).reservation, Some(promised));
}

#[test]
fn a_loop_may_take_no_time_if_it_waits_for_one_that_does() {
    read(
        "{ \"tasks\" : {
            \"beat\" : { \"resume\" : \"a\", \"timer\" : { \"ref\" : \"tick\", \"period\" : 1000 } },
            \"a\" : { \"suspend\", \"resume\" : \"b\" },
            \"b\" : { \"suspend\", \"resume\" : \"c\" },
            \"c\" : { \"suspend\" : \"\", \"barrier\" : \"x\" },
            \"d\" : { \"barrier\" : \"x\", \"yield\" : \"\" }
        } }",
    );
}

/// Returns the problems of each of `threads` as the tasks of a file.
fn said(threads: &[&str]) -> String {
    let said = |threads: &&str| {
        let text = format!("{{ \"tasks\" : {{\n{threads}\n}} }}\n");
        let problems = RtApp::from_bytes("x.json", text.into()).err().unwrap_or_else(|| panic!("{threads} is wrong"));
        format!("{threads}\n  {}\n", problems.to_string().replace('\n', "\n  "))
    };
    threads.iter().map(said).collect::<Vec<_>>().join("\n")
}

#[test]
fn waits_that_cannot_end_are_found_before_anything_runs() {
    expect_file!["errors/rtapp-waits.txt"].assert_eq(&said(&[
        "\"t\" : { \"run\" : 1, \"barrier\" : \"alone\" }",
        "\"t\" : { \"run\" : 1, \"barrier\" : \"b\", \"barrier\" : \"b\" },\n\"u\" : { \"run\" : 1, \"barrier\" : \"b\" }",
        "\"t\" : { \"loop\" : 1, \"lock\" : \"m\", \"run\" : 1 }",
        "\"t\" : { \"loop\" : 2, \"lock\" : \"m\", \"run\" : 1 }",
        "\"t\" : { \"run\" : 1, \"unlock\" : \"m\" }",
        "\"t\" : { \"run\" : 1, \"wait\" : { \"ref\" : \"c\", \"mutex\" : \"m\" } }",
        "\"t\" : { \"lock\" : \"t\", \"suspend\", \"unlock\" : \"t\" }",
        "\"t\" : { \"run\" : 1, \"suspend\" }",
        "\"t\" : { \"run\" : 1, \"suspend\" : \"t\", \"resume\" : \"t\" }",
        "\"t\" : { \"run\" : 1, \"lock\" : \"m\", \"wait\" : { \"ref\" : \"c\", \"mutex\" : \"m\" }, \"unlock\" : \"m\" }",
        "\"t\" : { \"yield\" : \"\" }",
        "\"t\" : { \"run\" : 0, \"sleep\" : 0, \"timer\" : { \"ref\" : \"unique\", \"period\" : 0 } }",
        "\"a\" : { \"suspend\", \"resume\" : \"b\" },\n\"b\" : { \"resume\" : \"a\", \"suspend\" }",
        "\"a\" : { \"barrier\" : \"x\" },\n\"b\" : { \"barrier\" : \"x\" }",
        "\"a\" : { \"instance\" : 2, \"resume\" : \"a\", \"suspend\" }",
        "\"t\" : { \"loop\" : 1, \"phases\" : { \"p\" : { \"loop\" : 9000000000, \"lock\" : \"m\", \"unlock\" : \"m\" } } }",
        "\"a\" : { \"run\" : 1, \"timer\" : { \"ref\" : \"tick\", \"period\" : 5 } },\n\
         \"b\" : { \"run\" : 1, \"timer\" : { \"ref\" : \"tick\", \"period\" : 5 } }",
        "\"t\" : { \"instance\" : 2, \"run\" : 1, \"timer\" : { \"period\" : 5 } }",
    ]));
}

#[test]
fn threads_are_counted_before_there_are_any() {
    expect_file!["errors/rtapp-counts.txt"].assert_eq(&said(&[
        "\"t\" : { \"instance\" : 1000000000, \"run\" : 1 }",
        "\"t\" : { \"instance\" : 9223372036854775807, \"run\" : 1 },\n\"u\" : { \"instance\" : 9223372036854775807, \"run\" : 1 }",
        "\"t\" : { \"instance\" : 1000000, \"run\" : 1, \"run\" : 1, \"run\" : 1, \"run\" : 1, \"run\" : 1 }",
        "\"t\" : { \"run\" : 1, \"fork\" : \"t\" }",
        "\"t\" : { \"run\" : 1, \"fork\" : \"u\" },\n\"u\" : { \"run\" : 1, \"fork\" : \"t\" }",
        "\"t\" : { \"run\" : 1, \"fork\" : \"u\" },\n\"u\" : { \"instance\" : 0, \"run\" : 1 }",
        "\"t\" : { \"loop\" : 1000000000, \"fork\" : \"u\" },\n\"u\" : { \"instance\" : 0, \"loop\" : 1, \"run\" : 1 }",
        "\"t\" : { \"run\" : 1, \"fork\" : \"missing\" }",
        "\"t\" : { \"run\" : 1, \"fork\" : \"u\" },\n\"u\" : { \"loop\" : 1, \"run\" : 1, \"barrier\" : \"b\" },\n\
         \"v\" : { \"run\" : 1, \"barrier\" : \"b\" }",
    ]));
    let chain: String =
        (0..40).map(|i| format!("\"t{i}\" : {{ \"loop\" : 1, \"run\" : 1, \"fork\" : \"t{}\" }},\n", i + 1)).collect();
    let text = format!("{{ \"tasks\" : {{ {chain} \"t40\" : {{ \"loop\" : 1, \"run\" : 1 }} }} }}");
    let deep = RtApp::from_bytes("x.json", text.into()).unwrap_err().to_string();
    assert_eq!(deep, "x.json:9:33: forks are too deep; use at most 32 generations");
    // A duration bounds endless forks.
    let bounded = "{ \"global\" : { \"duration\" : 1 }, \"tasks\" : {
        \"t\" : { \"sleep\" : 100000, \"fork\" : \"u\" }, \"u\" : { \"instance\" : 0, \"run\" : 1, \"sleep\" : 99 } } }";
    assert_eq!(read(bounded).threads, 1 + 11);
    // A run overlaps with the period of a timer, so a round takes 100 ms, and not 190 ms. Two uses of one timer take
    // two periods.
    for (events, threads) in [
        ("\"run\" : 90000, \"timer\" : { \"ref\" : \"tick\", \"period\" : 100000 }", 1 + 11),
        (
            "\"timer\" : { \"ref\" : \"a\", \"period\" : 50000 }, \"timer\" : { \"ref\" : \"a\", \"period\" : 50000 }",
            1 + 11,
        ),
        (
            "\"timer\" : { \"ref\" : \"a\", \"period\" : 50000 }, \"timer\" : { \"ref\" : \"b\", \"period\" : 100000 }",
            1 + 11,
        ),
    ] {
        let bounded = format!(
            "{{ \"global\" : {{ \"duration\" : 1 }}, \"tasks\" : {{ \"t\" : {{ {events}, \"fork\" : \"u\" }}, \
             \"u\" : {{ \"instance\" : 0, \"run\" : 1, \"sleep\" : 99 }} }} }}"
        );
        assert_eq!(read(&bounded).threads, threads, "{events}");
    }
}

#[test]
fn what_cannot_be_read_is_said_with_its_place() {
    expect_file!["errors/rtapp-keys.txt"].assert_eq(&said(&[
        "\"t\" : { \"runn\" : 1 }",
        "\"t\" : { \"run\" : 1, \"instances\" : 2, \"external_workload\" : {} }",
        "\"t\" : { \"run\" : \"1ms\", \"sleep\" : -1, \"mem\" : 1.5, \"lock\" : 7, \"suspend\" : [], \"unlock\" : \"\" }",
        "\"t\" : { \"run\" : 99999999999999999999, \"sleep\" : 1e3 }",
        "\"t\" : { \"run\" : 1, \"timer\" : { \"ref\" : \"unique\", \"perod\" : 5 } }",
        "\"t\" : { \"run\" : 1, \"timer\" : 5, \"wait\" : { \"ref\" : \"c\" }, \"sync\" : \"c\" }",
        "\"t\" : { \"run\" : 1, \"timer\" : { \"period\" : 5, \"mode\" : \"abs\" } }",
        "\"t\" : { \"run\" : 1, \"run\", \"yield\" : 5 }",
        "\"t\" : { \"run\" : 1, \"loop\" : 2, \"loop\" : 3 }",
        "\"t\" : { \"run\" : 1 },\n\"t\" : { \"run\" : 1 }",
        "\"t\" : { \"loop\" : -2, \"instance\" : \"many\", \"delay\" : true, \"run\" : 1 }",
        "\"t\" : {}",
        "\"t\" : { \"phases\" : {} }",
        "\"t\" : { \"run\" : 1, \"phases\" : { \"p\" : { \"delay\" : 5 } } }",
        "\"t\" : [],\n\"a/b\" : { \"run\" : 1 },\n\"\" : { \"run\" : 1 }",
        "\"t\" : { \"policy\" : \"SCHED_OTER\", \"cpus\" : [], \"run\" : 1 }",
        "\"t\" : { \"policy\" : \"SCHED_FIFO\", \"priority\" : 0, \"run\" : 1 }",
        "\"t\" : { \"priority\" : 20, \"cpus\" : [1024], \"util_max\" : 2000, \"run\" : 1 }",
        "\"t\" : { \"policy\" : \"SCHED_DEADLINE\", \"run\" : 1 }",
        "\"t\" : { \"policy\" : \"SCHED_DEADLINE\", \"dl-runtime\" : 20, \"dl-period\" : 10, \"run\" : 1 }",
        "\"t\" : { \"taskgroup\" : \"tg1\", \"run\" : 1 },\n\"u\" : { \"taskgroup\" : \"/a//b\", \"run\" : 1 }",
        "\"t\" : { \"taskgroup\" : \"/a/..\", \"run\" : 1 },\n\"u\" : { \"taskgroup\" : \"/1/2/3/4/5/6/7/8/9\", \"run\" : 1 }",
        "\"t\" : { \"phases\" : { \"p\" : { \"taskgroup\" : 5, \"run\" : 1 } } }",
    ]));
}

#[test]
fn a_whole_file_can_be_wrong() {
    let files = [
        "",
        "[]",
        "{ \"tasks\" : { \"t\" : { \"run\" : 1 } }",
        "{ \"tasks\" : { \"t\" : { \"run\" 1 } } }",
        "{ \"tasks\" : { \"t\" : { \"run\" : 1 \"sleep\" : 1 } } }",
        "{ \"tasks\" : { \"t\" : { \"run\" : NaN } } }",
        "{ \"tasks\" : { \"t\" : { \"run\" : /* never closed",
        "{ \"global\" : { \"duration\" : 0, \"pi_enabled\" : true, \"logdirr\" : \".\" } }",
        "{ \"tasks\" : {}, \"resources\" : { \"m\" : { \"type\" : \"mutx\" } }, \"task\" : 1 } }",
    ];
    let said = |text: &&str| rendered(&RtApp::from_bytes("x.json", (*text).into()).expect_err(text));
    expect_file!["errors/rtapp-files.txt"].assert_eq(&files.iter().map(said).collect::<Vec<_>>().join("\n"));
}
