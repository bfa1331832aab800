//! Guest memory, as a function reaches it.

/// The guest has no memory there, or none that may be accessed so.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no guest memory at {address:#x}")]
pub struct DmaError {
    /// Where.
    pub address: u64,
}

/// Memory of a guest, which changes it at any time.
pub trait Dma {
    /// Copies from guest memory.
    ///
    /// # Errors
    /// Some of it cannot be read.
    fn read(&self, address: u64, to: &mut [u8]) -> Result<(), DmaError>;

    /// Copies to guest memory.
    ///
    /// # Errors
    /// Some of it cannot be written.
    fn write(&self, address: u64, from: &[u8]) -> Result<(), DmaError>;

    /// Loads a number at an address that is a multiple of 4, immediately. What the guest wrote before it is
    /// seen by later reads.
    ///
    /// # Errors
    /// It cannot be read.
    fn load(&self, address: u64) -> Result<u32, DmaError>;

    /// Stores a number at an address that is a multiple of 4, immediately and after everything written
    /// before.
    ///
    /// # Errors
    /// It cannot be written.
    fn store(&self, address: u64, value: u32) -> Result<(), DmaError>;
}
