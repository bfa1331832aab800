//! Data of a bio in memory that is not the layer's, such as registered memory of a frontend.
//!
//! A handle that a device can resolve to the memory, or copy through. Nothing in the layer looks at
//! the bytes, so the submitter of a bio with such a buffer checks first that the device can take it
//! ([`Device::external_buf_alignment`](crate::Device::external_buf_alignment)).
use crate::status::Status;
use std::any::Any;
use std::fmt;
use std::sync::Arc;

/// Memory that stays valid while bios that use it are in flight. A device that knows the concrete
/// type, by [`Any`], moves data without a copy.
pub trait ExternalMemory: Any + Send + Sync {
    /// Copies what lies from byte `at` of the memory `token` on.
    ///
    /// # Errors
    /// The memory is shorter.
    fn read(&self, token: u64, at: usize, data: &mut [u8]) -> Result<(), Status>;

    /// Copies to where byte `at` of the memory `token` is.
    ///
    /// # Errors
    /// The memory is shorter.
    fn write(&self, token: u64, at: usize, data: &[u8]) -> Result<(), Status>;
}

/// A piece of external memory.
#[derive(Clone)]
pub struct ExternalBuf {
    memory: Arc<dyn ExternalMemory>,
    token: u64,
    at: usize,
}

impl ExternalBuf {
    /// The memory that its owner knows as `token`, from its first byte on.
    pub fn new(memory: Arc<dyn ExternalMemory>, token: u64) -> Self {
        ExternalBuf { memory, token, at: 0 }
    }

    /// The same, `offset` bytes further on.
    pub(crate) fn advanced_by(&self, offset: usize) -> Self {
        ExternalBuf { at: self.at + offset, ..self.clone() }
    }

    /// The memory that it is a piece of.
    pub fn memory(&self) -> &dyn ExternalMemory {
        &*self.memory
    }

    /// The owner's name for the memory.
    pub fn token(&self) -> u64 {
        self.token
    }

    /// Where in the memory the piece begins, in bytes.
    pub fn offset(&self) -> usize {
        self.at
    }

    /// Copies the first bytes.
    ///
    /// # Errors
    /// The memory is shorter.
    pub fn read(&self, data: &mut [u8]) -> Result<(), Status> {
        self.memory.read(self.token, self.at, data)
    }

    /// Copies to the first bytes.
    ///
    /// # Errors
    /// The memory is shorter.
    pub fn write(&self, data: &[u8]) -> Result<(), Status> {
        self.memory.write(self.token, self.at, data)
    }
}

impl fmt::Debug for ExternalBuf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ExternalBuf({} from byte {})", self.token, self.at)
    }
}
