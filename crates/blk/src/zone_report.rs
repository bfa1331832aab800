//! A report of many zones, read in batches.
use crate::queue::Queue;
use crate::status::Status;
use crate::units::ZoneNo;
use crate::zone::{REPORT_BATCH, Zone};
use std::ops::Range;

/// The zones of a range, as [`Queue::report_zones`] reports them: one by one as an iterator, which ends
/// after an error, or batch by batch.
pub struct ZoneReport<'a> {
    queue: &'a Queue,
    /// The zones that are not in a batch yet.
    left: Range<u32>,
    batch: Vec<Zone>,
    /// Zones of the batch that were returned.
    taken: usize,
}

impl Queue {
    /// The zones of a range, up to the last zone of the device.
    pub fn zones(&self, range: Range<ZoneNo>) -> ZoneReport<'_> {
        let left = range.start.0..range.end.0.min(self.nr_zones());
        ZoneReport { queue: self, left, batch: Vec::new(), taken: 0 }
    }

    /// All zones.
    pub fn all_zones(&self) -> ZoneReport<'_> {
        self.zones(ZoneNo(0)..ZoneNo(self.nr_zones()))
    }
}

impl ZoneReport<'_> {
    /// The next zones, without those that the iterator has returned; none at the end of the range.
    ///
    /// # Errors
    /// The status with which the device refused; [`Status::IoError`] if it reports no zone where there
    /// is one. The range has ended then.
    pub fn next_batch(&mut self) -> Result<&[Zone], Status> {
        if self.taken == self.batch.len() {
            self.read()?;
        }
        Ok(&self.batch[std::mem::replace(&mut self.taken, self.batch.len())..])
    }

    fn read(&mut self) -> Result<(), Status> {
        self.batch.clear();
        self.taken = 0;
        if self.left.is_empty() {
            return Ok(());
        }
        let first = ZoneNo(self.left.start);
        let reported =
            self.queue.report_zones(first, REPORT_BATCH.min(self.left.len()), &mut self.batch);
        let answer =
            reported.and(if self.batch.is_empty() { Err(Status::IoError) } else { Ok(()) });
        match answer {
            Ok(()) => {
                self.left.start += u32::try_from(self.batch.len()).expect("a batch is small");
            }
            Err(_) => {
                self.batch.clear();
                self.left = 0..0;
            }
        }
        answer
    }
}

impl Iterator for ZoneReport<'_> {
    type Item = Result<Zone, Status>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.taken == self.batch.len()
            && let Err(status) = self.read()
        {
            return Some(Err(status));
        }
        let zone = *self.batch.get(self.taken)?;
        self.taken += 1;
        Some(Ok(zone))
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;
    use crate::{Device, HwQueue, Limits, QueueOptions, Sector, TimedQueue};
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    /// Reports at most `most` zones at a time.
    struct Slow {
        limits: Limits,
        most: AtomicUsize,
    }

    impl Device for Slow {
        fn limits(&self) -> &Limits {
            &self.limits
        }

        fn report_zones(
            &self,
            first: ZoneNo,
            max: usize,
            zones: &mut Vec<Zone>,
        ) -> Result<(), Status> {
            let most = self.most.load(Ordering::Relaxed);
            zones.extend(self.limits.empty_zones(first, most.min(max)));
            Ok(())
        }

        fn zones_as_new(&self, _first: ZoneNo, max: u32) -> u32 {
            max
        }

        fn open_queue(self: Arc<Self>) -> Box<dyn HwQueue> {
            Box::new(TimedQueue::new(|now, _: &mut crate::Request| (Status::Ok, now)))
        }
    }

    fn queue(most: usize) -> Arc<Queue> {
        let limits = Limits::zoned(10_000, Sector(8));
        let device = Arc::new(Slow { limits, most: AtomicUsize::new(usize::MAX) });
        let queue = Queue::attach(Arc::clone(&device) as _, QueueOptions::default());
        // Attaching wants all that it asks for.
        device.most.store(most, Ordering::Relaxed);
        queue.expect("a queue")
    }

    #[test]
    fn every_zone_of_the_range_is_reported_once_whatever_the_device_reports_at_a_time() {
        for most in [1, 7, usize::MAX] {
            let queue = queue(most);
            for (range, expected) in
                [(0..10_000, 0..10_000), (5..9, 5..9), (9990..u32::MAX, 9990..10_000), (7..7, 7..7)]
            {
                let starts: Vec<u64> = queue
                    .zones(ZoneNo(range.start)..ZoneNo(range.end))
                    .map(|zone| zone.expect("a zone").start.0 / 8)
                    .collect();
                assert_eq!(starts, expected.collect::<Vec<u64>>(), "{most} at a time");
            }
        }
    }

    #[test]
    fn batches_go_on_where_the_iterator_was() {
        let queue = queue(100);
        let mut report = queue.zones(ZoneNo(10)..ZoneNo(150));
        assert_eq!(report.next().expect("a zone").expect("a zone").start, Sector(80));
        assert_eq!(report.next_batch().expect("zones").len(), 99);
        assert_eq!(report.next_batch().expect("zones").len(), 40);
        assert_eq!(report.next_batch(), Ok(&[][..]));
        assert_eq!(report.next(), None);
    }

    #[test]
    fn report_that_ends_too_early_is_one_error() {
        let queue = queue(64);
        // A range beyond the device stands for a device that reports less than it has.
        let mut report =
            ZoneReport { queue: &queue, left: 9990..10_100, batch: Vec::new(), taken: 0 };
        assert_eq!(report.by_ref().take_while(Result::is_ok).count(), 10);
        assert_eq!(report.next(), None, "it has ended");
    }
}
