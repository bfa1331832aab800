//! Bytes that wait to be sent: headers and short data, which are copied, and long data where they are.
//!
//! ```text
//!  copied bytes   header ........ header, digest ....... digest, header ...
//!  long data             ^ 1 MiB                 ^ 1 MiB
//! ```
use std::collections::VecDeque;
use std::io::IoSlice;

/// Data from this length on are not copied.
pub(super) const LONG_DATA: usize = 16 << 10;
/// Copied bytes that have been sent are removed at the latest when there are as many.
const COMPACT_THRESHOLD: usize = 1 << 20;

/// The output of a connection. `T` says where long data are.
#[derive(Debug)]
pub(super) struct Output<T> {
    copied: Vec<u8>,
    /// The first byte of `copied` that has not been sent.
    sent: usize,
    long: VecDeque<LongData<T>>,
    /// Bytes of long data that have not been sent.
    long_unsent: usize,
    /// All bytes that were ever sent.
    total_sent: u64,
}

#[derive(Debug)]
struct LongData<T> {
    /// Copied bytes that are sent before: an index of `copied`.
    after: usize,
    place: T,
    len: usize,
    sent: usize,
}

impl<T> Default for Output<T> {
    fn default() -> Self {
        Output { copied: Vec::new(), sent: 0, long: VecDeque::new(), long_unsent: 0, total_sent: 0 }
    }
}

impl<T> Output<T> {
    /// The copied bytes, for more to be appended.
    pub fn copied(&mut self) -> &mut Vec<u8> {
        &mut self.copied
    }

    /// Appends `len` bytes of long data.
    pub fn push_long(&mut self, place: T, len: usize) {
        self.long.push_back(LongData { after: self.copied.len(), place, len, sent: 0 });
        self.long_unsent += len;
    }

    /// The position in the output of the next byte that is sent.
    pub fn sent_until(&self) -> u64 {
        self.total_sent
    }

    /// The position in the output of the next byte that is appended.
    pub fn end(&self) -> u64 {
        self.total_sent + self.unsent() as u64
    }

    pub fn unsent(&self) -> usize {
        self.copied.len() - self.sent + self.long_unsent
    }

    /// As [`Outgoing::next_slices`]; `data` finds long data.
    pub fn next_slices<'a>(
        &'a self,
        slices: &mut [IoSlice<'a>],
        data: impl Fn(&'a T) -> &'a [u8],
    ) -> usize {
        let mut at = self.sent;
        let mut count = 0;
        let mut push = |bytes: &'a [u8]| {
            if !bytes.is_empty()
                && let Some(slice) = slices.get_mut(count)
            {
                *slice = IoSlice::new(bytes);
                count += 1;
            }
            count < slices.len()
        };
        for long in &self.long {
            let before = &self.copied[at..long.after];
            if !push(before) || !push(&data(&long.place)[long.sent..long.len]) {
                return count;
            }
            at = long.after;
        }
        push(&self.copied[at..]);
        count
    }

    /// As [`Outgoing::sent`]; `done` gets long data that have been sent as a whole.
    pub fn sent(&mut self, mut len: usize, mut done: impl FnMut(T)) {
        self.total_sent += len as u64;
        while let Some(long) = self.long.front_mut() {
            let before = len.min(long.after - self.sent);
            self.sent += before;
            let of_data = (len - before).min(long.len - long.sent);
            long.sent += of_data;
            self.long_unsent -= of_data;
            len -= before + of_data;
            if long.sent < long.len {
                break;
            }
            done(self.long.pop_front().expect("just seen").place);
        }
        assert!(len <= self.copied.len() - self.sent, "more bytes than there were");
        self.sent += len;
        self.compact();
    }

    fn compact(&mut self) {
        if self.sent == self.copied.len() && self.long.is_empty() {
            self.copied.clear();
            self.sent = 0;
        } else if self.sent >= COMPACT_THRESHOLD {
            self.copied.drain(..self.sent);
            self.long.iter_mut().for_each(|long| long.after -= self.sent);
            self.sent = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use zonal_blk::Outgoing;

    impl Outgoing for Output<Vec<u8>> {
        fn unsent(&self) -> usize {
            Output::unsent(self)
        }
        fn next_slices<'a>(&'a self, slices: &mut [IoSlice<'a>]) -> usize {
            Output::next_slices(self, slices, |data| data)
        }
        fn sent(&mut self, len: usize) {
            Output::sent(self, len, drop);
        }
    }

    proptest! {
        /// Whatever is appended comes out in order, in pieces of any length.
        #[test]
        fn bytes_come_out_as_they_went_in(
            appended in prop::collection::vec((any::<bool>(), 0_usize..300, 0_usize..400), 0..40),
            slices in 1_usize..5,
        ) {
            let mut output = Output::default();
            let (mut expected, mut found) = (Vec::new(), Vec::new());
            let mut next = 0_u8;
            for (long, len, sent) in appended {
                let bytes: Vec<u8> = (0..len).map(|_| { next = next.wrapping_add(1); next }).collect();
                expected.extend_from_slice(&bytes);
                if long {
                    output.push_long(bytes, len);
                } else {
                    output.copied().extend_from_slice(&bytes);
                }
                let mut views = vec![IoSlice::new(&[]); slices];
                let count = Outgoing::next_slices(&output, &mut views);
                prop_assert!(count > 0 || output.unsent() == 0);
                let offered: Vec<u8> = views[..count].iter().flat_map(|view| view.to_vec()).collect();
                let sent = sent.min(offered.len());
                found.extend_from_slice(&offered[..sent]);
                Outgoing::sent(&mut output, sent);
                prop_assert_eq!(expected.len() - found.len(), output.unsent());
            }
            found.extend(output.take_unsent());
            prop_assert_eq!(found, expected);
            prop_assert_eq!((output.sent, output.copied.len(), output.long.len()), (0, 0, 0));
        }
    }

    #[test]
    fn copied_bytes_that_were_sent_are_removed() {
        let mut output: Output<Vec<u8>> = Output::default();
        output.copied().resize(COMPACT_THRESHOLD, 1);
        output.push_long(vec![2; 10], 10);
        output.copied().push(3);
        Outgoing::sent(&mut output, COMPACT_THRESHOLD + 4);
        assert_eq!((output.copied.len(), output.unsent()), (1, 7));
        assert_eq!(output.take_unsent(), [2, 2, 2, 2, 2, 2, 3]);
    }
}
