//! Both kinds of queues, over files.
use super::block::BlockCommands;
use super::passthrough::testing;
use super::queue::{Commands, Queue, Ring};
use crate::frontend::ublk::io_buffers::IoBuffers;
use std::fs::File;
use std::sync::{Arc, Mutex};
use zonal_blk::{
    Bio, BioFlags, Buf, Completion, Device, ExternalBuf, HwQueue, Limits, Nanos, Op, QueueOptions,
    Sector, Status, Zone, ZoneNo,
};

/// Those of 1 MiB without zones.
pub(crate) const LIMITS: Limits = Limits {
    lba_size: 512,
    capacity: Sector(2048),
    zone_size: Sector(0),
    nr_zones: 0,
    max_open_zones: 0,
    max_active_zones: 0,
    max_sectors: 256,
    append_max_sectors: 0,
    max_write_zeroes_sectors: 0,
    nr_queues: 1,
    queue_depth: 4,
    rotational: false,
};

/// A device without zones, with commands for some file.
struct Files<C> {
    file: Arc<File>,
    commands: fn(Arc<File>) -> C,
}

impl<C: Commands + 'static> Device for Files<C> {
    fn limits(&self) -> &Limits {
        &LIMITS
    }

    fn report_zones(&self, _: ZoneNo, _: usize, _: &mut Vec<Zone>) -> Result<(), Status> {
        Err(Status::NotSupported)
    }

    fn open_queue(self: Arc<Self>) -> Box<dyn HwQueue> {
        Box::new(Queue::new((self.commands)(Arc::clone(&self.file)), LIMITS.queue_depth))
    }
}

/// What becomes of bios, in the order of their number; `None` if this machine has no such rings.
fn done<C: Commands + 'static>(
    file: &Arc<File>,
    commands: fn(Arc<File>) -> C,
    bios: Vec<Bio>,
) -> Option<Vec<Completion>> {
    Ring::<C>::builder().build(1).ok()?;
    let device = Arc::new(Files { file: Arc::clone(file), commands });
    let queue = zonal_blk::Queue::attach(device, QueueOptions::default()).expect("a queue");
    let mut channel = queue.channel().expect("a channel");
    let (count, mut bios, mut done) = (bios.len(), bios, Vec::new());
    channel.submit_batch(Nanos(0), &mut bios);
    while done.len() < count {
        channel.poll(Nanos(0), &mut done);
    }
    done.sort_by_key(|completion| completion.user_data);
    Some(done)
}

fn bio(number: u64, op: Op, sector: u64, buf: Option<Buf>) -> Bio {
    let len = if op == Op::Flush { 0 } else { 8 };
    Bio { buf, ..Bio::new(op, Sector(sector), len, number) }
}

#[test]
fn files_keep_what_is_written_and_more_than_the_ring_holds_waits() {
    let file = Arc::new(tempfile::tempfile().expect("a file"));
    let commands = |file| BlockCommands { file, limits: LIMITS };
    file.set_len(1 << 20).expect("room");
    let writes = (0..16).map(|number| {
        let data = Buf::from(&[u8::try_from(number).expect("16") + 1; 4096][..]);
        let flags = if number % 2 == 0 { BioFlags::PREFLUSH } else { BioFlags::FUA };
        // Without data it writes zeroes.
        let buf = (number != 3).then_some(data);
        Bio { flags, ..bio(number, Op::Write, number * 8, buf) }
    });
    let writes = writes.chain([bio(16, Op::Flush, 0, None)]).collect();
    let Some(written) = done(&file, commands, writes) else { return };
    assert!(written.iter().all(|completion| completion.status == Status::Ok));
    let reads =
        (0..16).map(|number| bio(number, Op::Read, number * 8, Some(Buf::zeroed(4096)))).collect();
    for completion in done(&file, commands, reads).expect("a ring, as before") {
        let number = u8::try_from(completion.user_data).expect("16");
        let expected = if number == 3 { 0 } else { number + 1 };
        let data = completion.buf.expect("a buffer");
        assert!(data.iter().all(|&byte| byte == expected), "read {number}");
    }
}

/// What a file lends that is no driver's, and what is said of it.
fn pages(file: Arc<File>) -> (Arc<IoBuffers>, Arc<Mutex<Vec<String>>>) {
    let said = Arc::new(Mutex::new(Vec::new()));
    let notify = {
        let said = Arc::clone(&said);
        move |what: &str| said.lock().expect("no panic").push(what.to_owned())
    };
    (Arc::new(IoBuffers::new(file, 0, Arc::new(notify))), said)
}

/// The kernel makes buffers of no other pages than those of its ublk driver.
#[test]
fn lent_data_that_the_kernel_does_not_lend_are_copied() {
    let [file, driver] = [(); 2].map(|()| Arc::new(tempfile::tempfile().expect("a file")));
    file.set_len(1 << 20).expect("room");
    let (pages, said) = pages(driver);
    let lent =
        |tag: u16| Buf::external(ExternalBuf::new(Arc::clone(&pages) as _, tag.into()), 4096);
    let commands = |file| BlockCommands { file, limits: LIMITS };
    for tag in 0..16_u8 {
        pages.copy_to_request(tag.into(), 0, &[tag + 1; 4096]).expect("room");
    }
    let writes = (0..16).map(|tag: u16| {
        let flags = if tag.is_multiple_of(2) { BioFlags::PREFLUSH } else { BioFlags::FUA };
        Bio { flags, ..bio(tag.into(), Op::Write, u64::from(tag) * 8, Some(lent(tag))) }
    });
    let Some(written) = done(&file, commands, writes.collect()) else { return };
    assert!(written.iter().all(|completion| completion.status == Status::Ok), "{written:?}");
    // In the opposite order.
    let reads = (0..16)
        .map(|tag: u16| bio(tag.into(), Op::Read, u64::from(15 - tag) * 8, Some(lent(tag))))
        .chain([bio(16, Op::Read, 4 * 8, Some(Buf::zeroed(4096)))]);
    let read = done(&file, commands, reads.collect()).expect("a ring, as before");
    assert!(read.iter().all(|completion| completion.status == Status::Ok), "{read:?}");
    assert!(read[16].buf.as_ref().expect("data").iter().all(|&byte| byte == 5));
    for tag in 0..16_u8 {
        let mut data = [0; 4096];
        pages.copy_from_request(tag.into(), 0, &mut data).expect("it is there");
        assert_eq!(data, [16 - tag; 4096], "tag {tag}");
    }
    assert_eq!(said.lock().expect("no panic").len(), 1, "it is said once");
}

#[test]
fn lent_data_that_cannot_be_copied_either_fail() {
    let file = Arc::new(tempfile::tempfile().expect("a file"));
    file.set_len(1 << 20).expect("room");
    let commands = |file| BlockCommands { file, limits: LIMITS };
    let (pages, said) = pages(Arc::new(tempfile::tempfile().expect("a file")));
    let lent = Buf::external(ExternalBuf::new(pages, 0), 4096);
    let Some(done) = done(&file, commands, vec![bio(0, Op::Write, 0, Some(lent))]) else { return };
    assert_eq!(done[0].status, Status::IoError);
    assert!(said.lock().expect("no panic").is_empty(), "nothing was copied");
}

#[test]
fn reads_behind_the_end_of_a_file_fail() {
    let file = Arc::new(tempfile::tempfile().expect("a file"));
    let commands = |file| BlockCommands { file, limits: LIMITS };
    let read = vec![bio(0, Op::Read, 0, Some(Buf::zeroed(4096)))];
    let Some(read) = done(&file, commands, read) else { return };
    assert_eq!(read[0].status, Status::IoError);
}

#[test]
fn nvme_commands_to_what_is_no_namespace_are_not_supported() {
    let file = Arc::new(tempfile::tempfile().expect("a file"));
    let (pages, said) = pages(Arc::clone(&file));
    pages.copy_to_request(1, 0, &[1; 4096]).expect("room");
    let lent = |tag: u64| Buf::external(ExternalBuf::new(Arc::clone(&pages) as _, tag), 4096);
    let bios = vec![
        bio(0, Op::Read, 0, Some(Buf::zeroed(4096))),
        bio(1, Op::Flush, 0, None),
        Bio { flags: BioFlags::PREFLUSH, ..bio(2, Op::Write, 0, Some(Buf::zeroed(4096))) },
        bio(3, Op::Discard, 0, None),
        // Nor are their pages lent, of which the first copy says so.
        bio(4, Op::Read, 0, Some(lent(0))),
        bio(5, Op::Write, 0, Some(lent(1))),
    ];
    let Some(done) = done(&file, testing::commands, bios) else { return };
    assert_eq!(said.lock().expect("no panic").len(), 1);
    assert!(done.iter().all(|completion| completion.status == Status::NotSupported), "{done:?}");
}
