//! The queue depth of a job, and the depths that are bounded by it.
use super::engine::has_queue;
use crate::job::{GivenDepths, Job};

impl GivenDepths {
    /// Those of a job to which fio's rules have not been applied.
    pub(super) fn of(job: &Job) -> Self {
        GivenDepths {
            batch: job.iodepth_batch,
            batch_complete_min: job.iodepth_batch_complete_min,
            batch_complete_max: job.iodepth_batch_complete_max,
            low: job.iodepth_low,
        }
    }
}

impl Job {
    /// Gives the job another queue depth, as if its text had said so: with fio's rules for depths that are not set
    /// or larger than it.
    pub fn set_iodepth(&mut self, depth: u32) {
        let GivenDepths { batch, batch_complete_min, batch_complete_max, low } = self.limits.depths;
        let at_most_iodepth = |given: u32| if given == 0 { depth } else { given.min(depth) };
        self.iodepth = depth;
        self.iodepth_batch = at_most_iodepth(batch);
        self.iodepth_low = at_most_iodepth(low);
        // Waiting for more completions than can be in flight would never end.
        self.iodepth_batch_complete_min = batch_complete_min.min(depth);
        self.iodepth_batch_complete_max = match batch_complete_max {
            0 => 0,
            most => at_most_iodepth(most).max(self.iodepth_batch_complete_min),
        };
        self.address.restarts = depth > 1 || has_queue(&self.ioengine);
    }
}
