//! Jobs with several files (`nrfiles=`) on a device: the files of a clone lie one after another, and
//! those of the next clone after them.
use super::addresses::Addresses;
use super::distribution::BlockPicker;
use super::layout::{Layout, SIZE_STREAM};
use super::linear::Linear;
use super::{Io, Region};
use crate::job::{DataDir, FileService, Job};
use crate::rng::Rng;

/// As in fio, a distribution of files is drawn over parts of files. Each file has this many.
const PARTS: u64 = 1024;

/// The I/Os of a clone in its files.
pub(super) struct Files {
    files: Vec<File>,
    /// The files that are open, at most this many.
    open: Vec<usize>,
    max_open: usize,
    /// The next file to open.
    unopened: usize,
    /// Index in `open` of the file whose turn it is.
    turn: usize,
    service: FileService,
    /// Draws among parts of files.
    picker: Option<BlockPicker>,
    /// I/Os of a turn, and of this one so far.
    turn_len: u32,
    turn_done: u32,
    rng: Rng,
}

struct File {
    offsets: Offsets,
    size: u64,
    /// Bytes left to do before it is closed.
    left: u64,
}

enum Offsets {
    Linear(Box<Linear>),
    Addresses(Box<Addresses>),
}

impl Offsets {
    /// The next I/O; at the end of the file it begins again.
    fn next(&mut self, dir: DataDir, len: u64) -> Io {
        let next = |offsets: &mut Self| match offsets {
            Offsets::Linear(linear) => linear.next(dir, len),
            Offsets::Addresses(addresses) => addresses.next(dir),
        };
        next(self).unwrap_or_else(|| {
            match self {
                Offsets::Linear(linear) => linear.rewind(),
                Offsets::Addresses(addresses) => addresses.rewind(),
            }
            next(self).expect("a file holds a block")
        })
    }
}

impl Files {
    /// `rng` gives the stream of random numbers of a purpose, for a file.
    pub(super) fn new(
        job: &Job,
        region: Region,
        layout: &Layout,
        rng: impl Fn(u64, u64) -> Rng,
    ) -> Self {
        let varies = Addresses::needed(job);
        let file = |(index, &size): (u64, &u64)| {
            let start = region.start + index * layout.slot;
            let end = start + size;
            let region = Region { start, end, size, io_size: size, limit: end, ..region };
            let [offsets, lengths] = [1, 3].map(|purpose| rng(purpose, index));
            let offsets = match varies {
                true => Offsets::Addresses(Box::new(Addresses::new(job, region, offsets, lengths))),
                false => Offsets::Linear(Box::new(Linear::new(job, region, offsets))),
            };
            File { offsets, size, left: size }
        };
        let max_open = job.fs.openfiles.map_or(usize::MAX, |files| files as usize);
        let mut order = rng(SIZE_STREAM, 0);
        let picker = match &job.fs.service {
            FileService::Drawn(distribution) => {
                let parts = layout.sizes.len() as u64 * PARTS;
                Some(BlockPicker::not_scattered(distribution, parts, &mut order))
            }
            _ => None,
        };
        let mut files = Files {
            files: (0..).zip(&layout.sizes).map(file).collect(),
            open: Vec::new(),
            max_open,
            unopened: 0,
            turn: 0,
            service: job.fs.service.clone(),
            picker,
            turn_len: job.fs.turn,
            turn_done: 0,
            rng: order,
        };
        files.open_more();
        files
    }

    /// Opens files up to the limit; all files again when all have been done.
    fn open_more(&mut self) {
        if self.open.is_empty() && self.unopened == self.files.len() {
            self.unopened = 0;
            self.files.iter_mut().for_each(|file| file.left = file.size);
        }
        while self.open.len() < self.max_open && self.unopened < self.files.len() {
            self.open.push(self.unopened);
            self.unopened += 1;
        }
    }

    /// Draws the file whose turn it is, if files are drawn.
    fn draw(&mut self) {
        let index = |number: u64| usize::try_from(number).expect("an index");
        if self.service == FileService::Random {
            self.turn = index(self.rng.below(self.open.len() as u64));
        } else if let Some(picker) = &mut self.picker {
            let file = index(picker.next(&mut self.rng) / PARTS);
            // The next one that is open.
            self.turn = self.open.iter().position(|&open| open >= file).unwrap_or(0);
        }
    }

    pub(super) fn next(&mut self, dir: DataDir, len: u64) -> Io {
        if self.turn_done == 0 {
            self.draw();
        }
        let file = &mut self.files[self.open[self.turn]];
        let io = file.offsets.next(dir, len);
        file.left = file.left.saturating_sub(io.len);
        self.turn_done = (self.turn_done + 1) % self.turn_len;
        if file.left == 0 {
            self.open.remove(self.turn);
            self.turn_done = 0;
            self.open_more();
        } else if self.turn_done == 0 && self.service == FileService::RoundRobin {
            self.turn += 1;
        }
        if self.turn >= self.open.len() {
            self.turn = 0;
        }
        io
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::FsOptions;
    use crate::job::{Distribution, Extent};

    fn job(nrfiles: u32, filesize: Option<(u64, u64)>, size: Option<u64>) -> Job {
        let fs = FsOptions { nrfiles: Some(nrfiles), filesize, ..FsOptions::default() };
        Job { fs, size: size.map(Extent::Bytes), ..Job::default() }
    }

    /// Files and blocks of the first I/Os.
    fn ios(job: &Job, count: usize) -> Vec<(u64, u64)> {
        let layout = Layout::new(job, 0).expect("several files");
        let end = layout.len().expect("a size");
        let (size, io_size) = (end, layout.total());
        let region = Region { start: 0, end, size, io_size, lba: 512, limit: end };
        let rng = |purpose, file| Rng::new(1, [0, 0, file, purpose]);
        let mut files = Files::new(job, region, &layout, rng);
        let place = |io: Io| (io.offset / layout.slot, io.offset % layout.slot / 4096);
        (0..count).map(|_| place(files.next(DataDir::Read, 4096))).collect()
    }

    #[test]
    fn files_take_turns_as_in_fio() {
        let job = job(2, Some((8192, 8192)), None);
        let pass = [(0, 0), (1, 0), (0, 1), (1, 1)];
        assert_eq!(ios(&job, 8), [pass, pass].concat());
    }

    #[test]
    fn turns_may_have_several_ios() {
        let mut job = job(2, Some((16384, 16384)), None);
        job.fs.turn = 2;
        let pass = [(0, 0), (0, 1), (1, 0), (1, 1), (0, 2), (0, 3), (1, 2), (1, 3)];
        assert_eq!(ios(&job, 8), pass);
        job.fs.service = FileService::Random;
        let drawn = ios(&job, 8);
        assert!(drawn.chunks(2).all(|turn| turn[0].0 == turn[1].0), "{drawn:?}");
    }

    #[test]
    fn a_file_is_opened_when_another_is_done() {
        let mut job = job(4, None, Some(4 * 16384));
        job.fs.openfiles = Some(2);
        let pair = |files: [u64; 2]| (0..4).flat_map(move |at| files.map(|file| (file, at)));
        assert!(ios(&job, 16).into_iter().eq(pair([0, 1]).chain(pair([2, 3]))));
        job.fs.service = FileService::Sequential;
        let file = |file| (0..4).map(move |at| (file, at));
        assert!(ios(&job, 16).into_iter().eq((0..4).flat_map(file)));
    }

    #[test]
    fn random_offsets_visit_each_block_of_each_file() {
        for service in [FileService::RoundRobin, FileService::Random] {
            let mut job = Job { random: true, ..job(4, Some((16384, 16384)), None) };
            job.fs.service = service;
            let mut seen = ios(&job, 16);
            seen.sort_unstable();
            let blocks = (0..4).flat_map(|file| (0..4).map(move |at| (file, at)));
            assert!(seen.into_iter().eq(blocks));
        }
    }

    #[test]
    fn sizes_are_drawn_from_their_range_up_to_their_share() {
        let sizes =
            |size| Layout::new(&job(64, Some((4096, 65536)), size), 3).expect("files").sizes;
        let drawn = sizes(None);
        assert!(drawn.iter().all(|size| size % 4096 == 0 && (4096..=65536).contains(size)));
        assert!(drawn.iter().any(|&size| size > 32768));
        assert!(sizes(Some(64 * 8192)).iter().all(|&size| size <= 8192));
        assert_eq!(drawn, sizes(None), "the same each time");
    }

    #[test]
    fn one_file_is_the_region() {
        assert!(Layout::new(&job(1, None, None), 0).is_none());
    }

    #[test]
    fn files_are_drawn_by_a_distribution() {
        // fio 3.41 with --nrfiles=8 and normal:10 of 2048 I/Os: 5, 166, 862, 872, 141 and 2 from the second
        // file on; with zipf:1.2 one file has 1861 of them.
        let counts = |distribution| {
            // Too long for a file to be done.
            let mut job = job(8, Some((1 << 30, 1 << 30)), None);
            job.fs.service = FileService::Drawn(distribution);
            let mut counts = [0_i32; 8];
            ios(&job, 2048).iter().for_each(|io| counts[io.0 as usize] += 1);
            counts
        };
        let normal = counts(Distribution::Normal { deviation: 10.0, center: None });
        for (count, expected) in normal.into_iter().zip([0, 4, 154, 866, 866, 154, 4, 0]) {
            assert!((count - expected).abs() <= 110, "{normal:?}");
        }
        let zipf = counts(Distribution::Zipf { theta: 1.2, center: None });
        let most = zipf.iter().max();
        assert!(most.is_some_and(|most| (1500..2000).contains(most)), "{zipf:?}");
    }
}
