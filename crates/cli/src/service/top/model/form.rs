//! [`Form`]: the values of one VM or of several, as the user changes them.

use super::super::requests::{Change, Outcome, Trouble, TroubleKind};
use super::field::{Field, Step, number, time};
use api::{CAP_MOST, Desired, Limit, Mechanism, Phase, Promise, Source, Vm, WEIGHT_MOST};
use sched::Nanos;

/// A value of the form.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) text: String,
    /// The value of the service. `None`: the VMs differ.
    pub(crate) former: Option<String>,
    is_edited: bool,
}

impl Entry {
    fn of(field: Field, vms: &[Vm]) -> Entry {
        let mut texts = vms.iter().map(|vm| field.text(&vm.desired));
        let first = texts.next().unwrap_or_default();
        let former = texts.all(|text| text == first).then_some(first);
        Entry { text: former.clone().unwrap_or_default(), former, is_edited: false }
    }

    /// Whether the value differs from that of the service.
    pub(crate) fn is_changed(&self) -> bool {
        self.is_edited && self.former.as_ref() != Some(&self.text)
    }

    /// Whether the VMs differ, and each of them keeps its own value.
    pub(crate) fn is_mixed(&self) -> bool {
        !self.is_edited && self.former.is_none()
    }
}

/// What the service says about the values of the form.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Verdict {
    /// The values are those of the service.
    Unchanged,
    /// A value cannot be read. The reason and the remedy.
    Wrong(String),
    /// The service is asked.
    Checking,
    /// All changes would be made.
    Accepted,
    /// Changes are refused: the names of the VMs with the reasons.
    Refused(Vec<(String, Trouble)>),
}

/// The values of one VM or of several, as the user changes them. Values that are not changed stay as each VM has them.
#[derive(Clone, Debug)]
pub(crate) struct Form {
    pub(crate) vms: Vec<Vm>,
    pub(crate) entries: [Entry; Field::ALL.len()],
    /// Index of the field that keys change.
    pub(crate) focus: usize,
    /// Whether the next letter replaces the value.
    is_fresh: bool,
    pub(crate) verdict: Verdict,
    /// Whether VMs were changed by other clients while the form was open.
    pub(crate) is_reloaded: bool,
    /// Number of the latest check.
    pub(crate) check: u64,
    /// Number of the request whose reply closes the form.
    pub(crate) applied: Option<u64>,
}

impl Form {
    pub(crate) fn new(vms: Vec<Vm>) -> Form {
        let entries = Field::ALL.map(|field| Entry::of(field, &vms));
        Form {
            vms,
            entries,
            focus: 0,
            is_fresh: true,
            verdict: Verdict::Unchanged,
            is_reloaded: false,
            check: 0,
            applied: None,
        }
    }

    pub(crate) fn field(&self) -> Field {
        Field::ALL[self.focus]
    }

    pub(crate) fn move_focus(&mut self, step: Step) {
        let count = Field::ALL.len();
        self.focus = match step {
            Step::Up => (self.focus + count - 1) % count,
            Step::Down => (self.focus + 1) % count,
        };
        self.is_fresh = true;
    }

    /// Adds a typed letter. Returns whether the value has changed.
    pub(crate) fn type_letter(&mut self, letter: char) -> bool {
        let field = self.field();
        if field.is_word() && letter == ' ' {
            self.step(Step::Up);
            return true;
        }
        if !field.accepts(letter) {
            return false;
        }
        let entry = &mut self.entries[self.focus];
        if std::mem::take(&mut self.is_fresh) {
            entry.text.clear();
        }
        entry.text.push(letter);
        entry.is_edited = true;
        true
    }

    /// Removes the last letter.
    pub(crate) fn erase(&mut self) {
        if !self.field().is_word() {
            self.is_fresh = false;
            let entry = &mut self.entries[self.focus];
            entry.text.pop();
            entry.is_edited = true;
        }
    }

    /// Removes the whole value.
    pub(crate) fn clear(&mut self) {
        if !self.field().is_word() {
            self.set(self.field(), String::new());
        }
    }

    pub(crate) fn step(&mut self, step: Step) {
        let field = self.field();
        let text = field.stepped(&self.entries[self.focus].text, step);
        self.set(field, text);
    }

    pub(crate) fn set(&mut self, field: Field, text: String) {
        let at = Field::ALL.iter().position(|it| *it == field).expect("ALL has every field");
        let entry = &mut self.entries[at];
        (entry.text, entry.is_edited, self.is_fresh) = (text, true, true);
    }

    /// Takes the longest slice that fits with the period. Returns whether there is one.
    pub(crate) fn take_slice(&mut self) -> bool {
        let slice = self.alternatives().and_then(|it| it.slice_ns);
        slice.map(|ns| self.set(Field::Slice, Nanos::ns(ns).to_string())).is_some()
    }

    /// Takes the shortest period that fits with the slice. Returns whether there is one.
    pub(crate) fn take_period(&mut self) -> bool {
        let period = self.alternatives().and_then(|it| it.period_ns);
        period.map(|ns| self.set(Field::Period, Nanos::ns(ns).to_string())).is_some()
    }

    /// Returns the changes that make room for the first refused promise.
    pub(crate) fn alternatives(&self) -> Option<&api::Alternatives> {
        let Verdict::Refused(troubles) = &self.verdict else { return None };
        troubles.iter().find_map(|(_, trouble)| trouble.alternatives.as_ref())
    }

    /// Whether a value differs from that of the service.
    pub(crate) fn is_changed(&self) -> bool {
        self.entries.iter().any(Entry::is_changed)
    }

    /// Whether the desired state of a VM is refused.
    pub(crate) fn is_refused(&self) -> bool {
        self.vms.iter().any(|vm| vm.state.phase == Phase::Refused)
    }

    /// Returns the changes of all VMs.
    ///
    /// # Errors
    /// The reason and the remedy of a value that cannot be read.
    pub(crate) fn changes(&self) -> Result<Vec<Change>, String> {
        self.vms.iter().map(|vm| Ok(change(vm, self.desired(&vm.desired)?))).collect()
    }

    /// Returns `before` with the values of the form.
    fn desired(&self, before: &Desired) -> Result<Desired, String> {
        let text = |field: Field| {
            let at = Field::ALL.iter().position(|it| *it == field).expect("ALL has every field");
            let entry = &self.entries[at];
            if entry.is_changed() { entry.text.clone() } else { field.text(before) }
        };
        let (slice, period) = (time("slice", &text(Field::Slice))?, time("period", &text(Field::Period))?);
        let cpus = number("number of CPUs", &text(Field::Cpus), 256)?.unwrap_or(1);
        let promise = match (slice, period) {
            (Some(slice_ns), Some(period_ns)) => Some(Promise {
                slice_ns,
                period_ns,
                cpus: u16::try_from(cpus).expect("it is at most 256"),
                gang: text(Field::Gang) == "yes",
                limit: if text(Field::Limit) == "hard" { Limit::Hard } else { Limit::Soft },
                mechanism: before.promise.as_ref().map_or(Mechanism::Auto, |promise| promise.mechanism),
            }),
            (None, None) => None,
            (None, Some(_)) => return Err("a promise needs a slice; use one, or no period".to_string()),
            (Some(_), None) => return Err("a promise needs a period; use one, or no slice".to_string()),
        };
        Ok(Desired {
            promise,
            weight: number("weight", &text(Field::Weight), WEIGHT_MOST)?,
            cap_percent: number("cap", &text(Field::Cap), CAP_MOST)?,
            paused: before.paused,
        })
    }

    /// Accepts the outcomes of a check, or of changes of which some were refused.
    pub(crate) fn judge(&mut self, outcomes: &[Outcome]) {
        let mut troubles = Vec::new();
        for outcome in outcomes {
            match &outcome.result {
                Ok(_) => {}
                Err(Trouble { kind: TroubleKind::Outdated(Some(now)), .. }) => self.reload(now),
                Err(trouble) => troubles.push((outcome.change.name.clone(), trouble.clone())),
            }
        }
        self.verdict = if troubles.is_empty() { Verdict::Accepted } else { Verdict::Refused(troubles) };
    }

    /// Takes the values of a VM that another client has changed. Values that the user has changed stay.
    fn reload(&mut self, now: &Vm) {
        for vm in self.vms.iter_mut().filter(|vm| vm.id == now.id) {
            vm.clone_from(now);
        }
        self.is_reloaded = true;
        for (field, entry) in Field::ALL.iter().zip(&mut self.entries) {
            let fresh = Entry::of(*field, &self.vms);
            entry.former = fresh.former;
            if !entry.is_edited {
                entry.text = fresh.text;
            }
        }
    }
}

/// Returns the change of `vm` to `desired`.
pub(crate) fn change(vm: &Vm, desired: Desired) -> Change {
    // What a VM carries is in force again when clients desire nothing.
    let by_clients = vm.source == Some(Source::Client);
    let before = if by_clients { vm.desired.clone() } else { Desired::default() };
    Change { id: vm.id.clone(), name: vm.name.clone(), generation: vm.generation, desired, before }
}
