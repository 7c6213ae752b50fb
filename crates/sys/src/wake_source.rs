//! Perf events whose records wake a reader, and are not read.
//!
//! The kernel wakes the readers of an event only if the event has a buffer in memory. This buffer is mapped read-only:
//! new records overwrite old records, and this process never writes to the buffer. The first write to the buffer of an
//! event causes a page fault (`perf_mmap_pfn_mkwrite`, kernel/events/core.c, 6.18), even if the memory is locked. Such a
//! fault waits for each thread of this process that changes the address space (`mmap_lock`), and this lock knows no
//! priority inheritance.

use memmap2::{MmapOptions, MmapRaw};
use perf_event::{Builder, Counter};
use rustix::fd::{AsFd, BorrowedFd};
use std::io;
use std::os::fd::AsRawFd;

/// An event whose records make its file descriptor readable. The event is disabled at first.
pub(crate) struct WakeSource {
    counter: Counter,
    _buffer: MmapRaw,
}

impl WakeSource {
    /// Opens the event. Its page of records is preceded by a page of state.
    pub(crate) fn open(builder: &Builder<'_>) -> io::Result<WakeSource> {
        let counter = builder.build()?;
        let buffer = MmapOptions::new().len(2 * rustix::param::page_size()).map_raw_read_only(&counter)?;
        Ok(WakeSource { counter, _buffer: buffer })
    }

    /// Begins to write records.
    pub(crate) fn enable(&mut self) -> io::Result<()> {
        self.counter.enable()
    }

    /// Stops writing records. The reader may receive one more wake-up, for an earlier record.
    pub(crate) fn disable(&mut self) -> io::Result<()> {
        self.counter.disable()
    }
}

impl AsFd for WakeSource {
    fn as_fd(&self) -> BorrowedFd<'_> {
        // SAFETY: the counter keeps the descriptor open. `self` owns the counter, so the counter outlives the borrow.
        unsafe { BorrowedFd::borrow_raw(self.counter.as_raw_fd()) }
    }
}

impl std::fmt::Debug for WakeSource {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WakeSource").field("descriptor", &self.counter.as_raw_fd()).finish()
    }
}
