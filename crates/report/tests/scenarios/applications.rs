//! Applications and their metrics. On an otherwise idle host, each application has a result that the test calculates.
//! Beside real-time tasks, the result is worse.

use report::{AppReport, Report, Summary, Widths, applications, medians};
use run::{Observers, Run};
use scenario::Scenario;
use sched::Nanos;
use std::collections::BTreeMap;
use std::sync::Arc;
use workloads::metrics::{Grade, Reading};
use workloads::{PROGRAMS, Parsec, Waits};

fn scenario(cpus: usize, length: &str, policy: &str, tasks: &str) -> Scenario {
    let text = format!("name = \"x\"\ncpus = {cpus}\nlength = \"{length}\"\npolicy = \"{policy}\"\n{tasks}");
    Scenario::from_bytes("test.toml", text.into_bytes()).unwrap_or_else(|problems| panic!("{problems}"))
}

fn played(scenario: &Scenario, seed: u64) -> Report {
    let choice = run::choose(scenario, &[], &[]).expect("the scenario names its policy").remove(0);
    let run = Run { seed, ..Run::new(scenario.clone(), choice) };
    run.play(Observers::none()).map(Report::of).unwrap_or_else(|problems| panic!("{problems}"))
}

/// Returns the results of the application `workload`, alone on a host on which scheduling takes no time.
fn alone(cpus: usize, length: &str, workload: &str) -> Reading {
    let tasks = format!("[[task]]\nname = \"it\"\nworkload.{workload}\n");
    reading(&played(&scenario(cpus, length, "cfs", &tasks), 1))
}

/// Returns the results of the application `workload` beside real-time tasks that leave a fifth of the CPU time. In
/// every 500 ms, they use 400 ms of each CPU without interruption.
fn beside_hogs(cpus: usize, length: &str, workload: &str) -> Reading {
    let mut tasks = format!("[[task]]\nname = \"it\"\nworkload.{workload}\n");
    for cpu in 0..cpus {
        tasks += &format!(
            "[[task]]\nname = \"hog-{cpu}\"\nclass = {{ fifo = 50 }}\naffinity = \"{cpu}\"\n\
             workload.periodic = {{ period = \"500ms\", work = \"400ms\" }}\n"
        );
    }
    reading(&played(&scenario(cpus, length, "linux", &tasks), 1))
}

fn reading(report: &Report) -> Reading {
    let [AppReport { name, values, series, .. }] = report.applications.as_slice() else {
        panic!("{:?}", report.applications)
    };
    assert_eq!(name, "it");
    Reading { values: values.clone(), series: series.clone(), ..Reading::default() }
}

fn of(reading: &Reading, name: &str) -> u64 {
    reading.get(name).unwrap_or_else(|| panic!("{name} in {reading:?}"))
}

#[track_caller]
fn says(reading: &Reading, right: &[(&str, u64)]) {
    for &(name, value) in right {
        assert_eq!(of(reading, name), value, "{name}: {reading:?}");
    }
}

/// A frame is shown for 40 ms, and its decoding takes 5 ms on each of two threads. A spinning thread uses its CPU all
/// the time.
#[test]
fn decoders_that_wait_busily_never_leave_their_cpus() {
    for (waits, low, high) in [("sleeping", 120_000, 130_000), ("spinning", 990_000, 1_000_000)] {
        let film = format!(
            "[[task]]\nname = \"it\"\nworkload.video = {{ fps = 25, length = \"2s\", decode = \"10ms\", threads = 2, waits = \"{waits}\" }}\n"
        );
        let report = played(&scenario(2, "2s", "cfs", &film), 1);
        let helper = report.entities.iter().find(|it| it.name == "it/decoder-1").expect("it is there");
        assert!((low..=high).contains(&helper.got.delivered_ppm), "{waits}: {}", helper.got.delivered_ppm);
    }
}

#[test]
fn a_film_plays_at_its_rate_and_for_its_length() {
    // At 25 frames per second, each frame is shown for 40 ms.
    for (frames, threads, cpus) in [("all", 1, 1), ("all", 2, 2), ("drop-late", 1, 1), ("drop-late", 2, 2)] {
        let film = format!(
            "video = {{ fps = 25, length = \"4s\", decode = {{ uniform = [\"5ms\", \"35ms\"] }}, frames = \"{frames}\", threads = {threads} }}"
        );
        let it = alone(cpus, "5s", &film);
        says(&it, &[("fps_milli", 25_000), ("shown", 100), ("dropped", 0), ("unplayed", 0)]);
        says(&it, &[("playback_ns", 4_000_000_000), ("jitter_max_ns", 0), ("grade", Grade::Good.number())]);
        assert_eq!(it.series.0, [("shown", vec![25; 4])], "{frames}");
    }
    // The two films of `poris` have 1764.66 and 1428.54 frames per minute.
    for (fps, frames, period) in [("29.411", 1765, 34_000_884), ("23.809", 1429, 42_000_924)] {
        let it = alone(1, "61s", &format!("video = {{ fps = {fps}, length = \"60s\", decode = \"10ms\" }}"));
        says(&it, &[("shown", frames), ("dropped", 0), ("playback_ns", frames * period)]);
    }
}

#[test]
fn a_player_that_shows_all_frames_takes_longer_and_one_that_drops_frames_does_not() {
    // The film needs 2 s of CPU time and receives a fifth of the CPU.
    let film = |frames| format!("video = {{ fps = 25, length = \"4s\", decode = \"20ms\", frames = \"{frames}\" }}");
    let all = beside_hogs(1, "20s", &film("all"));
    says(&all, &[("shown", 100), ("dropped", 0), ("unplayed", 0)]);
    assert!(of(&all, "playback_ns") > 9_000_000_000 && of(&all, "fps_milli") < 12_000, "{all:?}");
    let dropping = beside_hogs(1, "20s", &film("drop-late"));
    assert_eq!(of(&dropping, "shown") + of(&dropping, "dropped"), 100, "{dropping:?}");
    assert!(of(&dropping, "dropped") > 30, "{dropping:?}");
    // The playback ends late by at most the default limit of 100 ms, plus 400 ms without a CPU, plus two frames.
    let late = 400_000_000 + 100_000_000 + 2 * 40_000_000;
    assert!(of(&dropping, "playback_ns") <= 4_000_000_000 + late, "{dropping:?}");
    for it in [all, dropping] {
        says(&it, &[("grade", Grade::Jitter.number())]);
    }
}

#[test]
fn a_player_catches_up_unless_it_is_too_far_behind() {
    // The film has no CPU for 400 ms of every 500 ms. Afterwards, ten frames are due at once, and take 40 ms of CPU
    // time.
    let film = |late| format!("video = {{ fps = 25, length = \"4s\", decode = \"4ms\", late = \"{late}\" }}");
    let playback = |late| of(&beside_hogs(1, "40s", &film(late)), "playback_ns");
    assert!(playback("500ms") < 5_000_000_000, "{}", playback("500ms"));
    for late in ["0s", "200ms"] {
        assert!(playback(late) > 12_000_000_000, "a player farther behind than {late} begins anew: {}", playback(late));
    }
    // If no frame is late, the limit has no effect.
    let it = alone(1, "5s", &film("200ms"));
    says(&it, &[("shown", 100), ("playback_ns", 4_000_000_000), ("jitter_max_ns", 0)]);
}

#[test]
fn sound_breaks_off_only_where_its_buffer_runs_empty() {
    let it = alone(1, "10s", "audio = { period = \"20ms\", work = \"2ms\", buffers = 2, length = \"9s\" }");
    says(&it, &[("underruns", 0), ("silence_ns", 0), ("periods", 450 + 2), ("sound_grade", 0)]);
    // The player has no CPU for 400 ms of every 500 ms. The buffer covers 40 ms of the 400 ms, so the buffer runs empty
    // once in every 500 ms.
    let short = beside_hogs(1, "10s", "audio = { period = \"20ms\", work = \"1ms\", buffers = 2 }");
    assert!((18..=21).contains(&of(&short, "underruns")), "{short:?}");
    assert!(of(&short, "silence_ns") > 6_000_000_000, "{short:?}");
    says(&short, &[("sound_grade", Grade::Jitter.number())]);
    let long = beside_hogs(1, "10s", "audio = { period = \"20ms\", work = \"1ms\", buffers = 25 }");
    says(&long, &[("underruns", 0), ("silence_ns", 0)]);
}

#[test]
fn a_film_with_sound_and_a_game_with_sound_are_judged_by_both() {
    let film = "video = { fps = 25, length = \"4s\", decode = \"10ms\", sound = true }";
    let game = "game = { fps = 50, work = \"5ms\" }";
    for it in [alone(2, "5s", film), alone(1, "5s", game)] {
        says(&it, &[("underruns", 0), ("sound_grade", 0)]);
    }
    says(&alone(2, "5s", game), &[("pictures", 249), ("left_out", 0), ("jitter_max_ns", 0), ("grade", 0)]);
    for it in [beside_hogs(1, "5s", film), beside_hogs(1, "5s", game)] {
        assert!(of(&it, "underruns") > 3, "{it:?}");
        says(&it, &[("sound_grade", 3), ("grade", 3)]);
    }
    let silent = alone(1, "2s", "game = { sound = false }");
    assert_eq!(silent.get("underruns"), None);
}

#[test]
fn a_browser_answers_in_the_time_its_work_takes() {
    let web = "web = { think = \"50ms\", work = \"20ms\" }";
    let it = alone(1, "7s", web);
    says(&it, &[("answers", 99), ("response_p50_ns", 20_000_000), ("response_max_ns", 20_000_000), ("grade", 0)]);
    let hogged = beside_hogs(1, "7s", web);
    assert!(of(&hogged, "response_max_ns") >= 380_000_000, "{hogged:?}");
    assert!(of(&hogged, "grade") > 0, "{hogged:?}");
}

#[test]
fn supersteps_at_full_speed_take_what_they_compute_and_communicate() {
    for waits in ["sleeping", "spinning"] {
        let bsp =
            format!("bsp = {{ supersteps = 50, compute = \"10ms\", communicate = \"20ms\", waits = \"{waits}\" }}");
        let it = alone(4, "2s", &bsp);
        says(&it, &[("rounds", 50), ("round_max_ns", 30_000_000), ("speed_ppm", 1_000_000)]);
        says(&it, &[("rounds_per_s_milli", 33_333)]);
        let hogged = beside_hogs(4, "20s", &bsp);
        assert!(of(&hogged, "speed_ppm") < 700_000, "{hogged:?}");
    }
    // On two CPUs, only two of the four nodes compute at a time, so computation takes twice as long. Communication
    // takes the same time.
    let it = alone(2, "3s", "bsp = { supersteps = 20, compute = \"10ms\", communicate = \"20ms\" }");
    assert!((600_000..=1_000_000).contains(&of(&it, "speed_ppm")), "{it:?}");
}

#[test]
fn each_program_of_parsec_takes_its_critical_path() {
    for program in PROGRAMS {
        let adaptive = Waits::SpinThenSleep { spin: Waits::SPIN };
        for (word, waits) in
            [("sleeping", Waits::Sleeping), ("spinning", Waits::Spinning), ("spin-then-sleep", adaptive)]
        {
            let text = format!(
                "parsec = {{ program = \"{}\", threads = 4, work = \"20ms\", waits = \"{word}\" }}",
                program.name
            );
            let it = alone(4, "1s", &text);
            let right = Parsec { threads: 4, work: Nanos::ms(20), waits, ..Parsec::new(program) }.alone();
            says(&it, &[("unfinished", 0), ("took_ns", right.as_ns()), ("speed_ppm", 1_000_000)]);
            // The critical path is almost exactly the work, because the waits for locks are short.
            assert!((Nanos::us(19_900)..Nanos::us(20_500)).contains(&right), "{}: {right}", program.name);
        }
    }
    // A hog on one CPU slows a program with frequent barriers more than a program without barriers.
    let hogged = |program: &str| {
        let mut tasks = format!(
            "[[task]]\nname = \"it\"\nworkload.parsec = {{ program = \"{program}\", threads = 4, work = \"200ms\" }}\n"
        );
        tasks += "[[task]]\nname = \"hog\"\naffinity = \"0\"\nworkload = \"hog\"\n";
        of(&reading(&played(&scenario(4, "3s", "round-robin", &tasks), 1)), "speed_ppm")
    };
    let (often, never) = (hogged("streamcluster"), hogged("swaptions"));
    assert!(often < never && never < 1_000_000, "{often} {never}");
}

#[test]
fn a_batch_is_done_when_its_stages_are() {
    let batch = "micro_batch = { interval = \"100ms\", workers = 4, stages = 3, work = \"10ms\" }";
    let it = alone(4, "2050ms", batch);
    says(&it, &[("batches", 20), ("open", 0), ("latency_p50_ns", 30_000_000), ("latency_max_ns", 30_000_000)]);
    let hogged = beside_hogs(4, "2050ms", batch);
    assert!(of(&hogged, "open") > 5 && of(&hogged, "latency_max_ns") > 400_000_000, "{hogged:?}");
    let few = "micro_batch = { interval = \"100ms\", batches = 5, workers = 1, stages = 1, work = \"10ms\" }";
    says(&alone(1, "2s", few), &[("batches", 5), ("open", 0)]);
}

#[test]
fn a_build_takes_its_turns_and_its_link() {
    let build = "build = { files = 10, jobs = 4, compile = \"20ms\", reads = \"5ms\", link = \"30ms\" }";
    // Four compilers in parallel compile ten files in three turns.
    let it = alone(4, "1s", build);
    says(&it, &[("took_ns", 3 * 25_000_000 + 30_000_000), ("unfinished", 0), ("speed_ppm", 1_000_000)]);
    // One CPU does all the work. Reads overlap with the compilation of other files, except at the start and possibly at
    // the end.
    let one = of(&alone(1, "1s", build), "took_ns");
    assert!((235_000_000..=260_000_000).contains(&one), "{one}");
    let hogged = beside_hogs(1, "5s", build);
    assert!(of(&hogged, "took_ns") > 800_000_000, "{hogged:?}");
    let endless = alone(1, "1s", "build = { files = 1000, jobs = 2 }");
    says(&endless, &[("unfinished", 1), ("took_ns", 1_000_000_000)]);
    assert_eq!(endless.get("speed_ppm"), None, "the time that chance would take is unknown");
}

#[test]
fn streaming_loses_what_cold_caches_take() {
    let stream = "stream = { threads = 2, pass = \"10ms\", bytes = 100000000 }";
    // Each of two threads moves 100 MB in 10 ms.
    says(&alone(2, "1s", stream), &[("mb_per_s", 20_000), ("speed_ppm", 1_000_000)]);
    assert!(of(&beside_hogs(2, "3s", stream), "mb_per_s") < 8_000);
    let with = |refill: &str| {
        let tasks = format!(
            "costs = {{ cache_refill = \"{refill}\" }}\n[[task]]\nname = \"it\"\nworkload.{stream}\n\
             [[task]]\nname = \"hog\"\nworkload = \"hog\"\n"
        );
        of(&reading(&played(&scenario(2, "3s", "cfs", &tasks), 1)), "mb_per_s")
    };
    let (warm, cold) = (with("0s"), with("2ms"));
    assert!(cold < warm, "{cold} {warm}");
}

#[test]
fn played_back_load_is_what_was_asked_for_in_every_step() {
    let it = alone(4, "10s", "load_playback = { loads = [1.5, 0, 0.25, 3], step = \"2s\" }");
    says(&it, &[("contention_milli", 1_187), ("asked_milli", 1_187)]);
    let seconds = vec![2_000, 1_000, 0, 0, 500, 0, 3_000, 3_000];
    assert_eq!(it.series.0, [("contention_milli", seconds)]);
    // A task that waits for a CPU is also runnable. Contention therefore counts this task, even if the task receives no
    // CPU time.
    let one = alone(1, "10s", "load_playback = { loads = [1.5], step = \"4s\" }");
    let contention = of(&one, "contention_milli");
    assert!((1_500..=1_510).contains(&contention), "{one:?}");
}

#[test]
fn a_trace_of_load_is_read_from_a_file() {
    let text = "name = \"x\"\ncpus = 2\nlength = \"2s\"\npolicy = \"cfs\"\n\
                [[task]]\nname = \"it\"\nworkload.load_playback = { loads = \"load.txt\" }\n";
    let read = |loads: &str| {
        let files = BTreeMap::from([("here/load.txt".to_string(), loads.as_bytes().to_vec())]);
        Scenario::with_files("here/s.toml", text.as_bytes().to_vec(), Arc::new(files))
    };
    let scenario =
        read("# a host in the morning\n0.5\n\n1.5 # and later\n").unwrap_or_else(|problems| panic!("{problems}"));
    says(&reading(&played(&scenario, 1)), &[("contention_milli", 1_000), ("asked_milli", 1_000)]);
    for (file, why) in [("1.5\nmany\n", "line 2 of"), ("# none\n", "it has no load"), ("1001\n", "line 1 of")] {
        let problems = read(file).expect_err("it is wrong").to_string();
        assert!(problems.contains(why) && problems.contains("use "), "{problems}");
    }
}

#[test]
fn medians_and_tables_tell_of_applications_on_the_host_and_in_guests() {
    let tasks = "[[task]]\nname = \"it\"\nworkload.web = {}\n\
                 [[vm]]\nname = \"vm\"\n[[vm.task]]\nname = \"film\"\nworkload.video = { length = \"1s\", decode = \"5ms\" }\n";
    let scenario = scenario(1, "2s", "credit", tasks);
    let runs: Vec<Report> = (0..6).map(|seed| played(&scenario, seed)).collect();
    assert_eq!(runs[0].guests[0].applications[0].name, "film");
    let summary = Summary::new(&runs);
    let answers = summary.applications[0].values.0.iter().find(|(name, _)| *name == "answers").expect("it is there").1;
    let mut of_runs: Vec<u64> = runs.iter().map(|run| of(&reading(run), "answers")).collect();
    of_runs.sort_unstable();
    assert_eq!((answers.low, answers.high), (of_runs[0], of_runs[5]));
    assert!(answers.low < answers.high, "chance makes a difference");
    let film = &summary.guests[0].applications[0];
    assert_eq!((film.name.as_str(), film.metric, film.runs), ("film", "film", 6));
    let text = medians(&[summary], Widths(200)) + &applications(&runs[..1]);
    for part in ["Applications:", "film", "shown 24", "response p95", "grade good"] {
        assert!(text.contains(part), "{part} in\n{text}");
    }
    let json = serde_json::to_value(&runs[0]).expect("it can be written");
    assert_eq!(json["applications"][0]["metric"], "responses");
    let shown = json["guests"][0]["applications"][0]["series"]["shown"].as_array().expect("a list");
    assert_eq!(shown.iter().filter_map(serde_json::Value::as_u64).sum::<u64>(), 24);
}

#[test]
fn settings_out_of_range_get_place_reason_and_what_would_be_right() {
    for (workload, parts) in [
        ("video = {}", ["has no decode", "use { video"]),
        ("video = { decode = \"1ms\", fps = 0 }", ["`fps` is out of range", "from 0.001 to 1000"]),
        ("video = { decode = \"1ms\", fps = 29.97003 }", ["`fps` is out of range", "three decimals"]),
        ("video = { decode = \"1ms\", frames = \"some\" }", ["no frames `some`", "\"drop-late\""]),
        ("video = { decode = \"1ms\", length = \"100000000s\", fps = 1000 }", ["too many frames", "at most"]),
        ("audio = { work = \"1s\" }", ["longer than the period", "at most 26.122ms"]),
        ("audio = { length = \"1ms\" }", ["shorter than a period", "at least one period"]),
        ("audio = { buffers = 0 }", ["`buffers` is out of range", "from 1 to"]),
        ("game = { work = \"1s\" }", ["longer than the time between two pictures", "at most"]),
        ("web = { think = \"0s\" }", ["the think is zero", "from 1 ns"]),
        ("bsp = { nodes = 0 }", ["`nodes` is out of range", "from 1 to"]),
        ("parsec = {}", ["has no program", "streamcluster"]),
        ("parsec = { program = \"streamclustre\" }", ["PARSEC has no program `streamclustre`", "streamcluster"]),
        ("parsec = { program = \"vips\", work = \"2h\" }", ["computes for too long", "at most"]),
        ("micro_batch = { stages = 1001 }", ["`stages` is out of range", "from 1 to 1000"]),
        ("build = { jobs = 0 }", ["`jobs` is out of range", "from 1 to"]),
        ("stream = { bytes = 0 }", ["`bytes` is out of range", "from 1 to"]),
        ("load_playback = {}", ["has no loads", "loads = [0.5, 1.5]"]),
        ("load_playback = { loads = [] }", ["no load in `loads`", "use a list"]),
        ("load_playback = { loads = [-1] }", ["`loads` is out of range", "from 0 to 1000"]),
        ("load_playback = { loads = \"none.txt\" }", ["there is no such file", "a load in each line"]),
        ("game = { speed = 1 }", ["has no key `speed`", "use "]),
    ] {
        let text = format!(
            "name = \"x\"\ncpus = 1\nlength = \"1s\"\npolicy = \"cfs\"\n[[task]]\nname = \"it\"\nworkload.{workload}\n"
        );
        let problems = Scenario::from_bytes("test.toml", text.into_bytes()).expect_err(workload).to_string();
        for part in parts {
            assert!(problems.contains(part), "{part} in {workload}:\n{problems}");
        }
        assert!(problems.contains("test.toml:7"), "{workload}: the place in\n{problems}");
    }
}
