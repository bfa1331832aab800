//! Data buffers: owned, or lent.
use crate::external::ExternalBuf;
use std::fmt;
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout};

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C, align(4096))]
struct Page([u8; 4096]);

/// A data buffer, aligned to 4096 bytes as direct I/O wants it. A bio owns its buffer on the way
/// down and gives it back with the completion. One that is [lent](Buf::external) has a length and no
/// bytes.
///
/// One pointer wide: bios are copied on the way down, and most bios of the fast devices carry none.
pub struct Buf(Box<Inner>);

struct Inner {
    /// None if the buffer is lent.
    pages: Box<[Page]>,
    len: usize,
    external: Option<ExternalBuf>,
}

impl Buf {
    /// A buffer of `len` zero bytes.
    ///
    /// # Panics
    /// If there is no memory for it.
    pub fn zeroed(len: usize) -> Self {
        Buf::try_zeroed(len).expect("memory for a data buffer")
    }

    /// A buffer of `len` zero bytes, for lengths that a client chooses; `None` if there is no memory
    /// for it.
    pub fn try_zeroed(len: usize) -> Option<Self> {
        let pages = <[Page]>::new_box_zeroed_with_elems(len.div_ceil(4096)).ok()?;
        Some(Buf(Box::new(Inner { pages, len, external: None })))
    }

    /// The first `len` bytes of memory that somebody lends. To look at them here is an error in the
    /// program: they are the device's to move, if it [takes such
    /// buffers](crate::Device::external_buf_alignment).
    pub fn external(external: ExternalBuf, len: usize) -> Self {
        Buf(Box::new(Inner { pages: Box::default(), len, external: Some(external) }))
    }

    /// Where the bytes are, if they are lent.
    pub fn as_external(&self) -> Option<&ExternalBuf> {
        self.0.external.as_ref()
    }

    /// Length in bytes, wherever they are.
    pub fn len(&self) -> usize {
        self.0.len
    }

    /// Whether the length is 0.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How long the buffer can become without new memory, in bytes.
    pub fn capacity(&self) -> usize {
        self.0.pages.len() * 4096
    }

    /// Makes a buffer that was used one of `len` bytes, which have the values of before.
    ///
    /// # Panics
    /// If `len` is more than the capacity.
    pub fn set_len(&mut self, len: usize) {
        assert!(len <= self.capacity(), "{len} bytes in a buffer of {}", self.capacity());
        self.0.len = len;
    }
}

impl From<&[u8]> for Buf {
    fn from(data: &[u8]) -> Self {
        let mut buf = Buf::zeroed(data.len());
        buf.copy_from_slice(data);
        buf
    }
}

impl std::ops::Deref for Buf {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        let bytes = self.0.pages.as_bytes();
        bytes.get(..self.0.len).unwrap_or_else(|| not_here(&self.0.external))
    }
}

impl std::ops::DerefMut for Buf {
    fn deref_mut(&mut self) -> &mut [u8] {
        let bytes = self.0.pages.as_mut_bytes();
        bytes.get_mut(..self.0.len).unwrap_or_else(|| not_here(&self.0.external))
    }
}

/// A buffer of no pages: it costs the others nothing, whose length is checked anyway.
#[cold]
fn not_here(external: &Option<ExternalBuf>) -> ! {
    panic!("the bytes of a lent buffer are not here: {external:?}")
}

impl fmt::Debug for Buf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Buf({} bytes)", self.0.len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::external::ExternalMemory;
    use crate::status::Status;
    use std::sync::Arc;

    #[test]
    fn buffer_is_aligned_for_direct_io_and_has_the_length_asked_for() {
        let buf = Buf::zeroed(5000);
        assert_eq!(buf.len(), 5000);
        assert_eq!(buf.as_ptr().align_offset(4096), 0);
        assert!(buf.iter().all(|&b| b == 0));
        assert!(Buf::zeroed(0).is_empty());
    }

    #[test]
    fn buffer_is_used_again_up_to_its_capacity() {
        let mut buf = Buf::from(&[1; 5000][..]);
        assert_eq!(buf.capacity(), 8192);
        buf.set_len(512);
        assert_eq!(buf[..], [1; 512]);
        buf.set_len(8192);
        assert_eq!((buf[4999], buf[5000]), (1, 0));
    }

    #[test]
    fn lent_buffer_has_a_length_and_knows_whose_bytes_they_are() {
        let buf = Buf::external(ExternalBuf::new(Arc::new(Sevens), 3), 4096);
        assert_eq!((buf.len(), buf.is_empty()), (4096, false));
        let lent = buf.as_external().expect("it is lent");
        assert_eq!((lent.token(), lent.offset(), lent.advanced_by(512).offset()), (3, 0, 512));
        let mut data = [0; 2];
        assert_eq!((lent.advanced_by(512).read(&mut data), data), (Ok(()), [7, 7]));
        assert_eq!(lent.write(&data), Err(Status::IoError));
        assert!(Buf::zeroed(512).as_external().is_none());
    }

    #[test]
    #[should_panic(expected = "the bytes of a lent buffer are not here")]
    fn bytes_of_a_lent_buffer_are_not_looked_at() {
        let _ = Buf::external(ExternalBuf::new(Arc::new(Sevens), 3), 4096)[0];
    }

    /// Has nothing else, and takes nothing.
    struct Sevens;

    impl ExternalMemory for Sevens {
        fn read(&self, _: u64, _: usize, data: &mut [u8]) -> Result<(), Status> {
            data.fill(7);
            Ok(())
        }

        fn write(&self, _: u64, _: usize, _: &[u8]) -> Result<(), Status> {
            Err(Status::IoError)
        }
    }

    #[test]
    #[should_panic(expected = "8193 bytes in a buffer of 8192")]
    fn buffer_gets_no_longer_than_its_pages() {
        Buf::zeroed(5000).set_len(8193);
    }
}
