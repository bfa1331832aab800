//! A disk with its block layer, and virtual time.
use std::sync::Arc;
use zonal_blk::{
    Bio, Buf, Channel, Completion, Device, Nanos, Op, Queue, QueueOptions, Sector, Status,
    ZoneWrite,
};
use zonal_device::device_spec::parse;
use zonal_device::{HddConfig, HddDevice};

/// A conventional disk on which little goes on but what a test looks at.
pub const PLAIN: &str =
    "hdd:size=64G,heads=2,rings=4,command=10us,read_ahead=0,segments=1,cache=8M";
/// A small shingled disk.
pub const SMR: &str = "hdd:recording=smr,zones=64,zone_size=16M,max_open=8,heads=2,rings=2,lba=4K,\
    command=10us,cache=8M";

/// The configuration that a spec says.
pub fn config(spec: &str) -> HddConfig {
    match parse(spec) {
        Ok(spec) if spec.kind() == "hdd" => spec.config_of::<HddConfig>().expect("a disk").clone(),
        other => panic!("{spec}: {other:?}"),
    }
}

/// A spec with more options, in place of its own where it has them.
pub fn with(spec: &str, options: &str) -> HddConfig {
    let (device, own) = spec.split_once(':').expect("a spec with options");
    let name = |option: &str| option.split_once('=').map(|(name, _)| name.trim().to_owned());
    let given: Vec<_> = options.split(',').map(name).collect();
    let kept = own.split(',').filter(|option| !given.contains(&name(option)));
    let all: Vec<&str> = kept.chain([options]).collect();
    config(&format!("{device}:{}", all.join(",")))
}

/// The end of a bio.
#[derive(Clone, Debug, PartialEq)]
pub struct End {
    pub user_data: u64,
    pub at: u64,
    pub status: Status,
}

pub struct Rig {
    pub device: Arc<HddDevice>,
    channel: Channel,
    pub now: u64,
    pub ends: Vec<End>,
    /// Their buffers.
    pub buffers: Vec<Buf>,
}

impl Rig {
    pub fn new(config: &HddConfig) -> Self {
        Self::traced(config, None, ZoneWrite::Plug)
    }

    pub fn traced(config: &HddConfig, trace: Option<usize>, zone_write: ZoneWrite) -> Self {
        let device = Arc::new(HddDevice::with_trace(config, trace).expect("a valid disk"));
        let options =
            QueueOptions { zone_write: Some(zone_write), merge: false, ..QueueOptions::default() };
        let queue = Queue::attach(Arc::clone(&device) as Arc<dyn Device>, options).unwrap();
        Rig {
            device,
            channel: queue.channel().unwrap(),
            now: 0,
            ends: Vec::new(),
            buffers: Vec::new(),
        }
    }

    pub fn submit(&mut self, bio: Bio) {
        self.channel.submit(Nanos(self.now), bio);
    }

    /// Lets time go on to the next moment when something may happen, and shows it to `look`.
    fn step(&mut self, look: &mut impl FnMut(&HddDevice)) {
        let next = self.channel.next_event().at().expect("something is in flight");
        self.now = self.now.max(next.0);
        self.poll(look);
    }

    /// Lets this much time go by, whether something may happen or not.
    pub fn wait(&mut self, time: u64) {
        self.now += time;
        self.poll(&mut |_| {});
    }

    fn poll(&mut self, look: &mut impl FnMut(&HddDevice)) {
        let mut completions: Vec<Completion> = Vec::new();
        self.channel.poll(Nanos(self.now), &mut completions);
        look(&self.device);
        let at = self.now;
        for Completion { user_data, status, buf, .. } in completions {
            self.ends.push(End { user_data, at, status });
            self.buffers.extend(buf);
        }
    }

    /// Until at most this many bios are out.
    pub fn run_to(&mut self, outstanding: usize, mut look: impl FnMut(&HddDevice)) {
        while self.channel.outstanding() > outstanding {
            self.step(&mut look);
        }
    }

    /// Until all that was submitted is done.
    pub fn run(&mut self) {
        self.run_to(0, |_| {});
    }

    /// Does one bio and gives how long it took.
    pub fn time(&mut self, op: Op, sector: u64, sectors: u32) -> u64 {
        let start = self.now;
        self.submit(Bio::new(op, Sector(sector), sectors, 0));
        self.run();
        let end = self.ends.pop().expect("it has ended");
        assert_eq!(end.status, Status::Ok, "{op:?} at {sector}");
        end.at - start
    }
}
