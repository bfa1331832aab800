//! Chooses the write streams of a clone whose writes name placement identifiers (`dataplacement=fdp`).
use crate::generate::Io;
use crate::job::{Job, SchemeRange, StreamSelect};
use crate::rng::Rng;
use zonal_blk::{Bio, PlacementLayout};

pub(crate) struct WriteStreams {
    select: StreamSelect,
    /// The write streams of the job.
    streams: Vec<u8>,
    ranges: Vec<SchemeRange>,
    next: usize,
    rng: Rng,
}

/// The write stream of the placement identifier with an index.
fn stream(index: u16) -> u8 {
    u8::try_from(index + 1).expect("the device has at most 255 placement identifiers")
}

impl WriteStreams {
    /// The streams of a clone of `job`, which fits the device; `None` if its writes name none.
    pub fn new(job: &Job, layout: Option<&PlacementLayout>, rng: Rng) -> Option<Box<Self>> {
        let options = &job.address.streams;
        let layout = layout.filter(|_| options.fdp)?;
        let all = 0..u16::try_from(layout.ids.len()).expect("at most 255");
        let streams = match &options.indices[..] {
            [] => all.map(stream).collect(),
            indices => indices.iter().copied().map(stream).collect(),
        };
        let (select, ranges) = (options.select, options.ranges.clone());
        Some(Box::new(WriteStreams { select, streams, ranges, next: 0, rng }))
    }

    /// Sets the stream of a write that is about to be submitted.
    pub fn set(&mut self, io: &Io, bio: &mut Bio) {
        bio.stream = match self.select {
            StreamSelect::RoundRobin => {
                let at = self.next;
                self.next = (at + 1) % self.streams.len();
                self.streams[at]
            }
            StreamSelect::Random => {
                let at = self.rng.below(self.streams.len() as u64);
                self.streams[usize::try_from(at).expect("there are few")]
            }
            StreamSelect::Scheme => {
                let is_in = |range: &&SchemeRange| (range.start..range.end).contains(&io.offset);
                self.ranges.iter().find(is_in).map_or(0, |range| stream(range.index))
            }
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::{DataDir, StreamOptions, placement_layout as layout};
    use zonal_blk::{BioFlags, Op, Sector};

    /// The streams of writes at these offsets.
    fn streams(options: StreamOptions, offsets: &[u64]) -> Vec<u8> {
        let mut job = Job::default();
        job.address.streams = StreamOptions { fdp: true, ..options };
        let rng = Rng::new(1, [0; 4]);
        let mut chosen = WriteStreams::new(&job, Some(&layout(4)), rng).expect("it names some");
        let of = |&offset: &u64| {
            let (op, dir, flags) = (Op::Write, DataDir::Write, BioFlags::NONE);
            let io = Io { op, dir, offset, len: 4096, zone: None, flags };
            let mut bio = Bio::new(op, Sector(0), 8, 0);
            chosen.set(&io, &mut bio);
            bio.stream
        };
        offsets.iter().map(of).collect()
    }

    #[test]
    fn writes_have_the_identifiers_of_the_job_in_turn() {
        assert_eq!(streams(StreamOptions::default(), &[0; 6]), [1, 2, 3, 4, 1, 2]);
        let some = StreamOptions { indices: vec![0, 2], ..StreamOptions::default() };
        assert_eq!(streams(some, &[0; 5]), [1, 3, 1, 3, 1]);
    }

    #[test]
    fn random_writes_have_any_identifier_of_the_job() {
        let select = StreamSelect::Random;
        let some = StreamOptions { indices: vec![1, 3], select, ..StreamOptions::default() };
        let drawn = streams(some, &[0; 1000]);
        let count = drawn.iter().filter(|&&stream| stream == 2).count();
        assert!(drawn.iter().all(|stream| matches!(stream, 2 | 4)) && (400..600).contains(&count));
    }

    #[test]
    fn first_range_of_the_scheme_counts_and_writes_beyond_it_have_no_identifier() {
        let range = |start, end, index| SchemeRange { start, end, index };
        let ranges = vec![range(0, 8192, 3), range(4096, 16384, 1)];
        let select = StreamSelect::Scheme;
        let scheme = StreamOptions { ranges, select, ..StreamOptions::default() };
        assert_eq!(streams(scheme, &[0, 8191, 8192, 16384]), [4, 4, 2, 0]);
    }

    #[test]
    fn job_without_placement_has_no_streams() {
        let rng = Rng::new(1, [0; 4]);
        assert!(WriteStreams::new(&Job::default(), Some(&layout(4)), rng).is_none());
    }
}
