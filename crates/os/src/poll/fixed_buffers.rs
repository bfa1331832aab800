//! External buffers that an io_uring transfers in place, as fixed buffers.
//!
//! A frontend whose kernel driver can register the pages of a request wraps them in [`FixedBuffers`];
//! a backend finds out by [`FixedBuffers::register_entries`] and need not know the frontend.
use io_uring::squeue;
use std::any::Any;
use std::sync::Arc;
use zonal_blk::{ExternalBuf, ExternalMemory, Status};

/// External memory whose driver makes it a fixed buffer of any io_uring.
pub trait RegisterBuffer: ExternalMemory {
    /// The entries that make the memory `token` fixed buffer `index` of the ring that they are pushed
    /// to, and that release it. The first is linked, so that what is pushed between them is
    /// cancelled if it fails. `None` if there is no such memory.
    fn register_entries(&self, token: u64, index: u16) -> Option<[squeue::Entry; 2]>;
}

/// The type of memory that backends recognise in an [`ExternalBuf`].
pub struct FixedBuffers(pub Arc<dyn RegisterBuffer>);

impl FixedBuffers {
    /// See [`RegisterBuffer::register_entries`]; `None` also if `buf` is not such memory.
    pub fn register_entries(buf: &ExternalBuf, index: u16) -> Option<[squeue::Entry; 2]> {
        let memory = (buf.memory() as &dyn Any).downcast_ref::<FixedBuffers>()?;
        memory.0.register_entries(buf.token(), index)
    }
}

impl ExternalMemory for FixedBuffers {
    fn read(&self, token: u64, at: usize, data: &mut [u8]) -> Result<(), Status> {
        self.0.read(token, at, data)
    }

    fn write(&self, token: u64, at: usize, data: &[u8]) -> Result<(), Status> {
        self.0.write(token, at, data)
    }
}
