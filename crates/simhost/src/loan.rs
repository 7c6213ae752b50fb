//! Priority inheritance: processes of Tactus lend priorities to threads.

use crate::life::Life;
use crate::setting::Lent;
use crate::world::World;
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

/// A loan to a thread. Dropping this value ends the loan.
#[derive(Debug)]
pub struct Loan {
    pub(super) world: Rc<RefCell<World>>,
    /// Tid and birth of the recipient.
    pub(super) to: (u32, u64),
    pub(super) number: u64,
    /// Life of the process that lends.
    pub(super) life: Arc<Life>,
}

impl Drop for Loan {
    fn drop(&mut self) {
        let mut world = self.world.borrow_mut();
        // A process that has failed no longer has an effect.
        if self.life.fault().is_none() && world.lent(self.to, self.number).is_some() {
            world.set_lent(self.to.0, None);
        }
    }
}

impl World {
    /// Returns loan `number` if thread `to` has this loan.
    pub(super) fn lent(&self, to: (u32, u64), number: u64) -> Option<Lent> {
        let (tid, birth) = to;
        let thread = self.tasks.get(tid).filter(|thread| thread.birth == birth && thread.entity.is_some())?;
        thread.lent.filter(|lent| lent.number == number)
    }

    /// Sets the loan of thread `tid`, and applies its effect.
    pub(super) fn set_lent(&mut self, tid: u32, lent: Option<Lent>) {
        let now = self.host.now();
        let thread = self.tasks.thread(tid);
        thread.charge(now);
        thread.lent = lent;
        let setting = thread.setting;
        self.set(tid, setting);
    }

    /// Lowers the donors of process `by`. A process that is killed or stopped continues to lend until then, because its
    /// donors may wait for CPU time behind the threads that inherit from them.
    pub(super) fn stop_lending(&mut self, by: u32) {
        for tid in self.tasks.living.clone() {
            let lent = self.tasks.get(tid).and_then(|thread| thread.lent).filter(|lent| lent.by == by);
            if let Some(lent) = lent {
                self.set_lent(tid, Some(Lent { priority: None, ..lent }));
            }
        }
    }

    /// Lets thread `tid` execute a program, which ends a loan to the thread.
    pub fn execute(&mut self, tid: u32) {
        self.note(|| format!("{tid} executes a program"));
        if let Some(lent) = self.tasks.get(tid).and_then(|thread| thread.lent) {
            self.set_lent(tid, None);
            let keeper = self.keepers.iter().find(|(daemon, _)| *daemon == lent.by);
            if let Some(&(_, keeper)) = keeper {
                self.ring(keeper);
            }
        }
    }

    /// Returns whether thread `tid` runs at a lent priority.
    #[must_use]
    pub fn is_lent(&self, tid: u32) -> bool {
        self.tasks.get(tid).is_some_and(|thread| thread.effective() != thread.setting)
    }
}
