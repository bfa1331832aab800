//! Batches: what the threads that do I/O hand over to the thread of the writer, which recognises blocks
//! that were written before, numbers the others, and writes frames.
use super::event::{BlockRun, Command, Event};
use super::frame::{Compressor, FrameKind};
use std::collections::HashMap;
use std::fs::File;
use std::hash::{BuildHasherDefault, Hasher};
use std::io::{self, BufWriter, Write};
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::time::Duration;
use twox_hash::XxHash3_128;

/// Blocks that are recognised when they are written again.
pub const DEDUP_BLOCKS: usize = 1 << 18;
/// Bytes of blocks, or of marks, in a batch; of one command more. Few enough for the batches in turn to
/// stay in a core's cache.
const BATCH_BYTES: usize = 1 << 17;
/// Events in a batch.
const BATCH_EVENTS: usize = 4096;
/// After this long without a batch, what there is of the next one is written.
const INTERVAL: Duration = Duration::from_secs(1);

/// Stands for the number of a block that has none yet.
const UNNUMBERED: u64 = 1 << 63;

/// The totals of a whole log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Events.
    pub events: u64,
    /// Blocks that were stored.
    pub blocks: u64,
    /// Blocks that were written to the device.
    pub written: u64,
}

/// Events, and the blocks that their commands write, which have no numbers yet.
#[derive(Default)]
pub(super) struct Batch {
    events: Vec<Event>,
    /// The blocks that are not zeroes, in the order of the events.
    data: Vec<u8>,
    mark_bytes: usize,
}

impl Batch {
    /// Whether it has no events.
    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.events.is_empty()
    }

    /// Adds the blocks of `data` to a command, whose event is the next one.
    pub(super) fn add_blocks(&mut self, command: &mut Command, data: &[u8], lba: usize) {
        for block in data.chunks(lba) {
            if is_zero(block) {
                command.push_blocks(BlockRun { first: 0, len: 1 });
                continue;
            }
            self.data.extend_from_slice(block);
            self.data.resize(self.data.len().next_multiple_of(lba), 0);
            match command.blocks.last_mut() {
                Some(run) if run.first == UNNUMBERED => run.len += 1,
                _ => command.blocks.push(BlockRun { first: UNNUMBERED, len: 1 }),
            }
        }
    }

    pub(super) fn add(&mut self, event: Event) {
        if let Event::Mark(text) = &event {
            self.mark_bytes += text.len();
        }
        self.events.push(event);
    }

    pub(super) fn is_full(&self) -> bool {
        self.events.len() >= BATCH_EVENTS || self.data.len().max(self.mark_bytes) >= BATCH_BYTES
    }

    /// An empty batch, in the memory of this one.
    fn cleared(mut self) -> Self {
        self.events.clear();
        self.data.clear();
        self.mark_bytes = 0;
        self
    }
}

fn is_zero(block: &[u8]) -> bool {
    // Many bytes immediately, until one is not zero.
    block.chunks(256).all(|bytes| bytes.iter().fold(0, |all, byte| all | byte) == 0)
}

/// Makes frames of batches.
pub(super) struct Frames {
    lba: usize,
    /// Events that are encoded and not written.
    events: Vec<u8>,
    first_event: u64,
    totals: Totals,
    /// Blocks by their hashes: XXH3, 128 bits.
    known: HashMap<u128, u64, BuildHasherDefault<IsHash>>,
    compressor: Compressor,
    file: BufWriter<File>,
}

impl Frames {
    pub(super) fn new(file: BufWriter<File>, lba: usize) -> io::Result<Self> {
        Ok(Frames {
            lba,
            events: Vec::new(),
            first_event: 0,
            totals: Totals::default(),
            known: HashMap::default(),
            compressor: Compressor::new()?,
            file,
        })
    }

    /// Writes batches until there are no more, and then the footer. Batches that were written go to
    /// `used`: they have memory, and new ones would have to get it. `open` is the batch that is being
    /// filled.
    pub(super) fn run(
        mut self,
        batches: &Receiver<Batch>,
        open: &Mutex<Batch>,
        used: &Sender<Batch>,
    ) -> io::Result<Totals> {
        loop {
            let mut batch = match batches.recv_timeout(INTERVAL) {
                Ok(batch) => batch,
                Err(RecvTimeoutError::Timeout) => match take_open(batches, open) {
                    Some(batch) => batch,
                    None => continue,
                },
                Err(RecvTimeoutError::Disconnected) => break,
            };
            self.write_batch(&mut batch)?;
            // At the end nobody wants it any more.
            let _ended = used.send(batch.cleared());
        }
        let events = self.totals.events.to_le_bytes();
        self.compressor.write(FrameKind::Footer, self.totals.blocks, 0, &events, &mut self.file)?;
        self.file.into_inner().map_err(io::IntoInnerError::into_error)?.sync_all()?;
        Ok(self.totals)
    }

    /// The blocks that events refer to come before them.
    fn write_batch(&mut self, batch: &mut Batch) -> io::Result<()> {
        let first = self.totals.blocks + 1;
        let (mut read, mut kept) = (0, 0);
        for event in &mut batch.events {
            if let Event::Started { command, .. } = event {
                for run in std::mem::take(&mut command.blocks) {
                    self.totals.written += u64::from(run.len);
                    if run.first != UNNUMBERED {
                        command.push_blocks(run);
                        continue;
                    }
                    for _ in 0..run.len {
                        let (number, is_new) = self.number_of(&batch.data[read..read + self.lba]);
                        command.push_blocks(BlockRun { first: number, len: 1 });
                        if is_new {
                            if kept != read {
                                batch.data.copy_within(read..read + self.lba, kept);
                            }
                            kept += self.lba;
                        }
                        read += self.lba;
                    }
                }
            }
            event.encode(&mut self.events);
        }
        self.totals.events += batch.events.len() as u64;
        let count = self.totals.blocks + 1 - first;
        if count > 0 {
            let blocks = &batch.data[..kept];
            self.compressor.write(FrameKind::Blocks, first, count, blocks, &mut self.file)?;
        }
        if !self.events.is_empty() {
            self.write_events()?;
        }
        // What is in the file can be read while the recording goes on.
        self.file.flush()
    }

    /// The number of a block, and whether it is a new one.
    fn number_of(&mut self, block: &[u8]) -> (u64, bool) {
        let hash = XxHash3_128::oneshot(block);
        if let Some(&number) = self.known.get(&hash) {
            return (number, false);
        }
        if self.known.len() >= DEDUP_BLOCKS {
            self.known.clear();
        }
        self.totals.blocks += 1;
        self.known.insert(hash, self.totals.blocks);
        (self.totals.blocks, true)
    }

    fn write_events(&mut self) -> io::Result<()> {
        let (first, last) = (self.first_event, self.totals.events);
        self.compressor.write(
            FrameKind::Events,
            first,
            last - first,
            &self.events,
            &mut self.file,
        )?;
        self.events.clear();
        self.first_event = last;
        Ok(())
    }
}

/// The batch that is being filled, if it has anything; one that was sent meanwhile comes first.
fn take_open(batches: &Receiver<Batch>, open: &Mutex<Batch>) -> Option<Batch> {
    // It is locked by a thread that adds, which may be waiting for this one to receive.
    let mut open = open.try_lock().ok()?;
    let batch = batches.try_recv().unwrap_or_else(|_| std::mem::take(&mut *open));
    (!batch.events.is_empty()).then_some(batch)
}

/// Hashes what is a hash already.
#[derive(Default)]
struct IsHash(u64);

impl Hasher for IsHash {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        let word = bytes.first_chunk().map_or(0, |word| u64::from_ne_bytes(*word));
        self.0 ^= word;
    }

    #[allow(clippy::cast_possible_truncation, reason = "any bits of it are a hash")]
    fn write_u128(&mut self, hash: u128) {
        self.0 = hash as u64;
    }
}
