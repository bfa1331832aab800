//! Workloads from a seed.
use super::{How, Op, Place, Tree, Workload};
use zonal_device::rng::Rng;

/// Names of files, two in the workload's directory and two in each of two others.
const FILES: [&str; 6] = ["foo", "bar", "A/foo", "A/bar", "B/foo", "B/bar"];
const DIRECTORIES: [&str; 2] = ["A", "B"];
const ATTRIBUTES: [&str; 2] = ["one", "two"];
/// Where writes begin, and their lengths: whole blocks, and pieces of them.
const OFFSETS: [u32; 6] = [0, 4096, 8192, 16384, 2000, 10000];
const LENGTHS: [u32; 6] = [4096, 8192, 16384, 65536, 1000, 5000];

/// A workload of one to three operations and what they presuppose. Each may be followed by one that makes
/// something durable; the last is, and then all is synced. The same seed gives the same workload.
pub fn generate(seed: u64) -> Workload {
    let mut draft = Draft { rng: Rng::new(seed), tree: Tree::default(), ops: Vec::new() };
    draft.prepare();
    for _ in 0..=draft.rng.below(3) {
        draft.step();
        if draft.one_in(2) {
            draft.persist();
        }
    }
    if !draft.ops.last().is_some_and(Op::persists) {
        draft.persist();
    }
    if draft.ops.last() != Some(&Op::Sync) {
        draft.try_op(Op::Sync);
    }
    Workload::new(&format!("w{seed:06}"), draft.ops).expect("each operation was tried")
}

struct Draft {
    rng: Rng,
    tree: Tree,
    ops: Vec<Op>,
}

impl Draft {
    fn one_in(&mut self, number: u64) -> bool {
        self.rng.below(number) == 0
    }

    fn pick<T: Clone>(&mut self, from: &[T]) -> T {
        from[self.rng.below(from.len() as u64) as usize].clone()
    }

    /// Adds an operation, unless it would fail.
    fn try_op(&mut self, op: Op) -> bool {
        let mut tree = self.tree.clone();
        let applied = tree.apply((self.ops.len() + 1) as u8, &op).is_ok();
        if applied {
            self.tree = tree;
            self.ops.push(op);
        }
        applied
    }

    /// Directories, and some files with data, which are durable or not.
    fn prepare(&mut self) {
        for directory in DIRECTORIES {
            self.try_op(Op::Mkdir(directory.to_owned()));
        }
        for file in FILES {
            if self.one_in(3) {
                self.try_op(Op::Create(file.to_owned()));
                if self.one_in(2) {
                    let place =
                        Place { path: file.to_owned(), offset: 0, len: self.pick(&LENGTHS) };
                    self.try_op(Op::Write(place, How::Buffered));
                }
            }
        }
        if self.one_in(2) {
            self.try_op(Op::Sync);
        }
    }

    fn step(&mut self) {
        while {
            let op = self.operation();
            !self.try_op(op)
        } {}
    }

    fn place(&mut self) -> Place {
        let path = self.pick(&FILES).to_owned();
        Place { path, offset: self.pick(&OFFSETS), len: self.pick(&LENGTHS) }
    }

    /// An operation that may fail.
    fn operation(&mut self) -> Op {
        let file = self.pick(&FILES).to_owned();
        let other = self.pick(&FILES).to_owned();
        match self.rng.below(15) {
            0 => Op::Create(file),
            1 => Op::Write(self.place(), How::Buffered),
            2 => {
                let place = self.place();
                let len = place.len.next_multiple_of(4096);
                Op::Write(Place { offset: place.offset / 4096 * 4096, len, ..place }, How::Direct)
            }
            3 => Op::Write(self.place(), How::Mapped),
            4 => self.append(file),
            5 => Op::Truncate(file, self.pick(&OFFSETS)),
            6 => Op::Allocate(self.place()),
            7 => Op::Punch(self.place()),
            8 | 9 => Op::Rename(file, other),
            10 => Op::Link(file, other),
            11 => Op::Unlink(file),
            12 => Op::Symlink(other, file),
            13 => Op::SetXattr(file, self.pick(&ATTRIBUTES).to_owned()),
            _ if self.one_in(2) => Op::Rmdir(self.pick(&DIRECTORIES).to_owned()),
            _ => Op::Mkdir(self.pick(&DIRECTORIES).to_owned()),
        }
    }

    /// A write at the end of a file.
    fn append(&mut self, path: String) -> Op {
        let number = self.tree.number(&path);
        let offset = number.and_then(|number| self.tree.inode(number)?.len()).unwrap_or(0);
        Op::Write(Place { path, offset, len: self.pick(&LENGTHS) }, How::Buffered)
    }

    fn persist(&mut self) {
        while {
            let op = match self.rng.below(8) {
                0 => Op::Sync,
                1 => Op::Syncfs,
                2 => Op::Fdatasync(self.pick(&FILES).to_owned()),
                3 => Op::Fsync(self.pick(&DIRECTORIES).to_owned()),
                _ => Op::Fsync(self.pick(&FILES).to_owned()),
            };
            !self.try_op(op)
        } {}
    }
}
