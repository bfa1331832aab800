//! Sequential streams of reads.
//!
//! A drive reads ahead of a stream while all of its outstanding reads continue it: data are in
//! memory when they are asked for. Reads of another zone defeat that, as do more outstanding reads
//! than the drive works on at the same time, and more data than the dies of a zone sense together. So do many
//! outstanding reads of one page: each has to find the page that is being read ahead.
use super::Nand;
use zonal_blk::ZoneNo;

/// Outstanding reads of one page that defeat reading ahead.
const READS_OF_A_PAGE: u64 = 8;

/// The stream that a read continues.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Stream {
    /// Nothing.
    #[default]
    None,
    /// The last read of its zone.
    Continued,
    /// The last read of its zone, and no other zone is read.
    Alone,
    /// The last read of its zone, and its data have been read ahead.
    Ahead,
}

#[derive(Debug)]
pub(crate) struct Streams {
    reads_ahead: bool,
    page: u64,
    /// The pages that a die senses together.
    row: u64,
    /// Reads up to which the drive reads ahead.
    most: u64,
    /// Bytes of reads up to which it does.
    window: u64,
    /// Reads that were fetched and are not done, and their bytes.
    outstanding: u64,
    bytes: u64,
    zones: Vec<Reads>,
}

/// The reads of a zone.
#[derive(Clone, Copy, Debug)]
struct Reads {
    outstanding: u64,
    /// Where the last one ended.
    end: u64,
}

impl Streams {
    /// The streams of a drive with this many `zones`, each on `dies` dies, that works on at most `reads`
    /// reads at a time, 0 for any number. `zones` is `None` if the drive does not read ahead.
    pub(crate) fn new(nand: &Nand, dies: u32, reads: u32, zones: Option<u32>) -> Self {
        Streams {
            reads_ahead: zones.is_some(),
            page: nand.page.0,
            row: nand.row().0,
            most: if reads > 0 { reads.into() } else { u64::MAX },
            window: nand.read_ahead_window(dies).0,
            outstanding: 0,
            bytes: 0,
            zones: vec![Reads { outstanding: 0, end: u64::MAX }; zones.unwrap_or(0) as usize],
        }
    }

    /// A read of bytes `from..to` of a zone begins.
    pub(crate) fn read(&mut self, zone: ZoneNo, from: u64, to: u64) -> Stream {
        if !self.reads_ahead {
            return Stream::None;
        }
        let length = to - from;
        self.outstanding += 1;
        self.bytes += length;
        let reads = &mut self.zones[zone.index()];
        reads.outstanding += 1;
        let continues = std::mem::replace(&mut reads.end, to) == from;
        let alone = reads.outstanding == self.outstanding;
        let fits = self.outstanding <= self.most && self.bytes <= self.window;
        match (continues, alone) {
            (false, _) => Stream::None,
            (true, false) => Stream::Continued,
            (true, true) if fits && !self.crowds_a_page(length) => Stream::Ahead,
            (true, true) => Stream::Alone,
        }
    }

    /// Whether outstanding reads of this length are too many of one page. If a page has no more than
    /// [`READS_OF_A_PAGE`] of them, that ends when they go beyond one row.
    fn crowds_a_page(&self, length: u64) -> bool {
        let of_a_page = self.page / length.max(1);
        self.outstanding.min(of_a_page) >= READS_OF_A_PAGE
            && (of_a_page > READS_OF_A_PAGE || self.bytes <= self.row)
    }

    /// A read of this many bytes of a zone is done.
    pub(crate) fn done(&mut self, zone: ZoneNo, bytes: u64) {
        if self.reads_ahead {
            self.outstanding -= 1;
            self.bytes -= bytes;
            self.zones[zone.index()].outstanding -= 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flash::tests::nand;

    fn streams(reads: u32) -> Streams {
        Streams::new(&nand(), 4, reads, Some(2))
    }

    /// A read of 4 KiB.
    fn read(streams: &mut Streams, zone: u32, from: u64) -> Stream {
        streams.read(ZoneNo(zone), from, from + 4096)
    }

    #[test]
    fn one_stream_is_read_ahead_of_and_two_side_by_side_are_not() {
        let mut streams = streams(0);
        assert_eq!(read(&mut streams, 0, 0), Stream::None);
        assert_eq!(read(&mut streams, 0, 4096), Stream::Ahead);
        assert_eq!(read(&mut streams, 1, 0), Stream::None);
        assert_eq!(read(&mut streams, 0, 8192), Stream::Continued);
        streams.done(ZoneNo(1), 4096);
        assert_eq!(read(&mut streams, 0, 12288), Stream::Ahead);
        assert_eq!(read(&mut streams, 0, 0), Stream::None);
    }

    /// The first of this many reads of a length that are not read ahead.
    fn not_ahead(length: u64, reads: u64) -> Vec<u64> {
        let mut streams = streams(0);
        let mut stream = |at: u64| streams.read(ZoneNo(0), at * length, (at + 1) * length);
        (0..reads).filter(|&at| stream(at) != Stream::Ahead).collect()
    }

    #[test]
    fn many_outstanding_reads_of_one_page_end_it() {
        assert_eq!(not_ahead(512, 10), [0, 7, 8, 9]);
        assert_eq!(not_ahead(1024, 40), Vec::from_iter([0].into_iter().chain(7..40)));
    }

    #[test]
    fn reads_of_which_a_page_has_eight_are_read_ahead_again_beyond_a_row() {
        assert_eq!(not_ahead(2048, 20), Vec::from_iter([0].into_iter().chain(7..16)));
        assert_eq!(not_ahead(4096, 20), [0]);
    }

    #[test]
    fn more_data_than_the_dies_of_a_zone_sense_at_once_end_it() {
        assert_eq!(not_ahead(32 << 10, 6), [0, 4, 5]);
    }

    #[test]
    fn more_reads_than_the_drive_works_on_end_it() {
        let mut streams = streams(3);
        let seen: Vec<Stream> = (0..5).map(|at| read(&mut streams, 0, at * 4096)).collect();
        assert_eq!(seen[1..3], [Stream::Ahead; 2]);
        assert_eq!(seen[3..], [Stream::Alone; 2]);
    }
}
