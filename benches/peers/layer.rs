//! The block layer alone on the null device, on one thread: what SPDK's null bdev does in a bdevperf of its own.
use crate::rows::Row;
use crate::support::{DEVICE, Zones, ns_per_read, ns_per_write, queue};
use zonal_blk::QueueOptions;

/// I/Os of a round.
const COUNT: u64 = 4_000_000;

struct Work {
    name: &'static str,
    depth: usize,
    write: bool,
    merge: bool,
}

const WORKS: [Work; 4] = [
    Work { name: "layer random read 4k qd1", depth: 1, write: false, merge: true },
    Work { name: "layer random read 4k qd16", depth: 16, write: false, merge: true },
    Work { name: "layer zoned write 4k qd16", depth: 16, write: true, merge: true },
    Work { name: "layer zoned write 4k qd16 not merged", depth: 16, write: true, merge: false },
];

impl Work {
    /// I/Os a second in one round.
    fn rate(&self) -> f64 {
        let options = QueueOptions { merge: self.merge, ..QueueOptions::default() };
        let queue = queue(DEVICE, options);
        let ns = match self.write {
            true => ns_per_write(&queue, self.depth, Zones { first: 0, width: 1 }, COUNT),
            false => ns_per_read(&queue, self.depth, COUNT),
        };
        1e9 / ns
    }
}

/// The rows of the works whose names `wanted` takes.
pub fn measure(rounds: usize, wanted: impl Fn(&str) -> bool) -> Vec<Row> {
    let works = WORKS.iter().filter(|work| wanted(work.name));
    works
        .map(|work| {
            let rates = (0..rounds).map(|_| work.rate());
            Row::of_rates(work.name.to_owned(), rates, "IOPS")
        })
        .collect()
}
