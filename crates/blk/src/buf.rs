//! Data buffers: owned, or lent.
use crate::external::ExternalBuf;
use bytes::{Buf as _, Bytes, BytesMut};
use std::fmt;
use std::sync::Arc;
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
    /// None if there is `other` memory.
    pages: Box<[Page]>,
    /// At most that of the memory, if it is not lent.
    len: usize,
    /// Nobody shares it: this way, to drop a buffer is little code, and the loops that drop completions
    /// make no call for it.
    other: Option<Arc<Other>>,
}

enum Other {
    /// Pages that can be taken apart, so that each part of a split bio has its own.
    Divisible(BytesMut),
    Lent(ExternalBuf),
}

const PAGE: usize = size_of::<Page>();

/// Buffers from this length on are divisible: shorter ones would cost up to twice their memory, and
/// their bios are seldom split.
const MIN_DIVISIBLE: usize = if cfg!(torture) { 2 * PAGE } else { 64 << 10 };

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
        let inner = if len < MIN_DIVISIBLE {
            let pages = <[Page]>::new_box_zeroed_with_elems(len.div_ceil(PAGE)).ok()?;
            Inner { pages, len, other: None }
        } else {
            Inner::of_other(Other::Divisible(zeroed_pages(len)?), len)
        };
        Some(Buf(Box::new(inner)))
    }

    /// The first `len` bytes of memory that somebody lends. To look at them here is an error in the
    /// program: they are the device's to move, if it [takes such
    /// buffers](crate::Device::external_buf_alignment).
    pub fn external(external: ExternalBuf, len: usize) -> Self {
        Buf(Box::new(Inner::of_other(Other::Lent(external), len)))
    }

    /// Where the bytes are, if they are lent.
    pub fn as_external(&self) -> Option<&ExternalBuf> {
        match self.0.other.as_deref()? {
            Other::Lent(external) => Some(external),
            Other::Divisible(_) => None,
        }
    }

    /// Whether [`split_to`](Self::split_to) can be called.
    pub(crate) fn is_divisible(&self) -> bool {
        matches!(self.0.other.as_deref(), Some(Other::Divisible(_)))
    }

    /// Takes the first `len` bytes, whole pages, away as a buffer of their own, without a copy. `None`
    /// if the buffer cannot be taken apart there.
    pub(crate) fn split_to(&mut self, len: usize) -> Option<Buf> {
        if !len.is_multiple_of(PAGE) || len > self.0.len {
            return None;
        }
        let pages = self.0.divisible()?.split_to(len);
        self.0.len -= len;
        Some(Buf(Box::new(Inner::of_other(Other::Divisible(pages), len))))
    }

    /// Puts back what was behind this buffer before [`split_to`](Self::split_to).
    ///
    /// # Panics
    /// If one of them is not divisible.
    pub(crate) fn unsplit(&mut self, mut next: Buf) {
        let (Some(pages), Some(behind)) = (self.0.divisible(), next.0.divisible()) else {
            panic!("a piece is divisible");
        };
        pages.unsplit(std::mem::take(behind));
        self.0.len += next.0.len;
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
        match self.0.other.as_deref() {
            Some(Other::Divisible(pages)) => pages.len(),
            None | Some(Other::Lent(_)) => self.0.pages.len() * PAGE,
        }
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

impl Inner {
    fn of_other(other: Other, len: usize) -> Self {
        Inner { pages: Box::default(), len, other: Some(Arc::new(other)) }
    }

    fn divisible(&mut self) -> Option<&mut BytesMut> {
        match Arc::get_mut(self.other.as_mut()?)? {
            Other::Divisible(pages) => Some(pages),
            Other::Lent(_) => None,
        }
    }
}

/// `len` zero bytes and what is missing from a page, from an address that is a multiple of a page's.
fn zeroed_pages(len: usize) -> Option<BytesMut> {
    let len = len.checked_next_multiple_of(PAGE)?;
    let bytes = <[u8]>::new_box_zeroed_with_elems(len.checked_add(PAGE - 1)?).ok()?;
    // Nobody else has the bytes, which are therefore not copied.
    let mut pages = BytesMut::from(Bytes::from(bytes));
    let before = pages.as_ptr().align_offset(PAGE);
    pages.advance(before);
    pages.truncate(len);
    Some(pages)
}

impl std::ops::Deref for Buf {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        let bytes = match self.0.other.as_deref() {
            None => self.0.pages.as_bytes(),
            Some(Other::Divisible(pages)) => pages,
            Some(Other::Lent(external)) => not_here(external),
        };
        &bytes[..self.0.len]
    }
}

impl std::ops::DerefMut for Buf {
    fn deref_mut(&mut self) -> &mut [u8] {
        let bytes = match &mut self.0.other {
            None => self.0.pages.as_mut_bytes(),
            Some(other) => match Arc::get_mut(other).expect("nobody else has it") {
                Other::Divisible(pages) => pages,
                Other::Lent(external) => not_here(external),
            },
        };
        &mut bytes[..self.0.len]
    }
}

#[cold]
fn not_here(external: &ExternalBuf) -> ! {
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
    fn long_buffer_is_taken_apart_and_put_together_where_it_is() {
        let len = MIN_DIVISIBLE + 5000;
        let mut buf = Buf::zeroed(len);
        let (begin, capacity) = (buf.as_ptr(), buf.capacity());
        assert_eq!((begin.align_offset(PAGE), capacity), (0, MIN_DIVISIBLE + 2 * PAGE));
        assert!(buf.split_to(512).is_none(), "no page");
        let mut first = buf.split_to(PAGE).expect("a page");
        let mut second = buf.split_to(2 * PAGE).expect("two pages");
        assert_eq!((first.len(), second.len(), buf.len()), (PAGE, 2 * PAGE, len - 3 * PAGE));
        assert_eq!(second.as_ptr().align_offset(PAGE), 0);
        for (value, piece) in [(1, &mut first), (2, &mut second), (3, &mut buf)] {
            piece.fill(value);
        }
        second.unsplit(buf);
        first.unsplit(second);
        assert_eq!((first.as_ptr(), first.len(), first.capacity()), (begin, len, capacity));
        for (at, value) in [(0, 1), (PAGE - 1, 1), (PAGE, 2), (3 * PAGE, 3), (len - 1, 3)] {
            assert_eq!(first[at], value, "byte {at}");
        }
        assert!(first.split_to(len.next_multiple_of(PAGE)).is_none(), "more than it has");
        assert!(Buf::zeroed(PAGE).split_to(PAGE).is_none(), "too short to be divisible");
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
