//! Parts of a flash drive: their data, their handles, and what a device does not have.
use std::sync::Arc;
use zonal_blk::{
    Bio, Buf, Bytes, Channel, DataPlacement, Device, Nanos, Op, PlacementEventType, PlacementId,
    Queue, Sector, Status,
};
use zonal_device::control::DeviceControl;
use zonal_device::device_spec;
use zonal_device::part::{PartDevice, PartError, Share};

/// 4096 pages, four handles in two groups, of reclaim units of 96 pages.
const SPEC: &str = "ssd:size=16M,overprovision=200%,dies=4,channels=2,superblock_dies=2,block=96K,\
                    buffer=16M,fdp_handles=4,fdp_groups=2,memory=true";

fn device(spec: &str) -> Arc<dyn DeviceControl> {
    device_spec::build(&device_spec::parse(spec).unwrap()).unwrap()
}

fn shares(texts: &[&str]) -> Vec<Share> {
    texts.iter().map(|text| text.parse().unwrap()).collect()
}

fn divide(spec: &str, texts: &[&str]) -> Vec<Arc<PartDevice>> {
    PartDevice::divide(&device(spec), &shares(texts)).map_err(|error| error.1).unwrap()
}

struct Rig {
    part: Arc<PartDevice>,
    channel: Channel,
    now: Nanos,
}

impl Rig {
    fn new(part: &Arc<PartDevice>) -> Self {
        let queue = Queue::attach(Arc::clone(part) as Arc<dyn Device>, Default::default());
        let channel = queue.unwrap().channel().unwrap();
        Rig { part: Arc::clone(part), channel, now: Nanos(0) }
    }

    /// Runs bios, which may be merged, to their ends.
    fn run(&mut self, bios: Vec<Bio>) -> Vec<(u64, Status, Sector, Option<Buf>)> {
        bios.into_iter().for_each(|bio| self.channel.submit(self.now, bio));
        let mut done = Vec::new();
        while self.channel.outstanding() > 0 {
            self.now = self.channel.next_event().at().map_or(self.now, |at| at.max(self.now));
            self.channel.poll(self.now, &mut done);
        }
        done.into_iter().map(|it| (it.user_data, it.status, it.sector, it.buf)).collect()
    }

    fn write(&mut self, page: u64, byte: u8, stream: u8) {
        let bio = Bio::write(Sector(page * 8), Buf::from(&[byte; 4096][..]), 7);
        let done = self.run(vec![Bio { stream, ..bio }]);
        assert_eq!((done[0].1, done[0].2), (Status::Ok, Sector(page * 8)));
    }

    fn read(&mut self, page: u64) -> u8 {
        let mut done = self.run(vec![Bio::read(Sector(page * 8), 8, 0)]);
        assert_eq!((done[0].1, done[0].2), (Status::Ok, Sector(page * 8)));
        done.remove(0).3.unwrap()[0]
    }

    fn placement(&self) -> &dyn DataPlacement {
        self.part.placement().expect("it has handles")
    }
}

#[test]
fn parts_have_their_own_sectors_and_end_where_the_next_begins() {
    let parts = divide(SPEC, &["4M/0", "8M/1", "rest/2+3"]);
    let sizes: Vec<u64> = parts.iter().map(|part| part.limits().capacity.0 / 8).collect();
    assert_eq!(sizes, [1024, 2048, 1024]);
    let mut rigs: Vec<Rig> = parts.iter().map(Rig::new).collect();
    for (byte, rig) in (1..).zip(&mut rigs) {
        rig.write(0, byte, 0);
        rig.write(1023, byte + 10, 0);
        let beyond = Bio::write(rig.part.limits().capacity, Buf::zeroed(4096), 0);
        assert_ne!(rig.run(vec![beyond])[0].1, Status::Ok);
    }
    for (byte, rig) in (1..).zip(&mut rigs) {
        assert_eq!((rig.read(0), rig.read(1023), rig.read(1)), (byte, byte + 10, 0));
        assert_eq!(rig.run(vec![Bio::new(Op::Flush, Sector(0), 0, 0)])[0].1, Status::Ok);
        assert_eq!(rig.run(vec![Bio::new(Op::Discard, Sector(0), 8, 0)])[0].1, Status::Ok);
    }
    assert_eq!([rigs[0].read(0), rigs[1].read(1023), rigs[2].read(0)], [0, 12, 0]);
    let host = parts[0].translation().unwrap().host;
    assert_eq!(host, Bytes(6 * 4096), "statistics are those of the device");
    assert!(parts[1].medium().is_none());
}

#[test]
fn handles_of_a_part_have_numbers_of_its_own_and_write_to_units_of_the_devices() {
    let parts = divide(SPEC, &["4M/0", "4M/3+1"]);
    let layout = parts[1].placement().unwrap().layout().clone();
    let id = |handle, group, unit_handle| PlacementId { handle, group, unit_handle };
    assert_eq!(layout.ids, [id(0, 0, 3), id(0, 1, 3), id(1, 0, 1), id(1, 1, 1)]);
    assert_eq!((layout.unit_handles.len(), layout.handles()), (4, 2));
    let [mut first, mut second] = [Rig::new(&parts[0]), Rig::new(&parts[1])];
    let unit = Sector(96 * 8);
    // Without an identifier: the first handle of the part, in any group.
    second.write(0, 1, 0);
    second.write(1, 1, 4);
    second.write(2, 1, 4);
    let available = |rig: &Rig| -> Vec<u64> {
        let streams = 1..=u8::try_from(rig.placement().layout().ids.len()).unwrap();
        streams.map(|stream| (unit - rig.placement().available(stream)).0 / 8).collect()
    };
    assert_eq!(available(&second), [1, 0, 0, 2]);
    assert_eq!(available(&first), [0, 0]);
    first.write(0, 1, 2);
    assert_eq!((available(&first), available(&second)), (vec![0, 1], vec![1, 0, 0, 2]));
    assert_eq!(first.placement().drive(), second.placement().drive());
    let other = divide(SPEC, &["rest/0"]);
    assert_ne!(other[0].placement().unwrap().drive(), first.placement().drive());
    assert_eq!(first.placement().stats(), second.placement().stats());
}

#[test]
fn events_are_those_of_the_parts_handles() {
    let parts = divide(SPEC, &["4M/0", "4M/3+1"]);
    let [first, mut second] = [Rig::new(&parts[0]), Rig::new(&parts[1])];
    let (not_full, invalid) = (PlacementEventType::UnitNotFull, PlacementEventType::InvalidId);
    second.placement().record(1, not_full, true);
    second.placement().record(0, invalid, true);
    assert!(second.placement().records(1, not_full) && !second.placement().records(0, not_full));
    assert!(!first.placement().records(0, invalid));
    second.write(0, 1, 3);
    second.placement().update(second.now, 3);
    second.placement().invalid_id(second.now, 0, 99);
    first.placement().invalid_id(second.now, 0, 98);
    let events = second.placement().events();
    assert_eq!(events.len(), 2, "{events:?}");
    assert_eq!((events[0].kind, events[0].handle), (not_full, 1));
    assert_eq!(events[0].id, Some(PlacementId { handle: 1, group: 0, unit_handle: 1 }));
    assert_eq!((events[1].kind, events[1].handle, events[1].named), (invalid, 0, Some(99)));
    assert_eq!(first.placement().events(), []);
}

#[test]
fn shares_that_a_device_does_not_have_are_refused() {
    let refused = |spec: &str, texts: &[&str]| {
        let divided = PartDevice::divide(&device(spec), &shares(texts));
        let (number, error) = divided.map(drop).expect_err("it is too much");
        (number, error.to_string())
    };
    let plain = "ssd:size=64M,block=96K,dies=4,channels=2,overprovision=50%";
    for (spec, texts, number, expected) in [
        (
            plain,
            &["32M", "33M"][..],
            1,
            "found 33MiB, expected at most 32MiB, which the parts before it leave",
        ),
        (
            plain,
            &["64M", "rest"],
            1,
            "found 0B, expected at most 0B, which the parts before it leave",
        ),
        (plain, &["6K"], 0, "found 6KiB, expected a multiple of 4KiB above 0"),
        (plain, &["0"], 0, "found 0B, expected a multiple of 4KiB above 0"),
        (
            plain,
            &["1M/0"],
            0,
            "found reclaim unit handle 0, expected none: the device has no data placement, fdp_handles=0",
        ),
        (SPEC, &["4M/0", "4M/4"], 1, "found reclaim unit handle 4, expected 0 to 3"),
        (
            SPEC,
            &["4M/1", "4M/0+1"],
            1,
            "found reclaim unit handle 1 twice, expected handles that no other part has",
        ),
        (
            SPEC,
            &["4M"],
            0,
            "found no reclaim unit handle, expected at least one of the 4 of the device: SIZE/HANDLES",
        ),
        (
            "null:zones=4,zone_size=1M",
            &["1M"],
            0,
            "found a device with 4 zones, expected one without zones",
        ),
    ] {
        assert_eq!(refused(spec, texts), (number, expected.to_owned()), "{texts:?}");
    }
    for text in ["", "1X", "1M/", "1M/a", "/1", "1M/1,2"] {
        assert_eq!(text.parse::<Share>(), Err(PartError::Form(text.to_owned())));
    }
}
