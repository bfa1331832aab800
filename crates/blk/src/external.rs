//! Memory of somebody else's that a bio's data are in.
//!
//! Takes a [`ExternalMemory`]; gives a handle that a device can follow to the memory, or have copied. Keeps
//! true: nobody here looks at the bytes, so whoever submits a bio with such a buffer asks the device
//! first ([`Device::external_buf_alignment`](crate::Device::external_buf_alignment)).
use crate::status::Status;
use std::any::Any;
use std::fmt;
use std::sync::Arc;

/// Lends memory for as long as the bios are under way that it is lent to. A device that knows its
/// kind, by [`Any`], moves data without a copy.
pub trait ExternalMemory: Any + Send + Sync {
    /// Copies what lies from byte `at` of the memory `token` on.
    ///
    /// # Errors
    /// The lender does not have as much.
    fn read(&self, token: u64, at: usize, data: &mut [u8]) -> Result<(), Status>;

    /// Copies to where byte `at` of the memory `token` is.
    ///
    /// # Errors
    /// The lender does not want as much.
    fn write(&self, token: u64, at: usize, data: &[u8]) -> Result<(), Status>;
}

/// A piece of lent memory.
#[derive(Clone)]
pub struct ExternalBuf {
    memory: Arc<dyn ExternalMemory>,
    token: u64,
    at: usize,
}

impl ExternalBuf {
    /// What the lender calls `token`, from its first byte on.
    pub fn new(memory: Arc<dyn ExternalMemory>, token: u64) -> Self {
        ExternalBuf { memory, token, at: 0 }
    }

    /// The same, `offset` bytes further on.
    pub(crate) fn advanced_by(&self, offset: usize) -> Self {
        ExternalBuf { at: self.at + offset, ..self.clone() }
    }

    /// Whose it is.
    pub fn memory(&self) -> &dyn ExternalMemory {
        &*self.memory
    }

    /// What the lender knows it by.
    pub fn token(&self) -> u64 {
        self.token
    }

    /// The byte of it that the piece begins at.
    pub fn offset(&self) -> usize {
        self.at
    }

    /// Copies the first bytes.
    ///
    /// # Errors
    /// The lender does not have as much.
    pub fn read(&self, data: &mut [u8]) -> Result<(), Status> {
        self.memory.read(self.token, self.at, data)
    }

    /// Copies to the first bytes.
    ///
    /// # Errors
    /// The lender does not want as much.
    pub fn write(&self, data: &[u8]) -> Result<(), Status> {
        self.memory.write(self.token, self.at, data)
    }
}

impl fmt::Debug for ExternalBuf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ExternalBuf({} from byte {})", self.token, self.at)
    }
}
