//! Sessions: from opening an image to closing it. The file says whether there is one, so that what opens the
//! image next knows how the one before ended.
//!
//! There are two blocks, each twice, written in turn: whatever writes are lost or torn, one of them is that
//! before or that after.
use super::block::{BLOCK, GENERATIONS, checksum, put, u32_at, u64_at};
use super::error::ImageError;
use super::store::{ImageStore, ReadAt};
use super::superblock::FileLayout;
use crate::control::PowerHistory;
use std::io;
use zonal_blk::Buf;

const MAGIC: &[u8; 4] = b"ZNLS";

/// A session, as its block says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Session {
    /// Counts the blocks that were written; they alternate between two addresses.
    number: u64,
    /// Whether the image is open.
    pub(super) open: bool,
    /// The machine's number for the time since it got its power.
    pub(super) boot: [u8; 16],
    /// How sessions up to this one began and ended.
    pub(super) history: PowerHistory,
    /// The length of the file when the block was written.
    pub(super) len: u64,
}

/// The session in a file, and its copies that are damaged, by name and address.
pub(super) type FoundSession = (Session, Vec<(String, u64)>);

impl Session {
    /// The session that follows when the image is opened now. `lost`: data of the session before are missing,
    /// so that there was no power for them.
    pub(super) fn next(&self, boot: [u8; 16], lost: bool) -> Self {
        let PowerHistory { cycles, unsafe_shutdowns, losses } = self.history;
        let history = PowerHistory {
            cycles: cycles + 1,
            unsafe_shutdowns: unsafe_shutdowns + u64::from(self.open),
            losses: losses + u64::from(self.open && (lost || self.boot != boot)),
        };
        Session { open: true, boot, history, ..*self }
    }

    fn encode(&self, image: u64) -> Buf {
        let mut both = Buf::zeroed(2 * BLOCK);
        let (block, copy) = both.split_at_mut(BLOCK);
        put(block, 0, MAGIC);
        let history = &self.history;
        let numbers = [
            (8, image),
            (16, self.number),
            (24, self.open.into()),
            (32, history.cycles),
            (40, history.unsafe_shutdowns),
            (48, history.losses),
            (56, self.len),
        ];
        numbers.iter().for_each(|&(at, number)| put(block, at, &number.to_le_bytes()));
        put(block, 64, &self.boot);
        let crc = checksum(block, 4);
        put(block, 4, &crc.to_le_bytes());
        copy.copy_from_slice(block);
        both
    }

    /// The session of a block; `None` unless the checksum and the image are right, and the number possible.
    fn decode(block: &[u8], image: u64) -> Option<Self> {
        let intact = block[..4] == *MAGIC
            && u32_at(block, 4) == checksum(block, 4)
            && u64_at(block, 8) == image
            && u64_at(block, 16) < GENERATIONS;
        intact.then(|| Session {
            number: u64_at(block, 16),
            open: u64_at(block, 24) != 0,
            boot: block[64..80].try_into().expect("16 bytes"),
            history: PowerHistory {
                cycles: u64_at(block, 32),
                unsafe_shutdowns: u64_at(block, 40),
                losses: u64_at(block, 48),
            },
            len: u64_at(block, 56),
        })
    }

    /// Reads the newest session.
    ///
    /// # Errors
    /// No copy of either block is intact.
    pub(super) fn read(
        file: &dyn ReadAt,
        layout: &FileLayout,
        image: u64,
    ) -> Result<FoundSession, ImageError> {
        let first = layout.session(0);
        let mut blocks = Buf::zeroed(4 * BLOCK);
        file.read(first, &mut blocks).map_err(ImageError::io("reading metadata"))?;
        let found: Vec<Option<Session>> = (0..)
            .zip(blocks.chunks(BLOCK))
            .map(|(copy, block)| {
                Session::decode(block, image).filter(|session| session.number % 2 == copy / 2)
            })
            .collect();
        let newest = found.iter().flatten().max_by_key(|session| session.number);
        let newest = *newest.ok_or_else(|| ImageError::Block {
            what: "the session".to_owned(),
            first,
            second: first + 2 * BLOCK as u64,
            lost: "it is unknown how the image was closed".to_owned(),
        })?;
        let damaged = (0_u64..).zip(&found).filter(|(_, found)| found.is_none());
        let name = |copy: u64| (format!("session, copy {copy}"), first + copy * BLOCK as u64);
        Ok((newest, damaged.map(|(copy, _)| name(copy)).collect()))
    }

    /// Writes the block of the session as it is now, and syncs the file.
    ///
    /// # Errors
    /// The errors of the file.
    pub(super) fn write(
        &mut self,
        store: &dyn ImageStore,
        layout: &FileLayout,
        image: u64,
    ) -> io::Result<()> {
        self.number += 1;
        self.len = store.len()?;
        store.write(layout.session(self.number), &self.encode(image))?;
        store.sync()
    }

    /// Marks the image as closed, if it is open. Everything else must be durable.
    ///
    /// # Errors
    /// The errors of the file.
    pub(super) fn close(
        &mut self,
        store: &dyn ImageStore,
        layout: &FileLayout,
        image: u64,
    ) -> io::Result<()> {
        if !std::mem::take(&mut self.open) {
            return Ok(());
        }
        self.write(store, layout, image)
    }
}
