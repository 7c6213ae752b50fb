//! Conversion of the threads of a file to the tasks of an application.

use super::asked::{Policy, Standing};
use super::event::Event;
use super::file::{File, Phase, Thread};
use super::forks::Forks;
use super::groups::Groups;
use super::waits::parties;
use input::problem::{Findings, Problem};
use input::source::Placed;
use sched::Params;
use sim::program::{Length, ObjectId};
use sim::{Application, Object, Step, TaskSpec};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Maximum number of timers of one thread.
const TIMERS_MAX: usize = 16;

/// Maximum number of events of all threads together. Each instance of a thread has its own copy of the steps.
const STEPS_MAX: u64 = 1 << 22;

/// The types of objects that events name. Each type has its own namespace.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Mutex,
    Condition,
    Barrier,
}

/// The task for a thread of the file.
struct Made {
    params: Params,
    steps: Vec<Step>,
}

/// Returns the application that `file` describes, and all requests of its threads to the scheduler. `forks`: the forks
/// between the threads.
pub(super) fn application(
    file: &File<'_>,
    forks: &Forks,
    findings: &mut Findings,
) -> (Application, Vec<(String, Params)>) {
    let mut making = Making {
        // If all threads wait for each other, rt-app, too, waits until its duration is over.
        application: Application { may_stall: file.duration.is_some(), ..Application::default() },
        groups: Groups::default(),
        objects: BTreeMap::new(),
        parties: parties(&file.threads, forks),
        forked: BTreeMap::new(),
        asked: Vec::new(),
    };
    let mut made: Vec<Option<Made>> = file.threads.iter().map(|_| None).collect();
    // Children precede the threads that fork them.
    for &i in &forks.order {
        let thread = &file.threads[i];
        let Some(made_of) = making.thread(thread, file.policy, findings) else { continue };
        if forks.forked[i] {
            let spec = TaskSpec {
                name: thread.name.to_string(),
                params: made_of.params,
                delay: Length::Fixed(thread.delay),
                steps: made_of.steps.clone(),
            };
            making.forked.insert(thread.name.to_string(), Arc::new(spec));
        }
        made[i] = Some(made_of);
    }
    let (mut application, asked) = (making.application, making.asked);
    application.groups = making.groups.groups;
    if !findings.is_empty() {
        return (application, asked);
    }
    let mut all: u64 = 0;
    for (thread, made) in file.threads.iter().zip(made) {
        let Some(Made { params, steps }) = made else { continue };
        all = all.saturating_add(thread.instances.value.saturating_mul(thread.events() as u64));
        if all > STEPS_MAX {
            let problem =
                Problem::new("the threads have too many events").at(thread.instances.at, "too many from here on");
            findings.add(problem.help(format!("use at most {STEPS_MAX}: instances times events, of all threads")));
            return (application, asked);
        }
        let count = thread.instances.value;
        for instance in 0..count {
            let name = if count == 1 { thread.name.to_string() } else { format!("{}-{instance}", thread.name) };
            let delay = Length::Fixed(thread.delay);
            application.tasks.push(TaskSpec { name, params, delay, steps: steps.clone() });
        }
    }
    (application, asked)
}

struct Making {
    application: Application,
    groups: Groups,
    objects: BTreeMap<(Kind, String), ObjectId>,
    /// Number of threads that each barrier waits for.
    parties: BTreeMap<String, u64>,
    forked: BTreeMap<String, Arc<TaskSpec>>,
    /// All requests of the threads.
    asked: Vec<(String, Params)>,
}

impl Making {
    fn object(&mut self, kind: Kind, name: &str) -> ObjectId {
        if let Some(&id) = self.objects.get(&(kind, name.to_string())) {
            return id;
        }
        let object = match kind {
            Kind::Mutex => Object::Mutex,
            Kind::Condition => Object::Condition,
            Kind::Barrier => {
                let parties = self.parties.get(name).copied().unwrap_or(1);
                Object::Barrier { parties: u32::try_from(parties).unwrap_or(u32::MAX) }
            }
        };
        let id = self.application.share(name, object);
        self.objects.insert((kind, name.to_string()), id);
        id
    }

    /// Returns the task of a thread. `None`: a request is impossible, and `findings` contains the problem.
    fn thread(&mut self, thread: &Thread<'_>, default: Policy, findings: &mut Findings) -> Option<Made> {
        let begin = Standing::new(default, thread.asked);
        let params = begin.params().map_err(|problem| findings.add(problem)).ok()?;
        let mut timers = Vec::new();
        self.asked.push((thread.name.to_string(), params));
        // The requests of the phases in the first round, and in later rounds. They may differ, because a property that
        // a phase omits keeps its value.
        let (first, after) = asks(thread, begin, params, findings)?;
        let (later, _) = asks(thread, after.0, after.1, findings)?;
        self.asked.extend(first.iter().chain(&later).flatten().map(|&params| (thread.name.to_string(), params)));
        let enters = self.enter(thread.group, findings)?;
        let mut round = |asks: &[Option<Params>]| {
            let mut steps = Vec::new();
            for (phase, ask) in thread.phases.iter().zip(asks) {
                steps.extend(self.enter(phase.group, findings)?);
                steps.extend(ask.map(|params| Step::Ask(Box::new(params))));
                let body = self.phase(phase, &mut timers, findings)?;
                match phase.rounds {
                    Some(1) => steps.extend(body),
                    times => steps.push(Step::Repeat { times, body }),
                }
            }
            Some(steps)
        };
        let steps = match (thread.rounds, first == later) {
            (Some(0), _) => Vec::new(),
            (Some(1), _) => round(&first)?,
            (times, true) => vec![Step::Repeat { times, body: round(&first)? }],
            (times, false) => {
                let mut steps = round(&first)?;
                steps.push(Step::Repeat { times: times.map(|times| times - 1), body: round(&later)? });
                steps
            }
        };
        Some(Made { params, steps: enters.into_iter().chain(steps).collect() })
    }

    /// Returns the step that enters the group at `path`, if `path` is given. `None`: the file names too many groups,
    /// and `findings` contains the problem.
    fn enter(&mut self, path: Option<Placed<&str>>, findings: &mut Findings) -> Option<Option<Step>> {
        let Some(Placed { value: path, at }) = path else { return Some(None) };
        let place = self.groups.place(path, at).map_err(|problem| findings.add(problem)).ok()?;
        Some(Some(Step::EnterGroup(place)))
    }

    fn phase<'f>(
        &mut self,
        phase: &Phase<'f>,
        timers: &mut Vec<&'f str>,
        findings: &mut Findings,
    ) -> Option<Vec<Step>> {
        let mut steps = Vec::with_capacity(phase.events.len());
        for &(event, at) in &phase.events {
            if let Event::Timer { name, period, mode } = event {
                // A timer with a period of zero has expired before the thread can wait for it.
                if period.is_zero() {
                    continue;
                }
                let number = timers.iter().position(|known| *known == name).unwrap_or_else(|| {
                    timers.push(name);
                    timers.len() - 1
                });
                if number >= TIMERS_MAX {
                    let problem =
                        Problem::new("the thread has too many timers").at(at, format!("number {}", number + 1));
                    findings.add(problem.help(format!("use at most {TIMERS_MAX} different `ref`s in a thread")));
                    return None;
                }
                let timer = u8::try_from(number).expect("timers are few");
                steps.push(Step::Timer { timer, period, mode });
                continue;
            }
            self.event(event, &mut steps);
        }
        Some(steps)
    }

    fn event(&mut self, event: Event<'_>, steps: &mut Vec<Step>) {
        match event {
            Event::Run(time) if time.is_zero() => {}
            Event::Sleep(time) if time.is_zero() => {}
            Event::Timer { .. } => {}
            Event::Run(time) => steps.push(Step::Run(time.into())),
            Event::Sleep(time) => steps.push(Step::Sleep(time.into())),
            Event::Lock(name) => steps.push(Step::Lock(self.object(Kind::Mutex, name))),
            Event::Unlock(name) => steps.push(Step::Unlock(self.object(Kind::Mutex, name))),
            Event::Wait { condition, mutex } => steps.push(self.wait(condition, mutex)),
            Event::Signal(name) => steps.push(Step::Signal(self.object(Kind::Condition, name))),
            Event::Broadcast(name) => steps.push(Step::Broadcast(self.object(Kind::Condition, name))),
            Event::Sync { condition, mutex, locks } => {
                let lock = self.object(Kind::Mutex, mutex);
                steps.extend(locks.then_some(Step::Lock(lock)));
                steps.push(Step::Signal(self.object(Kind::Condition, condition)));
                steps.push(self.wait(condition, mutex));
                steps.extend(locks.then_some(Step::Unlock(lock)));
            }
            // The event uses a condition and a mutex, both with the name `name`. Source: run_event, rt-app.c, 1.0.
            Event::Suspend(name) => {
                let lock = self.object(Kind::Mutex, name);
                steps.extend([Step::Lock(lock), self.wait(name, name), Step::Unlock(lock)]);
            }
            Event::Resume(name) => {
                let (lock, condition) = (self.object(Kind::Mutex, name), self.object(Kind::Condition, name));
                steps.extend([Step::Lock(lock), Step::Broadcast(condition), Step::Unlock(lock)]);
            }
            Event::Barrier(name) => steps.push(Step::Barrier(self.object(Kind::Barrier, name))),
            Event::Yield => steps.push(Step::Yield),
            // The task is missing only if its thread had a problem, which is reported.
            Event::Fork(name) => steps.extend(self.forked.get(name).cloned().map(Step::Fork)),
        }
    }

    fn wait(&mut self, condition: &str, mutex: &str) -> Step {
        Step::Wait { condition: self.object(Kind::Condition, condition), mutex: self.object(Kind::Mutex, mutex) }
    }
}

type Asks = (Vec<Option<Params>>, (Standing, Params));

/// Returns the requests of `thread` at the start of each phase, and the thread's requests after the last phase.
/// `standing` and `params` are the requests before the first phase.
fn asks(thread: &Thread<'_>, mut standing: Standing, mut params: Params, findings: &mut Findings) -> Option<Asks> {
    let mut asks = Vec::with_capacity(thread.phases.len());
    for phase in &thread.phases {
        standing = standing.next(&thread.asked, &phase.asked);
        let next = standing.params().map_err(|problem| findings.add(problem)).ok()?;
        asks.push((next != params).then_some(next));
        params = next;
    }
    Some((asks, (standing, params)))
}
