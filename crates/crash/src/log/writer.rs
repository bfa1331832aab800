//! Writing a log while the device is in use. The threads that do I/O append to buffers in memory; a
//! thread of the writer compresses and writes them. At most [`QUEUED`] full buffers wait for it, then
//! I/O waits.
use super::event::{BlockRun, Command, Event};
use super::frame::{Compressor, Frame, Kind};
use super::header::Header;
use std::collections::HashMap;
use std::fs::File;
use std::hash::{BuildHasherDefault, Hasher};
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::thread::{self, JoinHandle};

/// Blocks that are recognised when they are written again.
pub const DEDUP_BLOCKS: usize = 1 << 18;
/// Bytes of blocks in a frame.
const BLOCK_BYTES: usize = 1 << 20;
/// Bytes of events in a frame.
const EVENT_BYTES: usize = 1 << 16;
/// Full buffers that wait to be written.
const QUEUED: usize = 8;

/// What a whole log has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Events.
    pub events: u64,
    /// Blocks that were stored.
    pub blocks: u64,
    /// Blocks that were written to the device.
    pub written: u64,
}

/// A log that is being written.
pub struct Writer {
    lba: usize,
    blocks: Vec<u8>,
    /// Of the blocks in the buffer, the number of the first.
    first_block: u64,
    events: Vec<u8>,
    first_event: u64,
    totals: Totals,
    /// Blocks by their hashes.
    known: HashMap<u128, u64, BuildHasherDefault<IsHash>>,
    /// `None` once the log could not be written.
    sender: Option<SyncSender<Frame>>,
    /// Buffers that were written. They have memory, and new ones would have to get it.
    used: Receiver<Vec<u8>>,
    thread: JoinHandle<io::Result<()>>,
}

impl Writer {
    /// Creates the file of a log.
    ///
    /// # Errors
    /// It cannot be created or written.
    pub fn create(path: &Path, header: &Header) -> io::Result<Self> {
        let mut file = BufWriter::new(File::create(path)?);
        header.write(&mut file)?;
        file.flush()?;
        let (sender, frames) = sync_channel(QUEUED);
        let (used_sender, used) = channel();
        let compressor = Compressor::new()?;
        let thread = thread::Builder::new()
            .name("crash-log".to_owned())
            .spawn(move || write_frames(&frames, &used_sender, compressor, file))?;
        Ok(Writer {
            lba: header.geometry().lba as usize,
            blocks: Vec::new(),
            first_block: 1,
            events: Vec::new(),
            first_event: 0,
            totals: Totals::default(),
            known: HashMap::default(),
            sender: Some(sender),
            used,
            thread,
        })
    }

    /// Adds the blocks of `data` to a command. `hashes` has one for each, by `hash_blocks`.
    pub fn add_blocks(&mut self, command: &mut Command, data: &[u8], hashes: &[Option<u128>]) {
        for (block, hash) in data.chunks(self.lba).zip(hashes) {
            let number = hash.map_or(0, |hash| self.number_of(hash, block));
            command.push_blocks(BlockRun { first: number, len: 1 });
            self.totals.written += 1;
        }
        if self.blocks.len() >= BLOCK_BYTES {
            self.send_blocks();
        }
    }

    /// Adds so many bytes of zeroes to a command.
    pub fn add_zeroes(&mut self, command: &mut Command, bytes: u64) {
        let len = u32::try_from(bytes / self.lba as u64).expect("no longer than a command");
        command.push_blocks(BlockRun { first: 0, len });
        self.totals.written += u64::from(len);
    }

    fn number_of(&mut self, hash: u128, block: &[u8]) -> u64 {
        if let Some(&number) = self.known.get(&hash) {
            return number;
        }
        if self.known.len() >= DEDUP_BLOCKS {
            self.known.clear();
        }
        self.totals.blocks += 1;
        let number = self.totals.blocks;
        self.known.insert(hash, number);
        self.blocks.extend_from_slice(block);
        self.blocks.resize(self.blocks.len().next_multiple_of(self.lba), 0);
        number
    }

    /// Adds an event.
    pub fn add(&mut self, event: &Event) {
        event.encode(&mut self.events);
        self.totals.events += 1;
        if self.events.len() >= EVENT_BYTES {
            self.send_events();
        }
    }

    fn send_blocks(&mut self) {
        let first = self.first_block;
        self.first_block = self.totals.blocks + 1;
        let mut payload = self.used.try_recv().unwrap_or_default();
        payload.clear();
        std::mem::swap(&mut payload, &mut self.blocks);
        self.send(Kind::Blocks, first, self.first_block - first, payload);
    }

    /// The blocks that events refer to come before them.
    fn send_events(&mut self) {
        if !self.blocks.is_empty() {
            self.send_blocks();
        }
        let first = self.first_event;
        self.first_event = self.totals.events;
        let payload = std::mem::take(&mut self.events);
        self.send(Kind::Events, first, self.first_event - first, payload);
    }

    fn send(&mut self, kind: Kind, first: u64, count: u64, payload: Vec<u8>) {
        let count = u32::try_from(count).expect("a frame is short");
        let frame = Frame { kind, first, count, payload };
        if self.sender.as_ref().is_some_and(|sender| sender.send(frame).is_err()) {
            self.sender = None;
        }
    }

    /// Writes what is left, and the footer. The log is whole then.
    ///
    /// # Errors
    /// Part of the log could not be written.
    pub fn finish(mut self) -> io::Result<Totals> {
        self.send_events();
        self.send(Kind::Footer, self.totals.blocks, 0, self.totals.events.to_le_bytes().to_vec());
        drop(self.sender);
        let written = self.thread.join().map_err(|_| io::Error::other("the writer panicked"))?;
        written.map(|()| self.totals)
    }
}

fn write_frames(
    frames: &Receiver<Frame>,
    used: &Sender<Vec<u8>>,
    mut compressor: Compressor,
    mut file: BufWriter<File>,
) -> io::Result<()> {
    for frame in frames {
        compressor.write(&frame, &mut file)?;
        // What is in the file can be read while the recording goes on.
        file.flush()?;
        if frame.kind == Kind::Blocks {
            // At the end nobody wants it any more.
            let _ended = used.send(frame.payload);
        }
    }
    file.into_inner().map_err(io::IntoInnerError::into_error)?.sync_all()
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

/// A hash of each block of `lba` bytes, by which it is recognised: XXH3, 128 bits; `None` for one of
/// zeroes.
pub(crate) fn hash_blocks(data: &[u8], lba: usize, hashes: &mut Vec<Option<u128>>) {
    hashes.extend(data.chunks(lba).map(|block| {
        // Many bytes at once, until one is not zero.
        let is_zero = |bytes: &[u8]| bytes.iter().fold(0, |all, byte| all | byte) == 0;
        let is_zero = block.chunks(256).all(is_zero);
        (!is_zero).then(|| twox_hash::XxHash3_128::oneshot(block))
    }));
}
