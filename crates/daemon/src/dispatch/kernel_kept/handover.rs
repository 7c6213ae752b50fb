//! The handover of reservations to the program that replaces the core in its process. The kernel keeps them meanwhile.

use super::former::{FormerReservations, FormerTree};
use super::thread::ReservedThread;
use super::{KernelKept, Tree};
use crate::kernel::Kernel;
use crate::table::{Entry, Row};
use sched::{EntityId, Params};
use std::collections::BTreeSet;
use sys::thread::Identity;

impl<K: Kernel> KernelKept<K> {
    /// Returns the reservations, for a new program of this process. The caller executes it with this state locked.
    #[must_use]
    pub fn pass_on(&self) -> FormerReservations {
        let trees = self.clients.iter().map(|tree| FormerTree {
            promise: tree.promise,
            name: tree.name.clone(),
            root: tree.root,
            known: tree.known.iter().map(|it| (it.tid, it.start_time)).collect(),
            has_warned: tree.has_warned,
        });
        let threads = self.threads.iter().filter_map(ReservedThread::pass_on);
        FormerReservations { trees: trees.collect(), threads: threads.collect() }
    }

    /// Takes over the reservations of the former program, in the order of their promises. Returns, for each that continues,
    /// the former and the present entity, and the row. The others have no owner, so the caller restores their threads.
    pub fn take_over(&mut self, former: FormerReservations) -> Vec<(EntityId, EntityId, Row)> {
        let (now, mut continued) = (self.now(), Vec::new());
        let rows = self.table.entries();
        for it in former.threads {
            let is_it = |(row, entry): &&(Row, Entry)| row.number() == it.row && entry.reserved.is_some();
            let Some((row, entry)) = rows.iter().find(is_it) else { continue };
            let Ok(thread) = self.kernel.open_as(entry.thread) else { continue };
            let params = Params { reservation: Some(it.account.reservation()), ..Params::default() };
            let Ok(entity) = self.books.attach(now, params) else { continue };
            let (was, promise) = (it.entity, it.promise);
            match ReservedThread::of_former(it, thread, (*row, entry), entity) {
                Some(thread) => {
                    self.promises = self.promises.max(promise + 1);
                    self.threads.push(thread);
                    continued.push((was, entity, *row));
                }
                None => self.detach(entity, now),
            }
        }
        let known = |known: Vec<(u32, u64)>| -> BTreeSet<Identity> {
            known.into_iter().map(|(tid, start_time)| Identity { tid, start_time }).collect()
        };
        let trees = former.trees.into_iter().map(|FormerTree { promise, name, root, known: threads, has_warned }| {
            Tree { promise, name, root, known: known(threads), has_warned }
        });
        let threads = &self.threads;
        self.clients.extend(trees.filter(|tree| threads.iter().any(|thread| thread.promise == tree.promise)));
        continued
    }
}
