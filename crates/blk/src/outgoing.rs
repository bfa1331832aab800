//! Bytes that a protocol without I/O has to send, for the socket that it does not know.
use std::io::IoSlice;

/// A connection with bytes to send.
pub trait Outgoing {
    /// The number of bytes that wait to be sent.
    fn unsent(&self) -> usize;

    /// Sets the first of `slices` to the bytes to be sent next, in order. Returns how many are set: not
    /// 0 if there are bytes and slices.
    fn next_slices<'a>(&'a self, slices: &mut [IoSlice<'a>]) -> usize;

    /// Notes that the next `len` bytes have been sent.
    ///
    /// # Panics
    /// If there are fewer.
    fn sent(&mut self, len: usize);

    /// A copy of all bytes that wait to be sent, which they no longer do.
    fn take_unsent(&mut self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.unsent());
        while self.unsent() > 0 {
            let mut slices = [IoSlice::new(&[])];
            self.next_slices(&mut slices);
            bytes.extend_from_slice(&slices[0]);
            let len = slices[0].len();
            self.sent(len);
        }
        bytes
    }
}
