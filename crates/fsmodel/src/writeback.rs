//! Write-back of buffered writes: dirty bytes, the order of files, and throttled writers.
//!
//! Linux counts dirty pages and pages under write-back together, throttles writers at
//! `vm.dirty_ratio` of memory, and starts write-back at `vm.dirty_background_ratio`
//! (Documentation/admin-guide/sysctl/vm.rst). Files take turns in the order in which they became
//! dirty, a chunk each (`wb_writeback` in fs/fs-writeback.c).
use super::{FileId, OpId};
use std::collections::VecDeque;

/// A throttled write.
#[derive(Clone, Copy, Debug)]
pub(super) struct PendingWrite {
    pub(super) id: OpId,
    pub(super) file: FileId,
    pub(super) offset: u64,
    pub(super) len: u64,
}

/// The state of write-back.
#[derive(Debug)]
pub(super) struct Writeback {
    limit: u64,
    background: u64,
    chunk: u64,
    /// Bytes not yet submitted.
    dirty: u64,
    /// Bytes being written.
    in_flight: u64,
    /// Files with dirty bytes, in the order of write-back.
    files: VecDeque<FileId>,
    /// Bytes left in the turn of the first file.
    left: u64,
    waiting: VecDeque<PendingWrite>,
    /// Bytes to write back regardless of the background limit.
    expired: u64,
}

impl Writeback {
    pub(super) fn new(limit: u64, background: u64, chunk: u64) -> Self {
        Writeback {
            limit,
            background,
            chunk,
            dirty: 0,
            in_flight: 0,
            files: VecDeque::new(),
            left: chunk,
            waiting: VecDeque::new(),
            expired: 0,
        }
    }

    /// Bytes in memory that are not on the device.
    pub(super) fn unwritten(&self) -> u64 {
        self.dirty + self.in_flight
    }

    /// Whether a write may proceed; otherwise it is queued. One that is larger than the limit proceeds
    /// when nothing is dirty.
    pub(super) fn admit(&mut self, write: PendingWrite) -> bool {
        let admitted = self.waiting.is_empty() && self.has_room(write.len);
        if !admitted {
            self.waiting.push_back(write);
        }
        admitted
    }

    fn has_room(&self, len: u64) -> bool {
        self.unwritten() == 0 || self.unwritten() + len <= self.limit
    }

    /// The next queued write that may proceed.
    pub(super) fn next_admitted(&mut self) -> Option<PendingWrite> {
        let first = self.waiting.front()?;
        if !self.has_room(first.len) {
            return None;
        }
        self.waiting.pop_front()
    }

    /// Bytes of a file have become dirty; `first` if it had none.
    pub(super) fn mark_dirty(&mut self, file: FileId, bytes: u64, first: bool) {
        self.dirty += bytes;
        if first {
            self.files.push_back(file);
        }
    }

    /// Discards the dirty bytes of a truncated file.
    pub(super) fn forget(&mut self, file: FileId, bytes: u64) {
        self.dirty -= bytes;
        self.expired = self.expired.min(self.dirty);
        if self.files.front() == Some(&file) {
            self.left = self.chunk;
        }
        self.files.retain(|&other| other != file);
    }

    /// The next file to write back, and how many bytes of it.
    pub(super) fn next_file(&self) -> Option<(FileId, u64)> {
        // A turn continues regardless of the limit: this is why write-back comes in chunks.
        let continues = self.left < self.chunk;
        // Throttled writers must proceed at some time, however small the limits are.
        let stuck = self.in_flight == 0 && !self.waiting.is_empty();
        let due = continues || stuck || self.expired > 0 || self.dirty > self.background;
        self.files.front().filter(|_| due).map(|&file| (file, self.left))
    }

    /// Bytes of the first file have been submitted; `last` if it has no other dirty bytes.
    pub(super) fn submitted(&mut self, bytes: u64, last: bool) {
        self.dirty -= bytes;
        self.in_flight += bytes;
        self.left = self.left.saturating_sub(bytes);
        if last || self.left == 0 {
            let file = self.files.pop_front().expect("a file is being written back");
            if !last {
                self.files.push_back(file);
            }
            self.left = self.chunk;
        }
        self.expired = self.expired.saturating_sub(bytes);
    }

    /// Bytes have been written.
    pub(super) fn completed(&mut self, bytes: u64) {
        self.in_flight -= bytes;
    }

    /// Expires everything that is dirty now.
    pub(super) fn expire(&mut self) {
        self.expired = self.dirty;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: FileId = FileId { owner: 0, number: 0 };
    const B: FileId = FileId { owner: 1, number: 0 };

    fn write(len: u64) -> PendingWrite {
        PendingWrite { id: OpId { process: 0, slot: 0 }, file: A, offset: 0, len }
    }

    #[test]
    fn writers_are_throttled_at_the_limit_in_order() {
        let mut state = Writeback::new(100, 50, 30);
        assert!(state.admit(write(60)));
        state.mark_dirty(A, 60, true);
        assert!(!state.admit(write(50)));
        assert!(!state.admit(write(10)), "it would fit, but others are queued");
        state.submitted(30, false);
        assert!(state.next_admitted().is_none(), "being written is not written");
        state.completed(30);
        assert_eq!(state.next_admitted().map(|write| write.len), Some(50));
    }

    #[test]
    fn files_take_turns_by_chunks_above_the_background_limit() {
        let mut state = Writeback::new(1000, 50, 30);
        state.mark_dirty(A, 50, true);
        assert_eq!(state.next_file(), None);
        state.mark_dirty(B, 40, true);
        assert_eq!(state.next_file(), Some((A, 30)));
        state.submitted(20, false);
        assert_eq!(state.next_file(), Some((A, 10)));
        state.submitted(10, false);
        assert_eq!(state.next_file(), Some((B, 30)));
        state.submitted(30, false);
        assert_eq!(state.next_file(), None);
        state.expire();
        assert_eq!(state.next_file(), Some((A, 30)));
        state.submitted(20, true);
        state.submitted(10, true);
        assert_eq!((state.next_file(), state.unwritten()), (None, 90));
    }
}
