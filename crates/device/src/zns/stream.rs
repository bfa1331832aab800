//! Sequential streams of reads.
//!
//! A drive reads ahead of a stream while all of its reads, in the order in which the controller
//! fetches them, continue it: data are in memory when they are asked for. Reads of two streams in
//! turn defeat that, as do more outstanding reads of one page than the drive keeps account of. A
//! read that merely continues the last one of its zone takes a whole page from the flash.
use super::ZnsConfig;
use zonal_blk::ZoneNo;

/// Outstanding reads of one page up to which the drive reads ahead.
const READS_OF_A_PAGE: u64 = 4;

/// What a read continues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stream {
    /// Nothing.
    None,
    /// The last read of its zone.
    Continued,
    /// The last read of all, and its data have been read ahead.
    Ahead,
}

#[derive(Debug)]
pub(super) struct Streams {
    reads_ahead: bool,
    page: u64,
    /// Reads that have begun and are not done.
    outstanding: u64,
    last_zone: Option<ZoneNo>,
    /// By zone, where its last read ended.
    ends: Vec<u64>,
}

impl Streams {
    pub(super) fn new(config: &ZnsConfig) -> Self {
        Streams {
            reads_ahead: config.read_ahead,
            page: config.page.0,
            outstanding: 0,
            last_zone: None,
            ends: if config.read_ahead {
                vec![u64::MAX; config.zones as usize]
            } else {
                Vec::new()
            },
        }
    }

    /// A read of bytes `from..to` of a zone begins.
    pub(super) fn read(&mut self, zone: ZoneNo, from: u64, to: u64) -> Stream {
        self.outstanding += 1;
        if !self.reads_ahead {
            return Stream::None;
        }
        let continues = std::mem::replace(&mut self.ends[zone.index()], to) == from;
        let alone = self.last_zone.replace(zone) == Some(zone);
        let of_a_page = self.outstanding.min(self.page / (to - from).max(1));
        match (continues, alone && of_a_page <= READS_OF_A_PAGE) {
            (false, _) => Stream::None,
            (true, false) => Stream::Continued,
            (true, true) => Stream::Ahead,
        }
    }

    /// A read is done.
    pub(super) fn done(&mut self) {
        self.outstanding = self.outstanding.saturating_sub(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use zonal_blk::Bytes;

    fn streams() -> Streams {
        let page = Bytes(16 << 10);
        Streams::new(&ZnsConfig { zones: 2, page, read_ahead: true, ..ZnsConfig::default() })
    }

    fn read(streams: &mut Streams, zone: u32, from: u64, length: u64) -> Stream {
        let stream = streams.read(ZoneNo(zone), from, from + length);
        streams.done();
        stream
    }

    #[test]
    fn one_stream_is_read_ahead_of_and_two_in_turn_are_not() {
        let mut streams = streams();
        assert_eq!(read(&mut streams, 0, 0, 4096), Stream::None);
        assert_eq!(read(&mut streams, 0, 4096, 4096), Stream::Ahead);
        assert_eq!(read(&mut streams, 1, 0, 4096), Stream::None);
        assert_eq!(read(&mut streams, 0, 8192, 4096), Stream::Continued);
        assert_eq!(read(&mut streams, 0, 0, 4096), Stream::None);
    }

    #[test]
    fn many_outstanding_reads_of_one_page_end_it() {
        let mut streams = streams();
        let stream = |at: u64| streams.read(ZoneNo(0), at * 512, at * 512 + 512);
        let seen: Vec<Stream> = (0..6).map(stream).collect();
        assert_eq!(seen[1..4], [Stream::Ahead; 3]);
        assert_eq!(seen[4..], [Stream::Continued; 2]);
    }
}
