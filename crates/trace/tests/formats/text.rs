//! A trace written in the text format is read back unchanged, and the reader reports errors.

use crate::support::{Random, events};
use expect_test::{Expect, expect};
use sched::{Action, Input, Notice};
use std::io::{self, Write};
use trace::{Event, Header, Request, Sink, TextError, TextWriter, Trace, text};

fn written(trace: &Trace) -> String {
    let mut writer = TextWriter::new(Vec::new(), &trace.header);
    trace.show(&mut writer);
    String::from_utf8(writer.finish().unwrap()).unwrap()
}

#[test]
fn every_kind_of_event_reads_back_as_it_was_written() {
    for seed in 0..300 {
        let trace = events::trace(&mut Random::new(seed), 200);
        let text = written(&trace);
        let back = text::read(text.as_bytes()).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        assert_eq!(back, trace, "seed {seed}");
        assert_eq!(written(&back), text, "seed {seed}");
    }
}

/// The generator makes every type of event. This test does not compile if the match lacks a type.
#[test]
fn the_generator_knows_every_kind() {
    let kind = |event: &Event| match event {
        Event::GroupCreated { .. } => 0,
        Event::GroupAdjusted { .. } => 1,
        Event::GroupRemoved { .. } => 2,
        Event::Attach { .. } => 3,
        Event::Adjust { .. } => 4,
        Event::Detach { .. } => 5,
        Event::Input(Input::Wake { .. }) => 6,
        Event::Input(Input::Event { what: Notice::Interrupt, .. }) => 7,
        Event::Input(Input::Block { .. }) => 8,
        Event::Input(Input::Yield { .. }) => 9,
        Event::Input(Input::YieldTo { .. }) => 10,
        Event::Input(Input::Expire { .. }) => 11,
        Event::Input(Input::Kicked { .. }) => 12,
        Event::Input(Input::Alarm { .. }) => 13,
        Event::Input(Input::Pause { .. }) => 14,
        Event::Release { .. } => 15,
        Event::Complete { .. } => 16,
        Event::Action(Action::Stop { .. }) => 17,
        Event::Action(Action::Run { .. }) => 18,
        Event::Action(Action::Extend { .. }) => 19,
        Event::Action(Action::Kick { .. }) => 20,
        Event::Action(Action::Held { .. }) => 21,
        Event::Action(Action::SetAlarm { .. }) => 22,
        Event::Action(Action::ClearAlarm { .. }) => 23,
        Event::Input(Input::Event { what: Notice::SpinWait { .. }, .. }) => 24,
        Event::End => 25,
        Event::Aborted { .. } => 47,
        Event::Input(Input::Ran { .. }) => 26,
        Event::Background { .. } => 27,
        Event::Period { .. } => 28,
        Event::Kept { .. } => 46,
        Event::Woke { .. } => 29,
        Event::Vcpu { .. } => 30,
        Event::Input(Input::Freeze { .. }) => 31,
        Event::Input(Input::Thaw { .. }) => 32,
        Event::Irq { .. } => 38,
        Event::Skipped { .. } => 33,
        Event::Sent { .. } => 34,
        Event::Served { .. } => 35,
        Event::Arrived { .. } => 36,
        Event::Lost { .. } => 37,
        Event::Boosted { .. } => 39,
        Event::Settled => 40,
        Event::SpinWait { .. } => 45,
        Event::Refused(request) => match **request {
            Request::CreateGroup { .. } => 41,
            Request::AdjustGroup { .. } => 42,
            Request::Attach { .. } => 43,
            Request::Adjust { .. } => 44,
        },
    };
    let mut random = Random::new(1);
    for wanted in 0..events::KINDS {
        assert_eq!(kind(&events::event(&mut random, wanted)), wanted);
    }
}

const GOLDEN: &str = r#"tactus-trace 1 policy="edf" cpus=2 seed=7
           0 group-create g1 name="web \"farm\"" parent=g0 weight=256 quota=50000000/100000000 cap=none gang=yes
           0 attach e0 name="\t\u{1b}\u{202e}" weight=83.75 class=fifo:50 cpus=0-3,8 group=g1 latency=3000000 warp=20000000/0/5000000 reservation=20000000/50000000 deadline=30000000 start=none limit=hard
           0 adjust e0 weight=256 class=normal cpus=all group=g0 latency=none warp=none reservation=none
           0 wake e0 why=by waker=e1.2 sync=yes
           0 spin-wait e0 waited=12345
           0 spin-report e0 waited=7
           0 ran cpu=1 time=1999000
           0 background e0 time=7
           0 irq cpu=1 time=9900
           0 skipped e0 beats=3
           0 sent e0 flow=7 bytes=1460
           0 served e0
           0 arrived flow=7 bytes=1460 took=310000
           0 lost flow=4294967295 bytes=18446744073709551615
           0 period e0 due=2000000 delivered=2001000 throughout=yes
           0 kept e0 kept=no missed=26 of=100
           0 refused-attach name="big" weight=256 class=normal cpus=all group=g0 latency=none warp=none reservation=none
           0 refused-adjust e0 weight=256 class=normal cpus=all group=g0 latency=none warp=none reservation=none
           0 refused-group-create name="b" parent=g1 weight=256 quota=none cap=50 gang=no
           0 refused-group-adjust g1 weight=256 quota=none cap=none gang=no
           0 settled
     1000000 run cpu=0 e0 until=21000000
     1000000 held e0 reasons=throttled+co-stopped+16
     1000000 set-alarm of=cpu1 slot=2 cpu=1 at=never
123456789012345 yield-to cpu=0 to=e16777215.4294967294
123456789012345 end
"#;

#[test]
fn the_form_is_what_the_documentation_says() {
    let trace = text::read(GOLDEN.as_bytes()).unwrap();
    assert_eq!(written(&trace), GOLDEN);
    assert_eq!(trace.header, Header { policy: "edf".into(), cpus: 2, seed: 7 });
}

#[test]
fn comments_and_blank_lines_are_skipped() {
    let text = "# a comment\n\ntactus-trace 1 policy=\"x\" cpus=1 seed=0\n  # another\n \n0 end\r\n";
    assert_eq!(text::read(text.as_bytes()).unwrap().events.len(), 1);
}

fn fails(line: &str, expected: &Expect) {
    let text = format!("tactus-trace 1 policy=\"x\" cpus=1 seed=0\n10 end\n{line}\n");
    expected.assert_eq(&text::read(text.as_bytes()).unwrap_err().to_string());
}

#[test]
fn an_error_names_the_place_the_reason_and_the_remedy() {
    fails("10 run cpu=0 e3", &expect!["line 3, column 16: the line ends too early; help: add the field `until=`"]);
    fails(
        "10 run cpu=1024 e3 until=20",
        &expect!["line 3, column 12: `1024` is too large; help: use a whole number from 0 to 1023"],
    );
    fails(
        "10 run cpu=0 x3 until=20",
        &expect!["line 3, column 14: `x3` is not such an id; help: use `e0`, or `e0.1` for its second user"],
    );
    fails(
        "10 wake e16777216 why=timer",
        &expect!["line 3, column 10: `16777216` is too large; help: use a whole number from 0 to 16777215"],
    );
    fails(
        "10 jump cpu=0",
        &expect!["line 3, column 4: `jump` is not a verb; help: use a verb of the format, such as `run` or `wake`"],
    );
    fails("9 end", &expect!["line 3, column 1: time goes back: the line before is at 10 ns; help: use at least 10"]);
    fails("10 block cpu=0 e1", &expect!["line 3, column 16: `e1` is one field too many; help: end the line before it"]);
    fails(
        "99999999999999999999 end",
        &expect![
            "line 3, column 1: `99999999999999999999` is too large; help: use a whole number from 0 to 18446744073709551615"
        ],
    );
    fails(
        "10 attach e0 name=\"é\\q\" weight=256",
        &expect![[r#"line 3, column 21: an unknown escape; help: use `\"`, `\\`, `\n`, `\r`, `\t` or `\u{1f}`"#]],
    );
    fails(
        "10 attach e0 name=\"a\" weight=0 class=normal",
        &expect!["line 3, column 30: `0` is not a weight; help: use a number from 0.25 to 67108864 in steps of 0.25"],
    );
    fails(
        "10 attach e0 name=\"a\" weight=1 class=fifo:100 cpus=all",
        &expect![
            "line 3, column 38: `fifo:100` is not a class; help: use `normal`, `batch`, `idle`, `iso`, `stop`, `fifo:1` to `fifo:99` or `rr:1` to `rr:99`"
        ],
    );
    fails(
        "10 held e0 reasons=parked+tired",
        &expect![[
            r#"line 3, column 27: `tired` is not known here; help: use `none`, or some of throttled, parked, depleted, co-stopped joined by `+`"#
        ]],
    );
}

#[test]
fn a_file_that_is_no_trace_is_refused() {
    let error = |bytes: &[u8]| text::read(bytes).unwrap_err().to_string();
    expect![[r#"line 1, column 1: there is no header; help: write `tactus-trace 1 policy="…" cpus=… seed=…`"#]]
        .assert_eq(&error(b""));
    expect!["line 1, column 14: version 2 of the format is not known; help: use version 1"]
        .assert_eq(&error(b"tactus-trace 2 policy=\"x\" cpus=1 seed=0\n"));
    expect![[r#"line 1, column 1: this is not a trace; help: write `tactus-trace 1 policy="…" cpus=… seed=…`"#]]
        .assert_eq(&error(b"{\"traceEvents\": []}\n"));
    expect!["line 1, column 4: a byte that is not UTF-8; help: use UTF-8"].assert_eq(&error(b"tac\xff\n"));
    expect!["line 1, column 1: a machine without CPUs; help: use `cpus=1` to `cpus=1024`"]
        .assert_eq(&error(b"tactus-trace 1 policy=\"x\" cpus=0 seed=0\n"));
    let cut = GOLDEN.trim_end();
    expect!["line 27, column 20: the last line is cut off; help: end the file with a line feed"]
        .assert_eq(&error(cut.as_bytes()));
    let endless = vec![b'x'; 1 << 20];
    expect!["line 1, column 65538: the line is too long; help: use at most 65536 bytes"].assert_eq(&error(&endless));
}

/// A damaged file is read or refused, without a panic. A trace that is read can be written and read again.
#[test]
fn damaged_files_never_panic() {
    let mut refused = 0;
    for seed in 0..3000 {
        let mut random = Random::new(seed);
        let trace = events::trace(&mut random, 8);
        let mut bytes = written(&trace).into_bytes();
        for _ in 0..=random.below(3) {
            damage(&mut random, &mut bytes);
        }
        match text::read(bytes.as_slice()) {
            Ok(trace) => drop(text::read(written(&trace).as_bytes()).unwrap()),
            Err(TextError::Wrong { reason, help, .. }) => {
                assert!(!reason.is_empty() && !help.is_empty(), "seed {seed}");
                refused += 1;
            }
            Err(TextError::Read { .. }) => panic!("seed {seed}: memory can be read"),
        }
    }
    assert!(refused > 1000, "the damage must be noticed often, not {refused} times");
}

fn damage(random: &mut Random, bytes: &mut Vec<u8>) {
    const PARTS: [&[u8]; 12] = [
        b"",
        b" ",
        b"\n",
        b"\"",
        b"\\u{",
        b"\\u{d800}",
        b"=",
        b"99999999999999999999999",
        b"-1",
        b"\xff\xfe",
        b".5",
        b"\xe2\x82",
    ];
    if bytes.is_empty() {
        return;
    }
    let at = random.index(bytes.len());
    let end = (at + random.index(12)).min(bytes.len());
    match random.below(4) {
        0 => bytes.truncate(at),
        1 => drop(bytes.splice(at..end, random.pick(&PARTS).iter().copied())),
        2 => bytes[at] = u8::try_from(random.below(256)).unwrap(),
        _ => {
            let copied = bytes[at..end].to_vec();
            let to = random.index(bytes.len());
            bytes.splice(to..to, copied);
        }
    }
}

/// A writer that accepts `room` bytes and then fails.
struct Full {
    room: usize,
    fails: usize,
}

impl Write for Full {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.room == 0 {
            self.fails += 1;
            return Err(io::Error::new(io::ErrorKind::StorageFull, format!("failure {}", self.fails)));
        }
        let taken = bytes.len().min(self.room);
        self.room -= taken;
        Ok(taken)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn the_first_error_of_the_writer_is_kept_for_the_end() {
    let trace = events::trace(&mut Random::new(3), 3000);
    let length = written(&trace).len();
    assert!(length > 1 << 17, "it must not fit in one buffer");
    for room in [0, 10, 100_000, length - 1] {
        let mut writer = TextWriter::new(Full { room, fails: 0 }, &trace.header);
        trace.show(&mut writer);
        let error = writer.finish().map(drop).unwrap_err();
        assert_eq!((error.kind(), error.to_string()), (io::ErrorKind::StorageFull, "failure 1".into()));
    }
}

#[test]
fn what_the_format_cannot_hold_is_an_error_and_not_a_broken_file() {
    let header = Header { policy: "x".into(), cpus: 1, seed: 0 };
    let mut writer = TextWriter::new(Vec::new(), &header);
    writer.record(sched::Instant::at_ns(5), &Event::End);
    writer.record(sched::Instant::at_ns(4), &Event::End);
    expect!["an event at 4ns after one at 5ns; help: record events in order of time"]
        .assert_eq(&writer.finish().unwrap_err().to_string());

    let writer = TextWriter::new(Vec::new(), &Header { policy: "x".repeat(1 << 16), ..header.clone() });
    expect!["a line of 65575 bytes; help: use a shorter name"].assert_eq(&writer.finish().unwrap_err().to_string());

    let writer = TextWriter::new(Vec::new(), &Header { cpus: 1025, ..header });
    expect!["a machine of 1025 CPUs; help: use 1 to 1024"].assert_eq(&writer.finish().unwrap_err().to_string());
}
