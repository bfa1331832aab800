//! Sequential streams of reads.
//!
//! A drive reads ahead of a stream while all of its outstanding reads continue it: data are in
//! memory when they are asked for. Reads of another zone defeat that, as do more outstanding reads
//! of one page than the drive keeps account of, or more than it works on at once.
use super::ZnsConfig;
use zonal_blk::ZoneNo;

/// Outstanding reads of one page up to which the drive reads ahead.
const READS_OF_A_PAGE: u64 = 8;

/// What a read continues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stream {
    /// Nothing.
    None,
    /// The last read of its zone.
    Continued,
    /// The last read of its zone, and its data have been read ahead.
    Ahead,
}

#[derive(Debug)]
pub(super) struct Streams {
    reads_ahead: bool,
    page: u64,
    /// Reads up to which the drive reads ahead.
    most: u64,
    /// Reads that were fetched and are not done.
    outstanding: u64,
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
    pub(super) fn new(config: &ZnsConfig) -> Self {
        Streams {
            reads_ahead: config.read_ahead,
            page: config.page.0,
            most: if config.reads > 0 { config.reads.into() } else { u64::MAX },
            outstanding: 0,
            zones: if config.read_ahead {
                vec![Reads { outstanding: 0, end: u64::MAX }; config.zones as usize]
            } else {
                Vec::new()
            },
        }
    }

    /// A read of bytes `from..to` of a zone begins.
    pub(super) fn read(&mut self, zone: ZoneNo, from: u64, to: u64) -> Stream {
        if !self.reads_ahead {
            return Stream::None;
        }
        self.outstanding += 1;
        let reads = &mut self.zones[zone.index()];
        reads.outstanding += 1;
        let continues = std::mem::replace(&mut reads.end, to) == from;
        let alone = reads.outstanding == self.outstanding && self.outstanding <= self.most;
        let of_a_page = self.outstanding.min(self.page / (to - from).max(1));
        match (continues, alone && of_a_page <= READS_OF_A_PAGE) {
            (false, _) => Stream::None,
            (true, false) => Stream::Continued,
            (true, true) => Stream::Ahead,
        }
    }

    /// A read of a zone is done.
    pub(super) fn done(&mut self, zone: ZoneNo) {
        if self.reads_ahead {
            self.outstanding -= 1;
            self.zones[zone.index()].outstanding -= 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use zonal_blk::Bytes;

    fn streams(reads: u32) -> Streams {
        let page = Bytes(16 << 10);
        Streams::new(&ZnsConfig { zones: 2, page, reads, read_ahead: true, ..ZnsConfig::default() })
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
        streams.done(ZoneNo(1));
        assert_eq!(read(&mut streams, 0, 12288), Stream::Ahead);
        assert_eq!(read(&mut streams, 0, 0), Stream::None);
    }

    #[test]
    fn many_outstanding_reads_of_one_page_end_it() {
        let mut streams = streams(0);
        let stream = |at: u64| streams.read(ZoneNo(0), at * 512, at * 512 + 512);
        let seen: Vec<Stream> = (0..10).map(stream).collect();
        assert_eq!(seen[1..8], [Stream::Ahead; 7]);
        assert_eq!(seen[8..], [Stream::Continued; 2]);
    }

    #[test]
    fn more_reads_than_the_drive_works_on_end_it() {
        let mut streams = streams(3);
        let seen: Vec<Stream> = (0..5).map(|at| read(&mut streams, 0, at * 4096)).collect();
        assert_eq!(seen[1..3], [Stream::Ahead; 2]);
        assert_eq!(seen[3..], [Stream::Continued; 2]);
    }
}
