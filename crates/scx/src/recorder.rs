//! [`Recorder`]: reads the recording of a scheduler in the kernel.

use crate::recording::Record;
use crate::scheduler::{Error, Scheduler, ZERO, reader, refused};
use libbpf_rs::{MapCore, MapFlags, MapHandle, RingBuffer};
use std::cell::RefCell;
use std::fmt;
use std::rc::Rc;

/// The records of a scheduler in the kernel.
pub struct Recorder {
    ring: RingBuffer<'static>,
    /// The number of records.
    recorded: MapHandle,
    records: Rc<RefCell<Vec<Record>>>,
}

impl fmt::Debug for Recorder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Recorder").finish_non_exhaustive()
    }
}

impl Recorder {
    pub(crate) fn new(scheduler: &Scheduler) -> Result<Recorder, Error> {
        let records = Rc::new(RefCell::new(Vec::new()));
        let ring = reader(&scheduler.map("records")?, Record::from_bytes, Rc::clone(&records));
        Ok(Recorder {
            ring: ring.map_err(refused("open the recording"))?,
            recorded: scheduler.map("recorded")?,
            records,
        })
    }

    /// Adds the unread records to `to`.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn read(&self, to: &mut Vec<Record>) -> Result<(), Error> {
        self.ring.consume().map_err(refused("read the recording"))?;
        to.append(&mut self.records.borrow_mut());
        Ok(())
    }

    /// Returns the number of records so far, with those that found the buffer full.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn count(&self) -> Result<u64, Error> {
        let bytes = self.recorded.lookup(&ZERO, MapFlags::ANY).map_err(refused("read the recording"))?;
        Ok(bytes.and_then(|bytes| bytes.try_into().ok()).map_or(0, u64::from_ne_bytes))
    }
}
