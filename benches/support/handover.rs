//! The part of a read that no block layer of this form can leave out, on its own: the bio travels in a
//! carrier from a pool to a queue of a device and back, with a tag, and a freeze of the queue would see it.
//! There are no limits, zones, schedulers, statistics, traces or timeouts. What a read of the layer takes
//! beyond this is the price of those.
use super::BLOCK;
use std::hint::black_box;
use std::sync::atomic::{AtomicBool, Ordering};
use zonal_blk::{Bio, Completion, Nanos, Op, Sector, Status};

/// Stands for a request.
struct Carrier {
    bio: Bio,
    tag: u16,
    status: Status,
}

/// Stands for a hardware queue of a device, whose kind the layer does not know.
trait DeviceQueue {
    fn start(&mut self, now: Nanos, carrier: Box<Carrier>);
    fn poll(&mut self, now: Nanos, done: &mut Vec<Box<Carrier>>);
}

/// Completes at the next poll.
#[derive(Default)]
struct NullQueue {
    pending: Vec<Box<Carrier>>,
}

impl DeviceQueue for NullQueue {
    fn start(&mut self, _now: Nanos, carrier: Box<Carrier>) {
        self.pending.push(carrier);
    }

    fn poll(&mut self, _now: Nanos, done: &mut Vec<Box<Carrier>>) {
        while let Some(mut carrier) = self.pending.pop() {
            carrier.status = Status::Ok;
            done.push(carrier);
        }
    }
}

/// Stands for a channel.
struct Carriers {
    queue: Box<dyn DeviceQueue>,
    pool: Vec<Box<Carrier>>,
    tags: Vec<u16>,
    /// By tag.
    started: Vec<Nanos>,
    done: Vec<Box<Carrier>>,
    inside: usize,
    in_use: AtomicBool,
    frozen: AtomicBool,
}

impl Carriers {
    fn new(depth: u16) -> Self {
        let empty =
            || Carrier { bio: Bio::new(Op::Flush, Sector(0), 0, 0), tag: 0, status: Status::Ok };
        Carriers {
            queue: black_box(Box::<NullQueue>::default()),
            pool: (0..depth).map(|_| Box::new(empty())).collect(),
            tags: (0..depth).collect(),
            started: vec![Nanos(0); usize::from(depth)],
            done: Vec::new(),
            inside: 0,
            in_use: AtomicBool::new(false),
            frozen: AtomicBool::new(false),
        }
    }

    #[inline(always)]
    fn submit(&mut self, now: Nanos, bio: Bio) {
        if self.inside == 0 {
            self.in_use.swap(true, Ordering::SeqCst);
        }
        assert!(!self.frozen.load(Ordering::SeqCst), "nobody freezes it");
        self.inside += 1;
        let mut carrier = self.pool.pop().expect("no more than the depth");
        carrier.tag = self.tags.pop().expect("no more than the depth");
        carrier.bio = bio;
        self.started[usize::from(carrier.tag)] = now;
        self.queue.start(now, carrier);
    }

    fn poll(&mut self, now: Nanos, completions: &mut Vec<Completion>) {
        self.queue.poll(now, &mut self.done);
        while let Some(mut carrier) = self.done.pop() {
            self.tags.push(carrier.tag);
            let (user_data, sector) = (carrier.bio.user_data, carrier.bio.sector);
            let (status, buf) = (carrier.status, carrier.bio.buf.take());
            completions.push(Completion { user_data, status, refused: false, sector, buf });
            self.pool.push(carrier);
            self.inside -= 1;
        }
        if self.inside == 0 {
            self.in_use.store(false, Ordering::Release);
        }
    }
}

/// As [`read`](super::read) with this in place of the layer, on a device of `blocks` blocks.
pub fn read(blocks: u64, depth: u16, count: u64) {
    let mut carriers = Carriers::new(depth);
    let mut done = Vec::with_capacity(usize::from(depth) + 1);
    let (mut left, mut in_flight, mut now, mut random) = (count, 0, 0, 1_u64);
    while left > 0 || in_flight > 0 {
        while left > 0 && in_flight < usize::from(depth) {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let sector = Sector((random >> 33) % blocks * BLOCK);
            now += 1;
            carriers.submit(Nanos(now), Bio::new(Op::Read, sector, BLOCK as u32, 0));
            left -= 1;
            in_flight += 1;
        }
        carriers.poll(Nanos(now), &mut done);
        in_flight -= done.len();
        for completion in done.drain(..) {
            assert_eq!(completion.status, Status::Ok);
        }
    }
}
