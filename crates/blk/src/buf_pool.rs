//! Buffers kept for reuse, so that I/O allocates nothing in steady state. The bytes kept are bounded; the
//! longest buffers are dropped first.
use crate::buf::Buf;
use crate::device::ReadBufs;

/// Buffers by the power of two of their capacity, so that one that served a length serves it again,
/// with less than twice the memory.
#[derive(Debug)]
pub struct BufPool {
    by_size_class: [Vec<Buf>; usize::BITS as usize],
    bytes: usize,
    /// Buffers that are put back may have data.
    used: bool,
}

impl Default for BufPool {
    fn default() -> Self {
        let by_size_class = [const { Vec::new() }; usize::BITS as usize];
        BufPool { by_size_class, bytes: 0, used: true }
    }
}

impl BufPool {
    /// A pool to which only zeroes are put back, until [`BufPool::set_used`].
    pub fn of_zeroes() -> Self {
        BufPool { used: false, ..BufPool::default() }
    }

    /// From now on buffers that are put back may have data.
    pub fn set_used(&mut self) {
        self.used = true;
    }

    /// A buffer of `len` bytes of any value; `None` if there is no memory for it.
    pub fn sized(&mut self, len: usize) -> Option<Buf> {
        self.fitting(len).or_else(|| Buf::try_zeroed(len))
    }

    /// A buffer of `len` zero bytes; `None` if there is no memory for it.
    pub fn zeroed(&mut self, len: usize) -> Option<Buf> {
        match self.fitting(len) {
            Some(mut buf) => {
                if self.used {
                    buf.fill(0);
                } else {
                    debug_assert!(buf.iter().all(|&byte| byte == 0), "a buffer with data");
                }
                Some(buf)
            }
            None => Buf::try_zeroed(len),
        }
    }

    /// A buffer for a read of `len` bytes, which shows its reader nothing but what the device read:
    /// zeroes, unless reads set every byte. `None` if there is no memory for it.
    pub fn for_read(&mut self, len: usize, reads: ReadBufs) -> Option<Buf> {
        match reads {
            ReadBufs::Filled => self.sized(len),
            ReadBufs::Untouched | ReadBufs::Unknown => self.zeroed(len),
        }
    }

    /// Keeps a buffer, and at most `most` bytes in all. A lent one has no bytes to keep.
    pub fn put(&mut self, buf: Buf, most: usize) {
        let capacity = buf.capacity();
        if capacity == 0 || capacity > most {
            return;
        }
        self.shrink(most - capacity);
        self.bytes += capacity;
        self.by_size_class[size_class(capacity)].push(buf);
    }

    /// Keeps at most `most` bytes.
    #[inline]
    pub fn shrink(&mut self, most: usize) {
        if self.bytes > most {
            self.drop_longest(most);
        }
    }

    #[cold]
    fn drop_longest(&mut self, most: usize) {
        let mut longest_first = self.by_size_class.iter_mut().rev();
        while self.bytes > most {
            let pool = longest_first.next().expect("the bytes are those of buffers");
            while self.bytes > most
                && let Some(buf) = pool.pop()
            {
                self.bytes -= buf.capacity();
            }
        }
    }

    /// Bytes of the buffers kept.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// A buffer of the size class of `len` bytes. It may still have to grow, to less than twice its
    /// capacity.
    fn take(&mut self, len: usize) -> Option<Buf> {
        let buf = self.by_size_class[size_class(len)].pop()?;
        self.bytes -= buf.capacity();
        Some(buf)
    }

    /// A pooled buffer with `len` bytes of any value. One that is too short is dropped.
    fn fitting(&mut self, len: usize) -> Option<Buf> {
        let pages = len.next_multiple_of(4096);
        let mut buf = self.take(pages).filter(|buf| buf.capacity() >= pages)?;
        buf.set_len(len);
        Some(buf)
    }
}

fn size_class(len: usize) -> usize {
    len.max(1).ilog2() as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_are_reused_for_the_length_they_had() {
        let mut pool = BufPool::default();
        for len in [512, 4096, 20480] {
            pool.put(Buf::zeroed(len), 1 << 20);
        }
        assert_eq!(pool.bytes, 4096 + 4096 + 20480);
        let mut ones = pool.sized(20000).expect("memory");
        ones.fill(1);
        assert_eq!((ones.capacity(), &ones[..]), (20480, &[1; 20000][..]));
        pool.put(ones, 1 << 20);
        let zeroes = pool.zeroed(20480).expect("memory");
        assert_eq!(zeroes[..], [0; 20480], "nothing of the previous use is left");
        assert!(pool.take(20480).is_none(), "it is in use");
        pool.put(zeroes, 1 << 20);
        let longer = pool.zeroed(24576).expect("memory");
        assert_eq!(longer.len(), 24576, "one that is too short is not used");
        let shorter = pool.zeroed(4095).expect("memory");
        assert_eq!((shorter.len(), pool.bytes), (4095, 4096));
    }

    #[test]
    fn longest_are_dropped_and_what_is_too_long_is_not_kept() {
        let mut pool = BufPool::default();
        pool.put(Buf::zeroed(16384), 24576);
        pool.put(Buf::zeroed(8192), 24576);
        assert_eq!(pool.bytes, 24576);
        pool.put(Buf::zeroed(4096), 24576);
        assert_eq!(pool.bytes, 8192 + 4096);
        pool.put(Buf::zeroed(32768), 24576);
        assert_eq!(pool.bytes, 8192 + 4096);
        pool.shrink(0);
        assert_eq!(pool.bytes, 0);
        assert!(pool.take(8192).is_none());
    }
}
