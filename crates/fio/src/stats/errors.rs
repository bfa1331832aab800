//! Failed I/Os, counted by direction and status.
//!
//! Takes: the status of each failed I/O. Gives: totals, and which came first. Keeps true: statuses
//! are listed in the order in which they were first seen, so the same run gives the same list.
use crate::job::DataDir;
use zonal_blk::Status;

/// Error counters of a job.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Errors {
    by_status: Vec<(Status, [u64; 3])>,
}

impl Errors {
    /// Counts one failed I/O.
    pub fn add(&mut self, dir: DataDir, status: Status) {
        self.counts_of(status)[dir as usize] += 1;
    }

    /// Adds all counts of `other`; its first error comes after those seen here.
    pub fn merge(&mut self, other: &Self) {
        for &(status, theirs) in &other.by_status {
            for (mine, theirs) in self.counts_of(status).iter_mut().zip(theirs) {
                *mine += theirs;
            }
        }
    }

    fn counts_of(&mut self, status: Status) -> &mut [u64; 3] {
        let seen = self.by_status.iter().position(|&(s, _)| s == status);
        let place = seen.unwrap_or_else(|| {
            self.by_status.push((status, [0; 3]));
            self.by_status.len() - 1
        });
        &mut self.by_status[place].1
    }

    /// Number of failed I/Os.
    pub fn total(&self) -> u64 {
        self.by_status.iter().flat_map(|(_, counts)| counts).sum()
    }

    /// Number of failed I/Os of `dir`.
    pub fn of(&self, dir: DataDir) -> u64 {
        self.by_status.iter().map(|(_, counts)| counts[dir as usize]).sum()
    }

    /// The status of the first failed I/O.
    pub fn first(&self) -> Option<Status> {
        self.by_status.first().map(|&(status, _)| status)
    }

    /// Each status seen, with its counts by [`DataDir`].
    pub fn by_status(&self) -> &[(Status, [u64; 3])] {
        &self.by_status
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_counted_by_status_and_direction() {
        let mut errors = Errors::default();
        errors.add(DataDir::Write, Status::IoError);
        errors.add(DataDir::Read, Status::Medium);
        errors.add(DataDir::Write, Status::IoError);
        let mut sum = Errors::default();
        sum.add(DataDir::Read, Status::Medium);
        sum.merge(&errors);
        assert_eq!((sum.total(), sum.of(DataDir::Read), sum.of(DataDir::Write)), (4, 2, 2));
        assert_eq!(sum.by_status(), [(Status::Medium, [2, 0, 0]), (Status::IoError, [0, 2, 0])]);
        assert_eq!((errors.first(), sum.first()), (Some(Status::IoError), Some(Status::Medium)));
    }
}
