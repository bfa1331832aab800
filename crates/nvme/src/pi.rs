//! End-to-end protection information (NVM section 5.2), with the 16-bit guard.
//!
//! [`Format::generate`] writes the eight bytes of each block, [`Format::check`] finds the first block
//! whose bytes do not match.
use crate::NvmeStatus;
use crate::wire::io::control;
use crc::{CRC_16_T10_DIF, Crc, Table};
use zerocopy::big_endian;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

static GUARD: Crc<u16, Table<16>> = Crc::<u16, Table<16>>::new(&CRC_16_T10_DIF);

/// The meaning of the tags (NVM section 5.2.1.1, DPS bits 2:0).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum PiType {
    /// The reference tag is the lower part of the LBA.
    Type1 = 1,
    /// The reference tag is incremented from that of the command.
    Type2 = 2,
    /// The reference tag is the host's own and is not checked.
    Type3 = 3,
}

/// Protection information (NVM section 5.2.1.1, 16b Guard). Big endian, unlike all else in NVMe.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned,
)]
#[repr(C)]
pub struct PiTuple {
    /// CRC-16 T10-DIF of the block and the metadata before the tuple.
    pub guard: big_endian::U16,
    /// Application tag; FFFFh disables checking.
    pub application: big_endian::U16,
    /// Reference tag.
    pub reference: big_endian::U32,
}

const _: () = assert!(size_of::<PiTuple>() == PiTuple::SIZE);

impl PiTuple {
    /// Its length in bytes.
    pub const SIZE: usize = 8;
}

/// The format of protected blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Format {
    /// Bytes of data in a block.
    pub block: usize,
    /// Bytes of metadata with a block; at least [`PiTuple::SIZE`].
    pub metadata: usize,
    /// The meaning of the tags.
    pub kind: PiType,
    /// Whether the tuple is the first eight bytes of the metadata, else the last (DPS bit 3).
    pub first: bool,
}

/// The tags of a command (NVM section 3.2.4, dwords 14 and 15).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tags {
    /// Reference tag of the first block.
    pub reference: u32,
    /// Application tag.
    pub application: u16,
    /// Which bits of the application tag are checked.
    pub application_mask: u16,
}

/// A block whose protection information does not match.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("block {block}: {field:?} is {found:#x}, expected {expected:#x}")]
pub struct PiError {
    /// Index of the block in the transfer.
    pub block: usize,
    /// The field that is wrong.
    pub field: PiField,
    /// Its value.
    pub found: u32,
    /// The expected value.
    pub expected: u32,
}

/// A part of protection information.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PiField {
    /// The guard.
    Guard,
    /// The application tag.
    Application,
    /// The reference tag.
    Reference,
}

impl PiError {
    /// The status of the command.
    pub fn status(&self) -> NvmeStatus {
        match self.field {
            PiField::Guard => NvmeStatus::GUARD_CHECK,
            PiField::Application => NvmeStatus::APPLICATION_CHECK,
            PiField::Reference => NvmeStatus::REFERENCE_CHECK,
        }
    }
}

impl Format {
    /// Where the tuple is in a block's metadata.
    fn at(&self) -> usize {
        assert!(self.metadata >= PiTuple::SIZE, "the tuple lies in the metadata");
        if self.first { 0 } else { self.metadata - PiTuple::SIZE }
    }

    fn guard(&self, data: &[u8], metadata: &[u8]) -> u16 {
        let mut digest = GUARD.digest();
        digest.update(data);
        digest.update(&metadata[..self.at()]);
        digest.finalize()
    }

    /// The reference tag of block `number`.
    fn reference(&self, tags: Tags, number: usize) -> u32 {
        match self.kind {
            // It wraps, as LBAs longer than 32 bits do.
            #[allow(clippy::cast_possible_truncation)]
            PiType::Type1 | PiType::Type2 => tags.reference.wrapping_add(number as u32),
            PiType::Type3 => tags.reference,
        }
    }

    fn stamp(&self, tags: Tags, number: usize, data: &[u8], metadata: &mut [u8]) {
        let tuple = PiTuple {
            guard: self.guard(data, metadata).into(),
            application: tags.application.into(),
            reference: self.reference(tags, number).into(),
        };
        metadata[self.at()..][..PiTuple::SIZE].copy_from_slice(tuple.as_bytes());
    }

    fn verify(
        &self,
        tags: Tags,
        checks: u16,
        block: usize,
        data: &[u8],
        metadata: &[u8],
    ) -> Result<(), PiError> {
        let tuple = PiTuple::read_from_bytes(&metadata[self.at()..][..PiTuple::SIZE])
            .expect("a tuple has the length of one");
        // The escape values (NVM section 5.2.2): the block is not protected.
        let escapes = tuple.application.get() == u16::MAX
            && (self.kind != PiType::Type3 || tuple.reference.get() == u32::MAX);
        if escapes {
            return Ok(());
        }
        let is = |field, found: u32, expected: u32| {
            if found == expected { Ok(()) } else { Err(PiError { block, field, found, expected }) }
        };
        if checks & control::CHECK_GUARD != 0 {
            let guard = self.guard(data, metadata);
            is(PiField::Guard, tuple.guard.get().into(), guard.into())?;
        }
        if checks & control::CHECK_APPLICATION != 0 {
            let mask = tags.application_mask;
            let found = tuple.application.get() & mask;
            is(PiField::Application, found.into(), (tags.application & mask).into())?;
        }
        if checks & control::CHECK_REFERENCE != 0 && self.kind != PiType::Type3 {
            let expected = self.reference(tags, block);
            is(PiField::Reference, tuple.reference.get(), expected)?;
        }
        Ok(())
    }

    /// Writes the protection information of `data`, whose metadata have a buffer of their own.
    ///
    /// # Panics
    /// If the two do not have the same number of whole blocks; so do the next two functions.
    pub fn generate(&self, tags: Tags, data: &[u8], metadata: &mut [u8]) {
        self.same_blocks(data.len(), metadata.len());
        let blocks = data.chunks_exact(self.block).zip(metadata.chunks_exact_mut(self.metadata));
        for (number, (data, metadata)) in blocks.enumerate() {
            self.stamp(tags, number, data, metadata);
        }
    }

    /// Checks the blocks of `data`; `checks` are PRCHK bits of [`control`].
    ///
    /// # Errors
    /// The first block that does not match.
    pub fn check(
        &self,
        tags: Tags,
        checks: u16,
        data: &[u8],
        metadata: &[u8],
    ) -> Result<(), PiError> {
        self.same_blocks(data.len(), metadata.len());
        let blocks = data.chunks_exact(self.block).zip(metadata.chunks_exact(self.metadata));
        blocks.enumerate().try_for_each(|(number, (data, metadata))| {
            self.verify(tags, checks, number, data, metadata)
        })
    }

    /// Writes the protection information of blocks followed by their metadata (FLBAS bit 4).
    pub fn generate_interleaved(&self, tags: Tags, blocks: &mut [u8]) {
        self.whole_blocks(blocks.len());
        for (number, block) in blocks.chunks_exact_mut(self.block + self.metadata).enumerate() {
            let (data, metadata) = block.split_at_mut(self.block);
            self.stamp(tags, number, data, metadata);
        }
    }

    /// Checks blocks followed by their metadata.
    ///
    /// # Errors
    /// The first block that does not match.
    pub fn check_interleaved(&self, tags: Tags, checks: u16, blocks: &[u8]) -> Result<(), PiError> {
        self.whole_blocks(blocks.len());
        let blocks = blocks.chunks_exact(self.block + self.metadata);
        blocks.enumerate().try_for_each(|(number, block)| {
            let (data, metadata) = block.split_at(self.block);
            self.verify(tags, checks, number, data, metadata)
        })
    }

    fn same_blocks(&self, data: usize, metadata: usize) {
        let blocks = data / self.block;
        let fit = data == blocks * self.block && metadata == blocks * self.metadata;
        assert!(fit, "{data} bytes of data do not go with {metadata} bytes of metadata");
    }

    fn whole_blocks(&self, len: usize) {
        assert!(len.is_multiple_of(self.block + self.metadata), "{len} bytes are not whole blocks");
    }
}
