//! Which jobs are served beside which: the same checks in virtual time and on real threads.
//!
//! Two jobs share a slow device. A witness in front of it notes each command that is sent and what
//! waits then. On a busy machine a thread may get no CPU for so long that nothing of its job waits
//! any more, and the other has the device for itself: only what is sent while both wait counts. By
//! that alone, and never by which job was served, it is decided what counts and when there is enough.
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread;
use std::time::Duration;
use zonal_blk::Clock;
use zonal_blk::sched::Scheduler;
use zonal_blk::{
    Bio, Channel, Device, HwQueue, Limits, Nanos, Op, Prio, PrioClass, Queue, QueueOptions,
    Request, Sector, Status, Wake,
};
use zonal_os::RealClock;

#[derive(Clone, Copy, Debug, PartialEq)]
enum ClockKind {
    Virtual,
    Real,
}

const BOTH: [ClockKind; 2] = [ClockKind::Virtual, ClockKind::Real];

/// One command at a time, so that nothing but the scheduler orders.
const DEVICE: &str = "null:zoned=false,size=16G,latency=500us,queues=1,depth=1";
const SECTORS: u32 = 8;
/// From one request to the next.
const STRIDE: u64 = 16;
/// Commands in a row while which both jobs have something waiting, for the row to count.
const ROW: usize = 400;
/// Commands in rows that count.
const ENOUGH: usize = 1200;
/// Requests in hand: at the device's speed enough for 128 ms without a turn on the CPU.
const DEEP: usize = 256;
/// Each of two threads may have chosen a command before the last one was sent.
const CHOSEN_AHEAD: usize = 2;

#[derive(Clone, Copy)]
struct Job {
    weight: u16,
    prio: Prio,
    depth: usize,
}

impl Default for Job {
    fn default() -> Self {
        Job { weight: 100, prio: Prio::default(), depth: DEEP }
    }
}

/// A command that was sent.
#[derive(Clone, Copy, Debug)]
struct Start {
    at: Nanos,
    job: usize,
    /// When it came to the scheduler.
    queued_at: Nanos,
    /// How many commands had been sent when it was submitted.
    submitted_after: usize,
    /// Both jobs had something waiting, apart from this.
    contended: bool,
}

/// What happened so far.
#[derive(Default)]
struct Log {
    /// By job: for each request, how many commands had been sent when it had been submitted.
    submits: [Vec<usize>; 2],
    started: [usize; 2],
    starts: Vec<Start>,
    row: usize,
    /// Commands in rows that count.
    counted: usize,
}

impl Log {
    fn note_start(&mut self, at: Nanos, request: &Request) {
        let job = request.process() as usize;
        let number = usize::try_from(request.sector().0 / STRIDE / 2).expect("a number");
        // It may be sent before it is noted that it has been submitted.
        let submitted = self.submits[job].get(number).copied();
        self.started[job] += 1;
        let contended = (0..2).all(|job| self.submits[job].len() > self.started[job]);
        self.row = if contended { self.row + 1 } else { 0 };
        self.counted += match self.row {
            row if row < ROW => 0,
            ROW => ROW,
            _ => 1,
        };
        self.starts.push(Start {
            at,
            job,
            queued_at: request.queued_at(),
            submitted_after: submitted.unwrap_or(self.starts.len()),
            contended,
        });
    }

    /// What was sent while both jobs had something waiting, for long enough at a time.
    fn rows(&self) -> Vec<&[Start]> {
        let rows = self.starts.chunk_by(|a, b| a.contended == b.contended);
        let rows: Vec<_> = rows.filter(|row| row[0].contended && row.len() >= ROW).collect();
        let counted: usize = rows.iter().map(|row| row.len()).sum();
        assert!(counted >= ENOUGH, "only {counted} of {} commands count", self.starts.len());
        rows
    }
}

/// The device, with a log of what it is sent.
struct LoggingDevice {
    device: Arc<dyn Device>,
    log: Arc<Mutex<Log>>,
}

struct LoggingQueue(Box<dyn HwQueue>, Arc<Mutex<Log>>);

impl Device for LoggingDevice {
    fn inner(&self) -> Option<&dyn Device> {
        Some(&*self.device)
    }

    fn limits(&self) -> &Limits {
        self.device.limits()
    }

    fn open_queue(self: Arc<Self>) -> Box<dyn HwQueue> {
        let queue = Arc::clone(&self.device).open_queue();
        Box::new(LoggingQueue(queue, Arc::clone(&self.log)))
    }
}

impl HwQueue for LoggingQueue {
    fn inner(&self) -> Option<&dyn HwQueue> {
        Some(&*self.0)
    }

    fn inner_mut(&mut self) -> Option<&mut dyn HwQueue> {
        Some(&mut *self.0)
    }

    fn start(&mut self, now: Nanos, request: Box<Request>) -> Result<(), Box<Request>> {
        lock(&self.1).note_start(now, &request);
        self.0.start(now, request)
    }

    fn poll(&mut self, now: Nanos, done: &mut Vec<Box<Request>>) {
        self.0.poll(now, done);
    }

    fn next_event(&self) -> Wake {
        self.0.next_event()
    }
}

fn lock(log: &Mutex<Log>) -> MutexGuard<'_, Log> {
    log.lock().expect("no thread panicked with it")
}

/// A job at work: reads, as many at the same time as its depth, until there is enough to judge by.
struct Reader {
    channel: Channel,
    job: Job,
    number: usize,
    log: Arc<Mutex<Log>>,
    enough: fn(&Log) -> bool,
    draining: bool,
}

impl Reader {
    fn step(&mut self, now: Nanos) {
        let mut done = Vec::new();
        self.channel.poll(now, &mut done);
        assert!(done.iter().all(|completion| completion.status == Status::Ok));
        let enough = {
            let log = lock(&self.log);
            (self.enough)(&log) || log.starts.len() > 100 * ENOUGH
        };
        while !enough && self.channel.outstanding() < self.job.depth {
            let number = lock(&self.log).submits[self.number].len() * 2 + self.number;
            // Apart, so that none are merged.
            let sector = Sector(number as u64 * STRIDE);
            let bio = Bio { prio: self.job.prio, ..Bio::new(Op::Read, sector, SECTORS, 0) };
            self.channel.submit(now, bio);
            let mut log = lock(&self.log);
            let sent = log.starts.len();
            log.submits[self.number].push(sent);
        }
        if enough && self.channel.outstanding() == 0 {
            self.channel.drain();
            self.draining = true;
        }
    }

    fn is_done(&mut self) -> bool {
        self.draining && self.channel.is_idle()
    }
}

/// Runs both jobs under a scheduler until there is enough. Gives what the witness saw.
fn run(
    clock_kind: ClockKind,
    scheduler: (&str, &[(&str, &str)]),
    jobs: [Job; 2],
    enough: fn(&Log) -> bool,
) -> Log {
    let (name, attributes) = scheduler;
    let mut scheduler: Scheduler = name.parse().expect("a scheduler");
    for (attribute, value) in attributes {
        scheduler.set(attribute, value).expect("an attribute");
    }
    let spec = zonal_device::device_spec::parse(DEVICE).expect("a device spec");
    let device = zonal_device::device_spec::build(&spec).expect("a device");
    let log = Arc::new(Mutex::new(Log::default()));
    let logging_device = Arc::new(LoggingDevice { device, log: Arc::clone(&log) });
    let options = QueueOptions { scheduler, share_queues: true, ..QueueOptions::default() };
    let queue = Queue::attach(logging_device, options).expect("a device that keeps the rules");
    let readers = [0, 1].map(|number| {
        let mut channel = queue.channel().expect("a channel");
        channel.set_weight(jobs[number].weight);
        Reader {
            channel,
            job: jobs[number],
            number,
            log: Arc::clone(&log),
            enough,
            draining: false,
        }
    });
    match clock_kind {
        ClockKind::Virtual => run_virtual(readers),
        ClockKind::Real => run_real(readers),
    }
    std::mem::take(&mut *lock(&log))
}

fn run_virtual(mut readers: [Reader; 2]) {
    let mut now = Nanos(0);
    while !readers.iter_mut().all(Reader::is_done) {
        readers.iter_mut().for_each(|reader| reader.step(now));
        let next = readers.iter_mut().filter_map(|reader| reader.channel.next_event().at()).min();
        now = next.map_or(now, |at| at.max(now)) + Nanos(1000);
    }
}

fn run_real(readers: [Reader; 2]) {
    let clock = RealClock::start();
    thread::scope(|scope| {
        for mut reader in readers {
            let clock = clock.clone();
            scope.spawn(move || {
                while !reader.is_done() {
                    reader.step(clock.now());
                    thread::sleep(Duration::from_micros(100));
                }
            });
        }
    });
}

fn is_enough(log: &Log) -> bool {
    log.counted >= ENOUGH
}

#[test]
fn bfq_divides_the_device_by_weight() {
    let bfq = ("bfq", &[("low_latency", "0"), ("max_budget", "16")][..]);
    let jobs = [100, 300].map(|weight| Job { weight, ..Job::default() });
    for clock_kind in BOTH {
        let log = run(clock_kind, bfq, jobs, is_enough);
        let rows = log.rows();
        let served = [0, 1].map(|job| {
            rows.iter().flat_map(|row| row.iter()).filter(|start| start.job == job).count()
        });
        let ratio = served[1] as f64 / served[0] as f64;
        assert!((2.85..=3.15).contains(&ratio), "{clock_kind:?}: {served:?}");
        // A budget is two commands, and the lighter gets one in four.
        let passed_over = rows
            .iter()
            .flat_map(|row| row.chunk_by(|a, b| a.job == b.job))
            .filter(|same| same[0].job == 1)
            .map(<[_]>::len)
            .max();
        assert!(passed_over <= Some(2 * 6), "{clock_kind:?}: {passed_over:?} commands");
    }
}

const URGENT: usize = 0;
const IDLE: usize = 1;

fn urgent_and_idle(idle_depth: usize) -> [Job; 2] {
    let urgent = Job { prio: Prio::new(PrioClass::Realtime, 0), ..Job::default() };
    let idle = Prio::new(PrioClass::Idle, 7);
    [urgent, Job { prio: idle, depth: idle_depth, ..Job::default() }]
}

#[test]
fn mq_deadline_serves_no_idle_class_while_real_time_waits() {
    let patient = ("mq-deadline", &[("prio_aging_expire", "86400s")][..]);
    for clock_kind in BOTH {
        let log = run(clock_kind, patient, urgent_and_idle(DEEP), is_enough);
        for row in log.rows() {
            let served = row.iter().skip(CHOSEN_AHEAD).filter(|start| start.job == IDLE).count();
            assert_eq!(served, 0, "{clock_kind:?}: of {}", row.len());
        }
    }
}

#[test]
fn mq_deadline_starves_no_idle_request_beyond_its_aging() {
    const AGING: Nanos = Nanos(50_000_000);
    let aging = ("mq-deadline", &[("prio_aging_expire", "50ms")][..]);
    for clock_kind in BOTH {
        let log = run(clock_kind, aging, urgent_and_idle(16), |log| log.started[IDLE] >= 160);
        assert!(log.started[IDLE] >= 160, "{clock_kind:?}: {:?}", log.started);
        for (sent, idle) in log.starts.iter().enumerate().filter(|(_, s)| s.job == IDLE) {
            let seen_after = idle.submitted_after + CHOSEN_AHEAD;
            let meanwhile = log.starts.get(seen_after..sent).unwrap_or_default();
            let aged = meanwhile.iter().filter(|start| start.at >= idle.queued_at + AGING);
            let preferred = aged.filter(|start| start.job == URGENT).count();
            assert!(preferred <= CHOSEN_AHEAD, "{clock_kind:?}: {preferred} before {idle:?}");
        }
    }
}
