//! Memory of somebody else's that a bio's data are in.
//!
//! Takes a [`Lender`]; gives a handle that a device can follow to the memory, or have copied. Keeps
//! true: nobody here looks at the bytes, so whoever submits a bio with such a buffer asks the device
//! first ([`Device::takes_lent`](crate::Device::takes_lent)).
use crate::status::Status;
use std::any::Any;
use std::fmt;
use std::sync::Arc;

/// Lends memory for as long as the bios are under way that it is lent to. A device that knows its
/// kind, by [`Any`], moves data without a copy.
pub trait Lender: Any + Send + Sync {
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
pub struct Lent {
    lender: Arc<dyn Lender>,
    token: u64,
    at: usize,
}

impl Lent {
    /// What the lender calls `token`, from its first byte on.
    pub fn new(lender: Arc<dyn Lender>, token: u64) -> Self {
        Lent { lender, token, at: 0 }
    }

    /// The same, `offset` bytes further on.
    pub(crate) fn behind(&self, offset: usize) -> Self {
        Lent { at: self.at + offset, ..self.clone() }
    }

    /// Whose it is.
    pub fn lender(&self) -> &dyn Lender {
        &*self.lender
    }

    /// What the lender knows it by.
    pub fn token(&self) -> u64 {
        self.token
    }

    /// The byte of it that the piece begins at.
    pub fn at(&self) -> usize {
        self.at
    }

    /// Copies the first bytes.
    ///
    /// # Errors
    /// The lender does not have as much.
    pub fn read(&self, data: &mut [u8]) -> Result<(), Status> {
        self.lender.read(self.token, self.at, data)
    }

    /// Copies to the first bytes.
    ///
    /// # Errors
    /// The lender does not want as much.
    pub fn write(&self, data: &[u8]) -> Result<(), Status> {
        self.lender.write(self.token, self.at, data)
    }
}

impl fmt::Debug for Lent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Lent({} from byte {})", self.token, self.at)
    }
}
