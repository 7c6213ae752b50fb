//! The members of a machine: creates and adjusts groups; attaches, adjusts and detaches entities; starts and stops
//! applications.

use crate::cpus::Task;
use crate::driver::Driver;
use crate::program::{Application, ApplicationState};
use crate::workload::{Progress, Workload};
use sched::{EntityId, GroupId, GroupParams, Nanos, Params, Refused, State, Wake};
use trace::{Event, Request};

impl Driver<'_> {
    /// Creates a group.
    ///
    /// # Errors
    /// The policy refuses the group.
    pub fn create_group(&mut self, name: &str, params: GroupParams, parent: GroupId) -> Result<GroupId, Refused> {
        self.unsettled = true;
        let created = self.machine.create_group(self.cpus.now, params, parent);
        let name = || name.to_string();
        self.show(|| match created {
            Ok(group) => Event::GroupCreated { group, name: name(), parent, params: Box::new(params) },
            Err(_) => Event::Refused(Box::new(Request::CreateGroup { name: name(), parent, params })),
        });
        created
    }

    /// Changes the parameters of a group.
    ///
    /// # Errors
    /// The policy refuses the parameters; nothing has changed.
    pub fn adjust_group(&mut self, group: GroupId, params: GroupParams) -> Result<(), Refused> {
        self.unsettled = true;
        let adjusted = self.machine.adjust_group(self.cpus.now, group, params);
        self.show(|| match adjusted {
            Ok(()) => Event::GroupAdjusted { group, params: Box::new(params) },
            Err(_) => Event::Refused(Box::new(Request::AdjustGroup { group, params })),
        });
        adjusted
    }

    /// Adds an entity and starts its workload. Use [`start`](Driver::start) for programs.
    ///
    /// # Errors
    /// The policy refuses the entity; nothing has changed.
    pub fn attach(&mut self, name: &str, params: Params, workload: Workload) -> Result<EntityId, Refused> {
        let entity = self.attach_blocked(name, params, workload)?;
        match workload {
            Workload::Hog => self.wake(entity, Wake::New { parent: None }),
            Workload::Periodic(jobs) => {
                let first = self.cpus.now + jobs.phase;
                self.set_start(entity, first);
            }
            Workload::Scripted | Workload::Vcpu | Workload::Program => {}
        }
        Ok(entity)
    }

    pub(crate) fn attach_blocked(
        &mut self,
        name: &str,
        params: Params,
        workload: Workload,
    ) -> Result<EntityId, Refused> {
        self.unsettled = true;
        let attached = self.machine.attach(self.cpus.now, params);
        let name = || name.to_string();
        self.show(|| match attached {
            Ok(entity) => Event::Attach { entity, name: name(), params: Box::new(params) },
            Err(_) => Event::Refused(Box::new(Request::Attach { name: name(), params })),
        });
        let entity = attached?;
        if self.cpus.tasks.len() <= entity.index() {
            self.cpus.tasks.resize(entity.index() + 1, None);
            self.cpus.releases.reserve(self.cpus.tasks.len());
        }
        let switch = self.cpus.costs.context_switch;
        let progress = Progress::new(workload);
        let task = Task { id: entity, progress, last_cpu: None, has_slack: false, switch };
        self.cpus.tasks[entity.index()] = Some(task);
        Ok(entity)
    }

    /// Starts the tasks of an application, all in `group`. Returns the number of the application and its tasks.
    ///
    /// # Errors
    /// The policy refuses a task or a group. In this case, no task of the application remains.
    pub fn start(&mut self, application: &Application, group: GroupId) -> Result<(u32, Vec<EntityId>), Refused> {
        let mut groups = vec![group];
        for spec in &application.groups {
            let parent = spec.parent.map_or(group, |parent| groups[parent + 1]);
            groups.push(self.create_group(&spec.name, GroupParams::default(), parent)?);
        }
        let tasks = &mut self.tasks;
        let base = u32::try_from(tasks.objects.len()).expect("a machine has fewer than 2^32 objects");
        tasks.share(&application.objects);
        let application_number =
            u32::try_from(tasks.applications.len()).expect("a machine has fewer than 2^32 applications");
        let may_stall = application.may_stall;
        let state = ApplicationState { base, groups, may_stall, ..Default::default() };
        tasks.applications.push(state);
        let mut all = Vec::with_capacity(application.tasks.len());
        for task in &application.tasks {
            let code = self.tasks.library.add(&task.steps, base);
            let params = Params { group, ..task.params };
            match self.begin_task(&task.name, params, code, task.delay, application_number, None) {
                Ok(entity) => all.push(entity),
                Err(refused) => {
                    // Without the missing task, the other tasks might wait forever.
                    self.stop(application_number);
                    return Err(refused);
                }
            }
        }
        Ok((application_number, all))
    }

    /// Ends the tasks of an application and all their children, even tasks that hold locks.
    pub fn stop(&mut self, application: u32) {
        self.stop_but(application, None);
    }

    /// Removes all tasks of an application except `stays`.
    pub(crate) fn stop_but(&mut self, application: u32, stays: Option<EntityId>) {
        self.tasks.applications[application as usize].is_over = true;
        let mine = |entity: &Option<Task>| {
            let task = entity.as_ref()?;
            let state = self.tasks.states.get(task.id.index())?.as_ref()?;
            (state.application == application && Some(task.id) != stays).then_some(task.id)
        };
        let all: Vec<EntityId> = self.cpus.tasks.iter().filter_map(mine).collect();
        all.into_iter().for_each(|task| self.dismiss(task));
    }

    /// Removes an entity in any state.
    pub fn detach(&mut self, entity: EntityId) {
        self.unsettled = true;
        let late = self.cpus.tasks[entity.index()].as_ref().map_or(0, |task| self.late_jobs(task));
        self.cpus.counts.unfinished_late += late;
        if self.tasks.follows(entity) {
            self.leave_application(entity);
        }
        if let State::Running(cpu) = self.machine.state(entity) {
            self.cpus.ends.clear(cpu.index());
        }
        self.machine.detach(self.cpus.now, entity);
        self.show(|| Event::Detach { entity });
        self.cpus.releases.clear(entity.index());
        self.cpus.tasks[entity.index()] = None;
    }

    /// Sets the time that a CPU needs to switch to `entity`, in place of the machine's cost. For example, the working
    /// set of a driver domain is larger than the working set of a small guest.
    pub fn set_switch(&mut self, entity: EntityId, time: Nanos) {
        self.cpus.task(entity).switch = time;
    }

    /// Changes the parameters of an entity.
    ///
    /// # Errors
    /// The policy refuses the parameters; nothing has changed.
    pub fn adjust(&mut self, entity: EntityId, params: Params) -> Result<(), Refused> {
        self.unsettled = true;
        let adjusted = self.machine.adjust(self.cpus.now, entity, params);
        self.show(|| match adjusted {
            Ok(()) => Event::Adjust { entity, params: Box::new(params) },
            Err(_) => Event::Refused(Box::new(Request::Adjust { entity, params })),
        });
        adjusted
    }
}
