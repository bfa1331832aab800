//! A wrapper answers as the device inside, except for what it changes: every kind of device in every
//! wrapper, and in pairs of them.
mod kinds;

use kinds::{DeviceKind, WRAPPERS, Wrapper, kinds};
use std::sync::Arc;
use zonal_blk::{
    Abort, AgingLimits, Bio, Buf, Device, Limits, Nanos, Op, PlacementLayout, Queue, QueueOptions,
    ReadBufs, Sector, Status, Tag, Wake, Zone, ZoneNo, ZrwaLimits,
};
use zonal_device::control::{DeviceControl, DeviceStats, Lateness, Level};

/// All that a device and one of its hardware queues say.
#[derive(Clone, Debug, PartialEq)]
struct Answers {
    limits: Limits,
    report: (Result<(), Status>, Vec<Zone>),
    as_new: u32,
    external_buf_alignment: Option<u32>,
    read_bufs: ReadBufs,
    extension: Option<(usize, Vec<u8>)>,
    aging: Option<AgingLimits>,
    placement: Option<PlacementLayout>,
    has_done: bool,
    next: [Wake; 2],
    wait_fds: Vec<i32>,
    abort: Abort,
    characteristics: Vec<(&'static str, String)>,
    estimates: usize,
    stats: DeviceStats,
    levels: Vec<Level>,
    has_head: bool,
    lateness: Option<Lateness>,
    heads: u32,
    format_without_head: Result<u32, Status>,
    set_condition: Result<(), Status>,
    scrubs: bool,
    has_superblock: bool,
    has_medium: bool,
}

impl Answers {
    fn of(device: &Arc<dyn DeviceControl>) -> Self {
        let mut zones = Vec::new();
        let reported = device.report_zones(ZoneNo(0), 3, &mut zones);
        let extension = device.zone_extensions().map(|extensions| {
            let mut first = vec![0; extensions.size()];
            extensions.get(ZoneNo(0), &mut first);
            (extensions.size(), first)
        });
        let mut queue = (Arc::clone(device) as Arc<dyn Device>).open_queue();
        let mut wait_fds = Vec::new();
        queue.reopen();
        queue.wait_fds(&mut wait_fds);
        Answers {
            limits: device.limits().clone(),
            report: (reported, zones),
            as_new: device.zones_as_new(ZoneNo(1), 2),
            external_buf_alignment: device.external_buf_alignment(),
            read_bufs: device.read_bufs(),
            extension,
            aging: device.zone_aging().map(|aging| aging.limits()),
            placement: device.placement().map(|placement| placement.layout().clone()),
            has_done: queue.has_done(Nanos(0)),
            next: [queue.next_event(), queue.next_completion()],
            wait_fds,
            abort: queue.abort(Nanos(0), Tag(0), &mut Vec::new()),
            characteristics: device.characteristics(),
            estimates: device.estimates().len(),
            stats: device.stats(),
            levels: device.levels(),
            has_head: device.head().is_some(),
            lateness: device.lateness(),
            heads: device.heads(),
            format_without_head: device.format_without_head(u32::MAX),
            set_condition: device.set_condition(ZoneNo(u32::MAX), zonal_blk::ZoneCondition::Empty),
            scrubs: device.scrub(Sector(0)).is_ok(),
            has_superblock: device.superblock().is_some(),
            has_medium: device.medium().is_some(),
        }
    }

    /// The answers expected of a wrapper around a device that gives these.
    fn inside(self, wrapper: Wrapper) -> Self {
        let limits = Limits { zrwa: ZrwaLimits::NONE, ..self.limits.clone() };
        let format_without_head = Err(Status::NotSupported);
        let both = |inner| Answers { limits, extension: None, format_without_head, ..inner };
        match wrapper {
            Wrapper::Inject => self,
            Wrapper::Power => both(self),
            Wrapper::Record => Answers { external_buf_alignment: None, ..both(self) },
        }
    }
}

/// Has `check` look at every kind of device in no wrapper, in each, and in each pair.
fn in_every_wrapper(check: impl Fn(&str, &DeviceKind, &[Wrapper])) {
    let mut stacks = vec![Vec::new()];
    for outer in WRAPPERS {
        stacks.push(vec![outer]);
        stacks.extend(WRAPPERS.map(|inner| vec![inner, outer]));
    }
    for kind in kinds() {
        let has_medium = (kind.open)().medium().is_some();
        for stack in &stacks {
            // Without a medium nothing can be taken back.
            if !has_medium && stack.contains(&Wrapper::Power) {
                continue;
            }
            check(&format!("{} in {stack:?}", kind.name), &kind, stack);
        }
    }
}

/// A device of a kind in wrappers, the innermost first.
fn wrapped(kind: &DeviceKind, stack: &[Wrapper]) -> Arc<dyn DeviceControl> {
    stack.iter().fold((kind.open)(), |inner, wrapper| wrapper.around(inner))
}

#[test]
fn wrappers_answer_as_the_device_inside_except_for_what_they_change() {
    in_every_wrapper(|name, kind, stack| {
        let plain = Answers::of(&(kind.open)());
        let expected = stack.iter().fold(plain, |answers, &wrapper| answers.inside(wrapper));
        assert_eq!(Answers::of(&wrapped(kind, stack)), expected, "{name}");
    });
}

#[test]
fn some_kind_of_device_answers_each_question() {
    let all: Vec<Answers> = kinds().iter().map(|kind| Answers::of(&(kind.open)())).collect();
    type Question = (&'static str, fn(&Answers) -> bool);
    let asked: [Question; 22] = [
        ("zrwa", |a| a.limits.zrwa != ZrwaLimits::NONE),
        ("report", |a| !a.report.1.is_empty()),
        ("as_new", |a| a.as_new > 0),
        ("external_buf_alignment", |a| a.external_buf_alignment.is_some()),
        ("filled", |a| a.read_bufs == ReadBufs::Filled),
        ("untouched", |a| a.read_bufs == ReadBufs::Untouched),
        ("extension", |a| a.extension.is_some()),
        ("aging", |a| a.aging.is_some()),
        ("placement", |a| a.placement.is_some()),
        ("next_completion", |a| a.next[0] != a.next[1]),
        ("has_done", |a| !a.has_done),
        ("wait_fds", |a| !a.wait_fds.is_empty()),
        ("abort", |a| a.abort == Abort::Accepted),
        ("characteristics", |a| !a.characteristics.is_empty()),
        ("levels", |a| !a.levels.is_empty()),
        ("head", |a| a.has_head),
        ("heads", |a| a.heads > 0),
        ("format_without_head", |a| a.format_without_head == Err(Status::Invalid)),
        ("lateness", |a| a.lateness.is_some()),
        ("stats", |a| a.stats != DeviceStats::default()),
        ("superblock", |a| a.has_superblock),
        ("medium", |a| a.has_medium),
    ];
    for (question, answers) in asked {
        assert!(all.iter().any(answers), "no device has an answer of its own: {question}");
    }
}

/// Submits a bio alone, and returns its buffer when it has completed.
fn complete(channel: &mut zonal_blk::Channel, now: &mut Nanos, bio: Bio) -> Option<Buf> {
    let op = bio.op;
    channel.submit(*now, bio);
    let mut done = Vec::new();
    loop {
        channel.poll(*now, &mut done);
        if let Some(completion) = done.pop() {
            assert_eq!(completion.status, Status::Ok, "{op:?}");
            return completion.buf;
        }
        *now = channel.next_event().at().map_or(*now, |at| at.max(*now));
    }
}

#[test]
fn reads_do_with_their_buffers_what_the_device_says() {
    const LEN: usize = 64 << 10;
    in_every_wrapper(|name, kind, stack| {
        // Its queues take no commands.
        if kind.name == "all" {
            return;
        }
        let device = wrapped(kind, stack);
        let queue = Queue::attach(Arc::clone(&device) as _, QueueOptions::default());
        let queue = queue.unwrap_or_else(|error| panic!("{name}: {error}"));
        let (mut channel, mut now) = (queue.channel().expect("a channel"), Nanos(0));
        let sectors = Sector(LEN as u64 / 512);
        let mut data = Buf::zeroed(LEN);
        data.fill(7);
        complete(&mut channel, &mut now, Bio::write(Sector(0), data, 0));
        // Written, partly written, and never written.
        for sector in [Sector(0), Sector(sectors.0 / 2), Sector(8 * sectors.0)] {
            let nr_sectors = u32::try_from(sectors.0).expect("few");
            let mut buf = Buf::zeroed(LEN);
            buf.fill(0xa5);
            let bio = Bio { buf: Some(buf), ..Bio::new(Op::Read, sector, nr_sectors, 1) };
            let buf = complete(&mut channel, &mut now, bio).expect("the buffer");
            let left = buf.iter().filter(|&&byte| byte == 0xa5).count();
            match device.read_bufs() {
                ReadBufs::Filled => assert_eq!(left, 0, "{name}: bytes left as they were"),
                ReadBufs::Untouched => assert_eq!(left, LEN, "{name}: bytes were touched"),
                ReadBufs::Unknown => panic!("{name}: every device here knows"),
            }
        }
    });
}
