//! An open device, and its I/O in flight.
use std::collections::{HashMap, VecDeque};
use std::thread;
use zonal_backend::Stack;
use zonal_blk::{Bio, Completion as BioCompletion, Nanos, Op, Status};
use zonal_lab::zone::{Advance, SyncChannel};

/// Bytes of a sector.
pub const SECTOR: u64 = 512;

/// An I/O that was submitted.
pub struct Flight {
    /// The number of its queue; `None` for an operation of the device itself.
    pub queue: Option<u64>,
    pub op: Op,
    pub offset: u64,
    pub length: u64,
    pub submitted: Nanos,
}

/// An I/O that has completed.
pub struct Done {
    pub number: u64,
    pub flight: Flight,
    pub completion: BioCompletion,
    pub at: Nanos,
    /// Why it failed, if it did and the device knows.
    pub why: Option<String>,
}

/// An open device and its one channel, so that the device and its queues have one time, and no wait of one
/// is for a completion that only another gets.
pub struct Open {
    pub attached: Stack,
    channel: SyncChannel,
    /// By the `user_data` of their bios.
    flights: HashMap<u64, Flight>,
    /// In the order of their completion.
    done: VecDeque<Done>,
    next_number: u64,
    next_queue: u64,
}

impl Open {
    pub fn new(attached: Stack, channel: SyncChannel) -> Self {
        let (flights, done) = (HashMap::new(), VecDeque::new());
        Open { attached, channel, flights, done, next_number: 0, next_queue: 0 }
    }

    /// The number of a new queue.
    pub fn new_queue(&mut self) -> u64 {
        self.next_queue += 1;
        self.next_queue
    }

    /// The virtual time.
    pub fn seconds(&self) -> f64 {
        seconds(self.channel.now())
    }

    /// Submits a bio, for a queue or for the device itself. Returns its number.
    pub fn submit(&mut self, bio: Bio, queue: Option<u64>) -> u64 {
        self.next_number += 1;
        let flight = Flight {
            queue,
            op: bio.op,
            offset: bio.sector.0 * SECTOR,
            length: u64::from(bio.nr_sectors) * SECTOR,
            submitted: self.channel.now(),
        };
        self.flights.insert(self.next_number, flight);
        self.channel.submit(Bio { user_data: self.next_number, ..bio });
        self.next_number
    }

    /// Gathers what has completed.
    fn gather(&mut self) {
        let mut completions = Vec::new();
        self.channel.poll(&mut completions);
        let failures = self.channel.take_failures();
        for completion in completions {
            let number = completion.user_data;
            let flight = self.flights.remove(&number).expect("an I/O completes once");
            let failed = failures.iter().rev().find(|failure| {
                let at = flight.offset / SECTOR;
                let has = failure.sector.0..failure.sector.0 + u64::from(failure.nr_sectors).max(1);
                completion.status != Status::Ok && failure.op == flight.op && has.contains(&at)
            });
            let why = failed.map(|failure| failure.to_string());
            self.done.push_back(Done { number, flight, completion, at: self.channel.now(), why });
        }
    }

    /// Looks for the completion of one I/O; without it, goes to the next event.
    pub fn step(&mut self, number: u64) -> (Option<(BioCompletion, Option<String>)>, Advance) {
        self.gather();
        let at = self.done.iter().position(|done| done.number == number);
        match at.and_then(|at| self.done.remove(at)) {
            Some(done) => (Some((done.completion, done.why)), Advance::Passed),
            None => (None, self.channel.advance()),
        }
    }

    /// I/Os of a queue that were submitted and not given out.
    pub fn outstanding(&self, queue: u64) -> usize {
        let flights = self.flights.values().filter(|flight| flight.queue == Some(queue));
        flights.count() + self.done.iter().filter(|done| done.flight.queue == Some(queue)).count()
    }

    /// Takes what has completed of a queue. Without any, goes to the next event if the queue has an I/O
    /// in flight.
    pub fn take(&mut self, queue: u64) -> (Vec<Done>, Option<Advance>) {
        self.gather();
        let (mine, others): (VecDeque<Done>, VecDeque<Done>) =
            self.done.drain(..).partition(|done| done.flight.queue == Some(queue));
        self.done = others;
        let waits = mine.is_empty() && self.outstanding(queue) > 0;
        (mine.into(), waits.then(|| self.channel.advance()))
    }
}

impl Drop for Open {
    /// Waits for what is in flight: each bio completes.
    fn drop(&mut self) {
        self.gather();
        while !self.flights.is_empty() {
            if self.channel.advance() == Advance::Outside {
                thread::yield_now();
            }
            self.gather();
        }
    }
}

pub fn seconds(nanos: Nanos) -> f64 {
    nanos.0 as f64 / 1e9
}
