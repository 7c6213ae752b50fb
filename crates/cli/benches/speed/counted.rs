//! The instructions of the bare loop, the core and the commands, counted by callgrind and compared with
//! `benches/instructions.toml`. Neither other processes nor the clock rate affect these counts.

use crate::bare_loop;
use crate::command::{Inputs, SECONDS};
use crate::events::{CPUS, set_b, simulate};
use crate::instructions::{callgrind, has_callgrind};
use crate::record::{Counts, Record};
use sched::Nanos;
use std::process::Command;

const RECORD: &str = include_str!("../../../../benches/instructions.toml");

/// Counts all programs and prints the counts beside the record. Returns true if no program takes more instructions than
/// the record allows, or if callgrind is not available.
pub(crate) fn compare() -> bool {
    let record = Record::parse(RECORD).expect("the record is sound");
    if !has_callgrind() {
        return true;
    }
    println!("counted: instructions by callgrind; set B over {SECONDS} s");
    let Some(counts) = count() else {
        println!("  a program failed under callgrind");
        return false;
    };
    print!("{}", record.compare(&counts));
    record.exceeded(&counts).is_empty()
}

fn count() -> Option<Counts> {
    let inputs = Inputs::new();
    let alone = |what: &str, function: &str| {
        let mut counted = Command::new(std::env::current_exe().ok()?);
        callgrind(counted.args(["count", what]), Some(function))
    };
    Some(Counts {
        bare_loop: alone("bare-loop", "*bare_loop::run*")?,
        core: alone("core", "*events::simulate*")?,
        command: callgrind(&inputs.task_set(), None)?,
        two_levels: callgrind(&inputs.two_levels(), None)?,
    })
}

/// Executes one of the programs whose instructions callgrind counts: `count bare-loop` or `count core`.
pub(crate) fn run(what: &str) {
    let set = set_b();
    match what {
        "bare-loop" => {
            std::hint::black_box(bare_loop::run(&set, CPUS, SECONDS * 1_000_000_000));
        }
        "core" => {
            std::hint::black_box(simulate(&set, Nanos::s(SECONDS)));
        }
        _ => panic!("`{what}` is neither bare-loop nor core"),
    }
}
