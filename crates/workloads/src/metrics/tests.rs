use super::gauge::{Fact, Gauge};
use super::launches::Launches;
use super::sound::Buffer;
use super::wakeups::Wakeups;
use super::{Grade, Metric, Metrics, Sound};
use sched::{EntityId, Instant, Nanos};
use trace::{Event, Sink};

fn ms(ms: u64) -> Instant {
    Instant::ZERO + Nanos::ms(ms)
}

#[test]
fn a_buffer_plays_once_it_is_full_and_clicks_where_it_runs_empty() {
    let mut buffer = Buffer::new(Sound { period: Nanos::ms(10), periods: 2 });
    // The buffer is full at 1 ms. The next period arrives at 21 ms, when the buffer would run empty. Another period
    // arrives at 35 ms, 4 ms too late, and a last period at 44 ms.
    for at in [0, 1, 21, 35, 44] {
        buffer.note(ms(at), "", Fact::Done);
    }
    let reading = buffer.read(ms(50));
    assert_eq!((reading.get("underruns"), reading.get("silence_ns")), (Some(1), Some(4_000_000)));
    // At 50 ms, 5 ms of sound are left. No further period arrives, so the buffer is empty at 55 ms.
    let reading = buffer.read(ms(60));
    assert_eq!((reading.get("underruns"), reading.get("silence_ns")), (Some(2), Some(4_000_000 + 5_000_000)));
}

#[test]
fn a_long_silence_is_worse_than_a_rare_click() {
    // One click in six minutes, with 1 s or with 100 s of silence.
    for (silent, grade) in [(1, Grade::Tiny), (100, Grade::Jitter)] {
        let mut buffer = Buffer::new(Sound { period: Nanos::s(200), periods: 1 });
        [0, 200 + silent].into_iter().for_each(|at| buffer.note(Instant::ZERO + Nanos::s(at), "", Fact::Done));
        let reading = buffer.read(Instant::ZERO + Nanos::s(360));
        assert_eq!((reading.get("underruns"), reading.get("sound_grade")), (Some(1), Some(grade.number())), "{silent}");
    }
}

#[test]
fn what_does_not_fit_into_a_buffer_is_not_heard() {
    let mut buffer = Buffer::new(Sound { period: Nanos::ms(10), periods: 2 });
    (0..10).for_each(|_| buffer.note(ms(0), "", Fact::Done));
    assert_eq!(buffer.read(ms(21)).get("underruns"), Some(1), "of a hundred only twenty were kept");
}

#[test]
fn grades_end_where_they_say() {
    let us = Nanos::us;
    let grades =
        [us(0), us(5_556), us(5_557), us(8_333), us(16_667), us(16_668)].map(|off| Grade::of(&off, &Grade::PICTURES));
    use Grade::{Good, Jitter, Small, Tiny};
    assert_eq!(grades, [Good, Good, Tiny, Tiny, Small, Jitter]);
    let words: Vec<&str> = [Good, Tiny, Small, Jitter].iter().map(|grade| Grade::word(grade.number())).collect();
    assert_eq!(words, ["good", "tiny jitter", "small jitter", "jitter"]);
}

#[test]
fn a_task_that_reuses_an_id_does_not_count_for_the_application_that_had_it() {
    let mut metrics = Metrics::new([("web", Metric::Responses)]);
    let attach = |entity, name: &str| Event::Attach { entity, name: name.to_string(), params: Box::default() };
    let (first, second) = (EntityId::new(0, 0), EntityId::new(0, 1));
    let never = Instant::NEVER;
    for (at, event) in [
        (0, attach(first, "web")),
        (1, Event::Release { entity: first, deadline: never }),
        (3, Event::Complete { entity: first }),
        (4, Event::Detach { entity: first }),
        (5, attach(second, "webmaster")),
        (6, Event::Release { entity: second, deadline: never }),
        (9, Event::Complete { entity: second }),
    ] {
        metrics.record(ms(at), &event);
    }
    let read = metrics.read(ms(10));
    assert_eq!(read[0].2.get("answers"), Some(1));
    assert_eq!(read[0].2.get("response_max_ns"), Some(2_000_000));
}

#[test]
fn wakeups_have_a_histogram_that_ends_at_five_milliseconds() {
    let mut wakeups = Wakeups::default();
    for late in [Nanos::us(10), Nanos::ns(10_999), Nanos::us(12), Nanos::ns(4_999_999), Nanos::ms(5), Nanos::ms(7)] {
        wakeups.note(ms(0), "thread-0", Fact::Late(late));
    }
    wakeups.note(ms(0), "thread-1", Fact::LeftOut(3));
    let reading = wakeups.read(ms(1));
    assert_eq!(reading.histograms.0, [("late_us", vec![(10, 2), (12, 1), (4_999, 1)])]);
    let told = ["samples", "overflow", "left_out", "late_max_ns"].map(|name| reading.get(name));
    assert_eq!(told, [Some(6), Some(2), Some(3), Some(7_000_000)]);
    let mean = (10_000 + 10_999 + 12_000 + 4_999_999 + 5_000_000 + 7_000_000) / 6;
    assert_eq!(reading.get("late_mean_ns"), Some(mean), "what is not in the histogram counts as well");
}

#[test]
fn wakeups_spread_by_the_deviation_of_a_sample() {
    let mut wakeups = Wakeups::default();
    for us in [2, 4, 4, 4, 5, 5, 7, 9] {
        wakeups.note(ms(0), "", Fact::Late(Nanos::us(us)));
    }
    // The deviation is the square root of 32 / 7 square microseconds.
    assert_eq!(wakeups.read(ms(1)).get("late_deviation_ns"), Some(2_138));
    assert_eq!(Wakeups::default().read(ms(1)).get("late_deviation_ns"), Some(0), "of none");
}

#[test]
fn launches_have_mean_and_deviation_and_one_that_is_not_over_does_not_count() {
    let mut launches = Launches::default();
    for (from, to) in [(0, 10), (100, 120), (200, 230)] {
        launches.note(ms(from), "", Fact::Begins);
        launches.note(ms(to), "", Fact::Done);
    }
    launches.note(ms(300), "", Fact::Begins);
    let reading = launches.read(ms(1_000));
    let told =
        ["launches", "start_mean_ns", "start_deviation_ns", "start_max_ns", "unfinished"].map(|name| reading.get(name));
    assert_eq!(told, [Some(3), Some(20_000_000), Some(10_000_000), Some(30_000_000), Some(1)]);
}
