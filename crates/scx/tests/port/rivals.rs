//! Broken ports: each breaks one rule by a change of the source, and the checks that it names catch it. Some are bugs that the
//! port had until these checks found them.

use crate::decisions;
use crate::program::{Program, Rival, SCX_EDF};
use fuzz::Options;

/// Maximum number of seeds until a check catches a rival.
const SEEDS_MOST: u64 = 100;
/// Number of steps of a comparison.
const STEPS: u32 = 400;

/// A broken port, and a part of the message of each check that catches it.
struct Case {
    rival: Rival,
    /// The laws of the machine and the auditor.
    law: Option<&'static str>,
    /// The comparison with the Rust policy.
    decision: Option<&'static str>,
}

static CASES: [Case; 13] = [
    Case {
        rival: Rival {
            name: "the latest deadline first",
            file: "edf.bpf.c",
            from: "turn_of(promise), key, flags);",
            to: "turn_of(promise), ~key, flags);",
        },
        law: None,
        decision: Some("with a slice"),
    },
    Case {
        rival: Rival {
            name: "no idle CPU is kicked for an enqueued thread",
            file: "fair.h",
            from: "idle = scx_bpf_pick_idle_cpu(p->cpus_ptr, 0);",
            to: "idle = -1;",
        },
        // The laws catch it, too, after a minute.
        law: None,
        decision: Some("waits, and"),
    },
    Case {
        rival: Rival {
            name: "the others are not dispatched",
            file: "edf.bpf.c",
            from: "		fair_dispatch(cpu, prev, member);\n",
            to: "		if (cpu < 0)\n			fair_dispatch(cpu, prev, member);\n",
        },
        law: Some("law 11"),
        decision: Some("waits, and"),
    },
    Case {
        rival: Rival {
            name: "a promised thread that wakes does not preempt",
            file: "edf.bpf.c",
            from: "			scx_bpf_kick_cpu(promise->cpu, SCX_KICK_PREEMPT);\n	} else if (promise && promise->account.state",
            to: "			;\n	} else if (promise && promise->account.state",
        },
        law: None,
        decision: Some("with a slice"),
    },
    Case {
        rival: Rival {
            name: "slices do not end",
            file: "edf.bpf.c",
            from: "	bpf_timer_start(&cpu->slice, left, BPF_F_TIMER_CPU_PIN);\n",
            to: "",
        },
        law: None,
        decision: Some("with a slice"),
    },
    Case {
        rival: Rival {
            name: "a hard limit is not kept",
            file: "edf.h",
            from: "a->state = a->is_hard ? EDF_DEPLETED : EDF_BACKGROUND;",
            to: "a->state = EDF_BACKGROUND;",
        },
        law: None,
        decision: Some("is held"),
    },
    Case {
        rival: Rival {
            name: "a yield keeps the slice",
            file: "edf.bpf.c",
            from: "edf_stop(&promise->account, promise->count == 1);",
            to: "edf_stop(&promise->account, false);",
        },
        law: None,
        decision: Some("by the Rust policy"),
    },
    Case {
        rival: Rival {
            name: "a directed yield gives up the slice (until this check)",
            file: "edf.bpf.c",
            from: "	if (to)\n		return false;\n",
            to: "",
        },
        law: None,
        decision: Some("with a slice"),
    },
    Case {
        rival: Rival {
            name: "a new nice value begins a new period (until this check)",
            file: "edf.bpf.c",
            from: "if (!promise || !thread || !(flags & SCX_DEQ_SLEEP))",
            to: "if (!promise || !thread)",
        },
        law: None,
        decision: Some("by the Rust policy"),
    },
    Case {
        rival: Rival {
            name: "a thread that is late keeps its old deadline (until this check)",
            file: "periods.h",
            from: "			move_to_ready(p, thread, promise, READY + promise->cpu);\n",
            to: "			;\n",
        },
        law: None,
        decision: Some("with a slice"),
    },
    Case {
        rival: Rival {
            name: "the timer begins no period",
            file: "periods.h",
            from: "	if (promise->runnable <= 0)\n		return 0;\n	if (renew",
            to: "	if (promise->runnable >= 0)\n		return 0;\n	if (renew",
        },
        law: None,
        decision: Some("with a slice"),
    },
    Case {
        rival: Rival {
            name: "a period begins 4 ms late",
            file: "periods.h",
            from: "	next = promise->account.deadline;\n	if (again",
            to: "	next = promise->account.deadline + 4000000;\n	if (again",
        },
        law: None,
        decision: Some("with a slice"),
    },
    Case {
        rival: Rival {
            name: "a thread waits for a CPU that another one has taken (until this check)",
            file: "edf.bpf.c",
            from: "	if (!prev)\n		wake_for_others();\n",
            to: "	if (0)\n		wake_for_others();\n",
        },
        law: None,
        decision: Some("waits, and"),
    },
];

/// Broken gangs, and a part of the message of the comparison that catches each.
static GANGS: [(Rival, &str); 4] = [
    (
        Rival {
            name: "the periods of a gang follow wake-ups",
            file: "edf.h",
            from: "if (!a->is_fixed && (now >= a->deadline || is_over))",
            to: "if (now >= a->deadline || is_over)",
        },
        "by the Rust policy",
    ),
    (
        Rival {
            name: "a sibling that wakes late has its whole slice",
            file: "edf.h",
            from: "		edf_shorten(a, ahead, now);\n",
            to: "		;\n",
        },
        "by the Rust policy",
    ),
    (
        Rival {
            name: "a later sibling has a phase of its own",
            file: "gang.h",
            from: "*start = edf_period_from(&sibling->account, now);",
            to: "*start = now;",
        },
        "by the Rust policy",
    ),
    (
        Rival {
            name: "of equal deadlines, that of the thread that came first wins (until this check)",
            file: "promise.h",
            from: "u64 number = (u64)(u32)thread->promise << 1 & ((1 << KEY_SHIFT) - 1);",
            to: "u64 number = 0;",
        },
        "with a slice",
    ),
];

/// Returns the broken port of this name.
pub(crate) fn named(name: &str) -> &'static Rival {
    let all = CASES.iter().map(|case| &case.rival).chain(GANGS.iter().map(|(rival, _)| rival));
    all.into_iter().find(|rival| rival.name.starts_with(name)).unwrap_or_else(|| panic!("there is no rival {name}"))
}

fn broken_law(seed: u64) -> Option<String> {
    let options = Options::draw(&SCX_EDF, seed);
    fuzz::check(&options).err().map(|failure| failure.to_string())
}

/// Asserts that a check catches a rival, for the expected reason.
fn find(rival: &Rival, check: &str, expected: &str, broken: impl Fn(u64) -> Option<String>) {
    let message = (0..SEEDS_MOST).find_map(broken).unwrap_or_else(|| panic!("{}: {check} keep silent", rival.name));
    assert!(message.contains(expected), "{}: {check} catch it for another reason: {message}", rival.name);
    println!("{}: {check}: {}", rival.name, message.lines().nth(1).unwrap_or_default());
}

#[test]
fn every_broken_port_is_caught() {
    for Case { rival, law, decision } in &CASES {
        let Some(program) = Program::edf(Some(rival)) else { return };
        program.select();
        if let Some(expected) = law {
            find(rival, "the laws", expected, broken_law);
        }
        if let Some(expected) = decision {
            find(rival, "the comparison", expected, |seed| decisions::compare(&program, &port::EDF, seed, STEPS).err());
        }
    }
}

#[test]
fn every_broken_gang_is_caught() {
    for (rival, expected) in &GANGS {
        let Some(program) = Program::edf(Some(rival)) else { return };
        find(rival, "the comparison", expected, |seed| {
            decisions::compare(&program, &port::GANG_EDF, seed, STEPS).err()
        });
    }
}
