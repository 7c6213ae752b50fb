//! [`Model`]: the state of the screen. Keys, replies of the service and the time change it; it does no input or output.

mod changes;
mod dialog;
pub(super) mod field;
pub(super) mod form;
mod list;
mod undo;

pub(super) use dialog::{Confirmation, Dialog};

use super::history::{History, Trend};
use super::order::Order;
use super::permission::may_change;
use super::rates::{Rate, Rates};
use super::requests::{Reply, Request};
use super::sample::Sample;
use sched::{Instant, Nanos};
use std::collections::BTreeSet;
use undo::Undo;

/// Time for the reply of the service, after which the screen says that its values are old.
const REPLY: Nanos = Nanos::s(2);
/// Number of changes that can be undone.
const UNDO_MOST: usize = 100;

/// A key of the keyboard.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Key {
    Letter(char),
    Enter,
    Escape,
    Backspace,
    Delete,
    Tab,
    BackTab,
    Up,
    Down,
    Left,
    Right,
    PageUp,
    PageDown,
    Home,
    End,
    /// Ctrl-C.
    Interrupt,
}

/// What the model asks of its surroundings.
#[derive(Debug)]
pub(super) enum Effect {
    Ask(Request),
    /// The end of the program.
    Quit,
    /// The end of the program by an interrupt.
    Interrupt,
}

/// A message in the last line.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Notice {
    pub(super) text: String,
    pub(super) is_error: bool,
}

/// The state of the screen.
#[derive(Debug)]
pub(super) struct Model {
    pub(super) interval: Nanos,
    pub(super) latest: Sample,
    before: Sample,
    pub(super) rates: Rates,
    pub(super) history: History,
    pub(super) order: Order,
    pub(super) trend: Trend,
    /// Id of the selected VM. `None`: the first one.
    selected: Option<String>,
    /// Ids of the marked VMs.
    pub(super) marked: BTreeSet<String>,
    /// Part of the names of the VMs that are shown.
    pub(super) search: String,
    /// Whether letters change the search.
    pub(super) is_searching: bool,
    /// Whether only VMs are shown that the client may change.
    pub(super) is_changeable_only: bool,
    pub(super) dialog: Dialog,
    pub(super) notice: Option<Notice>,
    /// Number of rows of the table, for PgUp and PgDn.
    pub(super) page: usize,
    undo: Vec<Undo>,
    number: u64,
    now: Instant,
    read_at: Instant,
    /// Reason why the latest reading has failed.
    failure: Option<String>,
}

impl Model {
    pub(super) fn new(first: Sample, interval: Nanos, order: Order, now: Instant) -> Model {
        let mut rates = Rates::between(&first, &first);
        rates.sort(order);
        Model {
            interval,
            before: first.clone(),
            latest: first,
            rates,
            history: History::default(),
            order,
            trend: Trend::Waits,
            selected: None,
            marked: BTreeSet::new(),
            search: String::new(),
            is_searching: false,
            is_changeable_only: false,
            dialog: Dialog::None,
            notice: None,
            page: 10,
            undo: Vec::new(),
            number: 0,
            now,
            read_at: now,
            failure: None,
        }
    }

    /// Sets the time. Returns whether the screen shows another age of its values.
    pub(super) fn tick(&mut self, now: Instant) -> bool {
        let before = self.age();
        self.now = now;
        self.age() != before
    }

    /// Accepts a reply of the service.
    pub(super) fn reply(&mut self, reply: Reply) -> Vec<Effect> {
        match reply {
            Reply::Sample(Ok(sample)) => {
                self.accept(*sample);
                Vec::new()
            }
            Reply::Sample(Err(reason)) => {
                self.failure = Some(reason);
                Vec::new()
            }
            Reply::Checked { number, outcomes } => self.checked(number, &outcomes),
            Reply::Applied { number, action, outcomes } => self.applied(number, action, outcomes),
        }
    }

    fn accept(&mut self, sample: Sample) {
        self.before = std::mem::replace(&mut self.latest, sample);
        (self.read_at, self.failure) = (self.now, None);
        self.compute();
        self.history.record(&self.rates);
        let latest = &self.latest;
        self.marked.retain(|id| latest.vm(id).is_some());
    }

    fn compute(&mut self) {
        self.rates = Rates::between(&self.before, &self.latest);
        self.rates.sort(self.order);
    }

    /// Accepts a key.
    pub(super) fn key(&mut self, key: Key) -> Vec<Effect> {
        if key == Key::Interrupt {
            return vec![Effect::Interrupt];
        }
        self.notice = None;
        match &self.dialog {
            Dialog::None if self.is_searching => self.key_of_search(key),
            Dialog::None => self.key_of_list(key),
            Dialog::Form(_) => self.key_of_form(key),
            Dialog::Confirm(_) => self.key_of_confirmation(key),
            Dialog::Help | Dialog::Host | Dialog::Results(..) => {
                if matches!(key, Key::Escape | Key::Enter | Key::Letter('q' | '?' | 'i')) {
                    self.dialog = Dialog::None;
                }
                Vec::new()
            }
        }
    }

    /// Returns the VMs that are shown, in their order.
    pub(super) fn shown(&self) -> Vec<&Rate> {
        let search = self.search.to_lowercase();
        let is_shown = |vm: &&Rate| {
            vm.name.to_lowercase().contains(&search) && (!self.is_changeable_only || self.may_change(&vm.id))
        };
        self.rates.vms.iter().filter(is_shown).collect()
    }

    /// Returns the selected VM.
    pub(super) fn selected(&self) -> Option<&Rate> {
        let shown = self.shown();
        shown.get(self.position(&shown)).copied()
    }

    /// Returns the index of the selected VM among those that are shown.
    pub(super) fn position(&self, shown: &[&Rate]) -> usize {
        shown.iter().position(|vm| Some(&vm.id) == self.selected.as_ref()).unwrap_or(0)
    }

    /// Returns whether the client may change the VM with this id.
    pub(super) fn may_change(&self, id: &str) -> bool {
        self.latest.vm(id).is_some_and(|vm| may_change(&self.latest.caller, vm))
    }

    /// Returns how old the values are if the service does not reply. Unit: whole seconds.
    pub(super) fn age(&self) -> Option<u64> {
        let age = self.now.saturating_since(self.read_at);
        let is_stale = self.failure.is_some() || age > self.interval.saturating_add(REPLY);
        is_stale.then_some(age.as_ns() / 1_000_000_000)
    }

    /// Returns the reason why the service does not reply.
    pub(super) fn failure(&self) -> &str {
        self.failure.as_deref().unwrap_or("it does not reply")
    }

    fn tell(&mut self, text: impl Into<String>, is_error: bool) {
        self.notice = Some(Notice { text: text.into(), is_error });
    }

    fn next_number(&mut self) -> u64 {
        self.number += 1;
        self.number
    }
}
