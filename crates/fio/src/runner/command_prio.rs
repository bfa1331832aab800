//! Chooses the I/Os of a clone that have a priority of their own (`cmdprio_*`).
use crate::generate::Io;
use crate::job::{CommandPrioOptions, DataDir, Job, PrioShare, ioprio};
use crate::rng::Rng;
use zonal_blk::{Bio, Prio};

pub(crate) struct CommandPrios {
    options: CommandPrioOptions,
    rng: Rng,
    /// The priority of the job, as in ioprio_set(2).
    of_job: u16,
    /// By slot, the priority of its last I/O.
    by_slot: Vec<u16>,
}

impl CommandPrios {
    /// The priorities of a clone of `job`; `None` if all I/O has that of the job.
    pub fn new(job: &Job, rng: Rng) -> Option<Box<Self>> {
        let by_slot = vec![job.logs.ioprio; job.iodepth as usize + 1];
        let (options, of_job) = (job.cmdprio.clone(), job.logs.ioprio);
        options.is_used().then(|| Box::new(CommandPrios { options, rng, of_job, by_slot }))
    }

    /// Sets the priority of an I/O of the job that is about to be submitted.
    pub fn set(&mut self, slot: u32, io: &Io, bio: &mut Bio) {
        let chosen = match io.dir {
            DataDir::Trim => None,
            DataDir::Read | DataDir::Write => self.choose(io.dir as usize, io.len),
        };
        if let Some((class, level)) = chosen {
            bio.prio = Prio::from_ioprio(class, level).expect("the table limits the class to 3");
        }
        let of_io = chosen.map_or(self.of_job, |(class, level)| ioprio(class, level));
        self.by_slot[slot as usize] = of_io;
    }

    /// The priority of the last I/O of a slot, as in ioprio_set(2).
    pub fn of_slot(&self, slot: u32) -> u16 {
        self.by_slot[slot as usize]
    }

    fn choose(&mut self, dir: usize, len: u64) -> Option<(u8, u8)> {
        let default = (self.options.class[dir], self.options.level[dir]);
        let drawn = self.rng.below(100);
        if self.options.shares[dir].is_empty() {
            return (drawn < self.options.percentage[dir].into()).then_some(default);
        }
        let of_size = self.options.shares[dir].iter().filter(|share| share.size == len);
        let mut up_to = 0;
        for &PrioShare { percent, prio, .. } in of_size {
            up_to += u64::from(percent);
            if drawn < up_to {
                return Some(prio.unwrap_or(default));
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of 10,000 I/Os of a size, how many have each priority.
    fn counts(options: CommandPrioOptions, dir: usize, len: u64) -> Vec<((u8, u8), u32)> {
        let job = Job { cmdprio: options, ..Job::default() };
        let mut prios = CommandPrios::new(&job, Rng::new(1, [0; 4])).expect("some have one");
        let mut counts: Vec<((u8, u8), u32)> = Vec::new();
        for prio in (0..10_000).filter_map(|_| prios.choose(dir, len)) {
            match counts.iter_mut().find(|(known, _)| *known == prio) {
                Some((_, count)) => *count += 1,
                None => counts.push((prio, 1)),
            }
        }
        counts.sort_unstable();
        counts
    }

    fn is_about(count: u32, expected: u32) -> bool {
        count.abs_diff(expected) < 200
    }

    #[test]
    fn a_percentage_of_reads_and_of_writes_has_the_priority() {
        let options = CommandPrioOptions {
            percentage: [20, 0],
            level: [3, 0],
            ..CommandPrioOptions::default()
        };
        let reads = counts(options.clone(), 0, 4096);
        assert!(matches!(reads[..], [((1, 3), count)] if is_about(count, 2000)), "{reads:?}");
        assert_eq!(counts(options, 1, 4096), []);
        assert!(CommandPrios::new(&Job::default(), Rng::new(1, [0; 4])).is_none());
    }

    #[test]
    fn percentages_by_size_have_priorities_of_their_own() {
        let share = |size, percent, prio| PrioShare { size, percent, prio };
        let shares = [
            vec![
                share(4096, 10, Some((3, 1))),
                share(8192, 50, None),
                share(4096, 30, Some((1, 7))),
            ],
            Vec::new(),
        ];
        let options = CommandPrioOptions { shares, class: [2; 2], ..Default::default() };
        let small = counts(options.clone(), 0, 4096);
        assert!(
            matches!(small[..], [((1, 7), a), ((3, 1), b)] if is_about(a, 3000) && is_about(b, 1000)),
            "{small:?}"
        );
        let large = counts(options.clone(), 0, 8192);
        assert!(matches!(large[..], [((2, 0), count)] if is_about(count, 5000)), "{large:?}");
        assert_eq!(counts(options, 0, 512), []);
    }
}
