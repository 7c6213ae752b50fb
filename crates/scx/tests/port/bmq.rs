//! The decisions of the port of `bmq` against those of the Rust policy, on the same random trace: which thread runs on which CPU.
//! Both machines receive the same wake-ups, sleeps, yields and changes at the same instants, some of them late, and each its own
//! alarms and ends of slices. Each thread may run on one CPU, because the kernel selects CPUs by rules of its own.

use crate::program::{Program, Rival, SCX_BMQ, only_seed, seeds};
use crate::side::{Side, message, next_instant, without_panic};
use fuzz::Dice;
use sched::{Class, CpuId, CpuSet, EntityId, Input, Instant, Params, State, Topology, Wake, Weight};
use std::fmt::Write as _;

/// Number of seeds, of steps of each, and of seeds until a broken port is caught.
const SEEDS: u64 = 16;
const STEPS: u32 = 400;
const SEEDS_MOST: u64 = 20;

/// Both machines on one trace.
struct Pair {
    rust: Side,
    port: Side,
    threads: Vec<EntityId>,
    now: Instant,
    log: String,
    /// Number of switches that were compared.
    switches: u64,
    ran: Vec<Option<EntityId>>,
}

impl Pair {
    fn new(program: &Program, dice: &mut Dice) -> Pair {
        let host = Topology::new(dice.choose(&[1, 1, 2, 4]).expect("there is one"));
        let policy = policies::find(port::BMQ.name).expect("it is registered");
        let knobs = port::BMQ.policy_knobs().expect("the policy has these knobs");
        let rust = (policy.build)(&host, &knobs).expect("it schedules this host");
        let rust = Side::new(rust, policy.alarms, host);
        let port = Side::new(Box::new(program.policy(&port::BMQ, &host)), SCX_BMQ.alarms, host);
        let (now, log, ran) = (Instant::ZERO, String::new(), vec![None; host.cpus]);
        let mut pair = Pair { rust, port, threads: Vec::new(), now, log, switches: 0, ran };
        for _ in 0..2 + dice.below(3 * host.cpus as u64) {
            let cpu = CpuId::new(dice.below(host.cpus as u64) as usize);
            let entity = pair.attach(cpu, dice);
            // The sleep before the first wake-up does not count for the port.
            pair.input(entity, Input::Wake { entity, why: Wake::Interrupt });
        }
        pair.both(Side::settle);
        pair
    }

    /// Attaches a thread that may run on `cpu`.
    fn attach(&mut self, cpu: CpuId, dice: &mut Dice) -> EntityId {
        let class = dice.choose(&[Class::Normal, Class::Normal, Class::Batch, Class::Idle]).expect("there is one");
        let params = Params { affinity: CpuSet::one(cpu), class, weight: weight(dice), ..Params::default() };
        let both = [&mut self.rust, &mut self.port].map(|side| side.machine.attach(self.now, params));
        let _ = writeln!(self.log, "{} attach {both:?} on {cpu:?}, {class:?}", self.now);
        let [Ok(rust), Ok(port)] = both else { panic!("one of the policies refuses {params:?}: {both:?}") };
        assert_eq!(rust, port, "both machines have the same entities");
        self.threads.push(rust);
        rust
    }

    fn input(&mut self, entity: EntityId, input: Input) {
        let _ = writeln!(self.log, "{} {entity} {input:?}", self.now);
        self.rust.machine.input(self.now, input);
        self.port.machine.input(self.now, input);
    }

    /// Reports a random event of a random thread. A thread that waits does not sleep: only a running thread calls the kernel.
    fn event(&mut self, dice: &mut Dice) {
        let entity = dice.choose(&self.threads).expect("there is one");
        match (self.port.machine.state(entity), dice.below(8)) {
            (State::Blocked, _) => {
                let why = dice.choose(&[Wake::Interrupt, Wake::Timer]).expect("there is one");
                self.input(entity, Input::Wake { entity, why });
            }
            (State::Running(_), 0..=2) => self.input(entity, Input::Pause { entity }),
            (State::Running(cpu), 3) => self.input(entity, Input::Yield { cpu }),
            (State::Running(cpu), 5) if self.threads.len() < 5 * self.ran.len() => {
                let (parent, entity) = (Some(entity), self.attach(cpu, dice));
                self.input(entity, Input::Wake { entity, why: Wake::New { parent } });
            }
            (_, 4) => {
                let params = Params { weight: weight(dice), ..*self.rust.machine.params(entity) };
                let _ = writeln!(self.log, "{} {entity} weight {}", self.now, params.weight);
                let both = [&mut self.rust, &mut self.port].map(|side| side.machine.adjust(self.now, entity, params));
                assert_eq!(both, [Ok(()), Ok(())], "a weight is never refused");
            }
            _ => {}
        }
    }

    fn both(&mut self, call: impl Fn(&mut Side, Instant)) {
        call(&mut self.rust, self.now);
        call(&mut self.port, self.now);
    }

    fn check(&mut self) -> Result<(), String> {
        for cpu in self.rust.machine.topology().iter() {
            let (rust, port) = (self.rust.machine.running(cpu), self.port.machine.running(cpu));
            if rust != port {
                return Err(format!(
                    "at {}, {cpu:?} runs {port:?}, and {rust:?} by the Rust policy until {}:{}",
                    self.now,
                    self.rust.machine.until(cpu),
                    self.states()
                ));
            }
            if std::mem::replace(&mut self.ran[cpu.index()], rust) != rust {
                self.switches += 1;
            }
        }
        Ok(())
    }

    /// Returns what the Rust policy keeps of each thread, for the message of a failure.
    fn states(&self) -> String {
        let mut text = String::new();
        for &e in &self.threads {
            let _ = write!(text, "\n{e}: {:?}", self.rust.machine.state(e));
            self.rust.machine.inspect_all(e, &mut |name, value| text += &format!(" {name} {value}"));
        }
        text
    }

    fn run(&mut self, dice: &mut Dice) -> Result<u64, String> {
        let is_late = dice.one_in(2);
        for _ in 0..STEPS {
            self.now = next_instant([&self.rust, &self.port], self.now, is_late, dice);
            let _ = writeln!(self.log, "{} deliver", self.now);
            self.both(Side::deliver);
            self.check()?;
            for _ in 0..dice.below(3) {
                self.event(dice);
            }
            self.both(Side::settle);
            self.check()?;
        }
        Ok(self.switches)
    }
}

fn weight(dice: &mut Dice) -> Weight {
    dice.choose(&[88761, 3121, 1024, 1024, 335, 15]).and_then(Weight::linux).expect("it is a weight")
}

/// Compares the policies on the trace of a seed. Returns the number of compared switches, or the first difference.
fn compare(program: &Program, seed: u64) -> Result<u64, String> {
    let mut dice = Dice::new(seed);
    let mut pair = Pair::new(program, &mut dice);
    let outcome = without_panic(|| pair.run(&mut dice));
    outcome.map_err(|what| message(port::BMQ.name, seed, &what, &pair.log))
}

#[test]
fn the_decisions_of_bmq_are_those_of_the_rust_policy() {
    let Some(program) = Program::bmq(None) else { return };
    let (only, mut switches) = (only_seed(), 0);
    for seed in only.map_or(0..seeds(SEEDS), |seed| seed..seed + 1) {
        switches += compare(&program, seed).unwrap_or_else(|difference| panic!("{difference}"));
    }
    println!("{switches} switches are equal");
    assert!(only.is_some() || switches > 1_500, "{switches} switches say little");
}

/// Broken ports.
const RIVALS: [Rival; 7] = [
    Rival {
        name: "the worst level first",
        file: "bmq_queue.h",
        from: "return level << LEVEL_SHIFT |",
        to: "return (127 - level) << LEVEL_SHIFT |",
    },
    Rival {
        name: "a preempted thread goes last in its level",
        file: "bmq_queue.h",
        from: "	if (!bmq_check_slice(&settings, &thread->account, true))\n		return;\n",
        to: "	bmq_check_slice(&settings, &thread->account, true);\n",
    },
    Rival {
        name: "slices do not end",
        file: "bmq_queue.h",
        from: "	if (bpf_ktime_get_ns() >= cpu->ends) {",
        to: "	if (0) {",
    },
    Rival {
        name: "a used-up slice keeps the boost",
        file: "bmq.h",
        from: "	if (is_queued)\n		bmq_lower(with, a);\n",
        to: "",
    },
    Rival {
        name: "a short run does not improve the boost",
        file: "bmq.h",
        from: "		bmq_raise(with, a, 1);\n	else if",
        to: "		;\n	else if",
    },
    Rival { name: "a yield has no effect", file: "bmq.h", from: "	a->boost = with->yielded;\n", to: "" },
    Rival {
        name: "a running thread keeps its level after a new nice value (until this check)",
        file: "bmq.bpf.c",
        from: "	if (thread->home != at)\n		take_place(thread, cpu, at);\n	cpu->tid = p->pid;",
        to: "	cpu->tid = p->pid;",
    },
];

#[test]
fn every_broken_port_of_bmq_is_caught() {
    for rival in &RIVALS {
        let Some(program) = Program::bmq(Some(rival)) else { return };
        let caught = (0..SEEDS_MOST).find_map(|seed| compare(&program, seed).err());
        let message = caught.unwrap_or_else(|| panic!("{}: the comparison keeps silent", rival.name));
        assert!(message.contains("by the Rust policy"), "{}: for another reason: {message}", rival.name);
    }
}
