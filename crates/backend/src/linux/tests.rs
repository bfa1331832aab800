//! Queues of both kinds, over plain files.
use super::block::BlockCommands;
use super::failure::Failure;
use super::passthrough::testing;
use super::queue::{Commands, Queue};
use io_uring::{cqueue, opcode, squeue, types};
use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use zonal_blk::{
    Bio, BioFlags, Buf, Completion, Device, ExternalBuf, ExternalMemory, HwQueue, Limits, Nanos,
    Op, QueueOptions, Request, Sector, Status, Zone, ZoneNo,
};
use zonal_os::poll::fixed_buffers::{FixedBuffers, RegisterBuffer};
use zonal_os::poll::uring::Uring;

/// The limits of 1 MiB without zones.
const LIMITS: Limits = Limits { max_sectors: 256, queue_depth: 4, ..Limits::regular(Sector(2048)) };

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

/// Runs bios and returns their completions in the order of their numbers, or `None` if the kernel has no
/// such rings.
fn run<C: Commands + 'static>(
    file: &Arc<File>,
    commands: fn(Arc<File>) -> C,
    bios: Vec<Bio>,
) -> Option<Vec<Completion>> {
    Uring::<C::Entry, C::Cqe>::new(1).ok()?;
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
fn data_are_read_back_with_more_bios_than_the_queue_has_tags() {
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
    let Some(written) = run(&file, commands, writes) else { return };
    assert!(written.iter().all(|completion| completion.status == Status::Ok));
    let reads =
        (0..16).map(|number| bio(number, Op::Read, number * 8, Some(Buf::zeroed(4096)))).collect();
    for completion in run(&file, commands, reads).expect("a ring, as before") {
        let number = u8::try_from(completion.user_data).expect("16");
        let expected = if number == 3 { 0 } else { number + 1 };
        let data = completion.buf.expect("a buffer");
        assert!(data.iter().all(|&byte| byte == expected), "read {number}");
    }
}

/// External buffers in a file, 64 KiB apart. The file is no driver, so the kernel registers none of
/// them.
struct Pages {
    file: Arc<File>,
    copies: AtomicU32,
}

impl Pages {
    fn new() -> Arc<Self> {
        let file = Arc::new(tempfile::tempfile().expect("a file"));
        Arc::new(Pages { file, copies: AtomicU32::new(0) })
    }

    fn fill(&self, token: u64, byte: u8) {
        self.file.write_all_at(&[byte; 4096], token << 16).expect("room");
    }

    /// The first page of memory `token` as a buffer.
    fn buf(self: &Arc<Self>, token: u64) -> Buf {
        let memory = Arc::new(FixedBuffers(Arc::clone(self) as _));
        Buf::external(ExternalBuf::new(memory, token), 4096)
    }
}

impl ExternalMemory for Pages {
    fn read(&self, token: u64, at: usize, data: &mut [u8]) -> Result<(), Status> {
        self.file.read_exact_at(data, (token << 16) + at as u64)?;
        self.copies.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    fn write(&self, token: u64, at: usize, data: &[u8]) -> Result<(), Status> {
        self.file.write_all_at(data, (token << 16) + at as u64)?;
        self.copies.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }
}

impl RegisterBuffer for Pages {
    fn register_entries(&self, _token: u64, _index: u16) -> Option<[squeue::Entry; 2]> {
        let command = || opcode::UringCmd16::new(types::Fd(self.file.as_raw_fd()), 0).build();
        Some([command().flags(squeue::Flags::IO_LINK), command()])
    }
}

#[test]
fn external_buffers_that_the_kernel_does_not_register_are_copied() {
    let file = Arc::new(tempfile::tempfile().expect("a file"));
    file.set_len(1 << 20).expect("room");
    let pages = Pages::new();
    let commands = |file| BlockCommands { file, limits: LIMITS };
    for tag in 0..16_u8 {
        pages.fill(tag.into(), tag + 1);
    }
    let writes = (0..16).map(|tag: u64| {
        let flags = if tag.is_multiple_of(2) { BioFlags::PREFLUSH } else { BioFlags::FUA };
        Bio { flags, ..bio(tag, Op::Write, tag * 8, Some(pages.buf(tag))) }
    });
    let Some(written) = run(&file, commands, writes.collect()) else { return };
    assert!(written.iter().all(|completion| completion.status == Status::Ok), "{written:?}");
    // In the opposite order.
    let reads = (0..16)
        .map(|tag: u64| bio(tag, Op::Read, (15 - tag) * 8, Some(pages.buf(tag))))
        .chain([bio(16, Op::Read, 4 * 8, Some(Buf::zeroed(4096)))]);
    let read = run(&file, commands, reads.collect()).expect("a ring, as before");
    assert!(read.iter().all(|completion| completion.status == Status::Ok), "{read:?}");
    assert!(read[16].buf.as_ref().expect("data").iter().all(|&byte| byte == 5));
    for tag in 0..16_u8 {
        let mut data = [0; 4096];
        pages.read(tag.into(), 0, &mut data).expect("it is there");
        assert_eq!(data, [16 - tag; 4096], "tag {tag}");
    }
}

#[test]
fn external_buffers_that_cannot_be_copied_either_fail() {
    let file = Arc::new(tempfile::tempfile().expect("a file"));
    file.set_len(1 << 20).expect("room");
    let commands = |file| BlockCommands { file, limits: LIMITS };
    let pages = Pages::new();
    let write = vec![bio(0, Op::Write, 0, Some(pages.buf(0)))];
    let Some(written) = run(&file, commands, write) else { return };
    assert_eq!(written[0].status, Status::IoError, "the file of the pages is empty");
    assert_eq!(pages.copies.load(Ordering::Relaxed), 0);
}

#[test]
fn reads_beyond_the_end_of_a_file_fail() {
    let file = Arc::new(tempfile::tempfile().expect("a file"));
    let commands = |file| BlockCommands { file, limits: LIMITS };
    let read = vec![bio(0, Op::Read, 0, Some(Buf::zeroed(4096)))];
    let Some(read) = run(&file, commands, read) else { return };
    assert_eq!(read[0].status, Status::IoError);
}

/// Commands of which each that fails does so because of its zone.
struct ZoneErrors(BlockCommands);

// SAFETY: the commands are those of `BlockCommands`.
unsafe impl Commands for ZoneErrors {
    type Entry = squeue::Entry;
    type Cqe = cqueue::Entry;

    fn flush(&self) -> squeue::Entry {
        self.0.flush()
    }

    fn start(&self, request: &Request, data: *mut u8) -> Result<squeue::Entry, Status> {
        self.0.start(request, data)
    }

    fn start_external(&self, _: &Request, _: u16) -> Option<[squeue::Entry; 3]> {
        None
    }

    fn result(&self, request: &Request, completion: &cqueue::Entry) -> Result<u64, Failure> {
        let result = self.0.result(request, completion);
        result.map_err(|failure| Failure { zone_error: true, ..failure })
    }

    fn finish(&self, request: &mut Request, result: u64) -> Status {
        self.0.finish(request, result)
    }
}

#[test]
fn a_command_is_refused_if_its_zone_does_not_allow_it() {
    let file = tempfile::NamedTempFile::new().expect("a file");
    let file = Arc::new(File::open(file.path()).expect("it can be read"));
    let refused = |commands: Option<Vec<Completion>>| {
        commands.map(|done| (done[0].status == Status::Ok, done[0].refused))
    };
    let write = || vec![bio(0, Op::Write, 0, Some(Buf::zeroed(4096)))];
    let zones = run(&file, |file| ZoneErrors(BlockCommands { file, limits: LIMITS }), write());
    let Some(found) = refused(zones) else { return };
    assert_eq!(found, (false, true));
    let plain = run(&file, |file| BlockCommands { file, limits: LIMITS }, write());
    assert_eq!(refused(plain), Some((false, false)));
}

#[test]
fn nvme_commands_to_a_plain_file_are_not_supported() {
    let file = Arc::new(tempfile::tempfile().expect("a file"));
    let pages = Pages::new();
    pages.fill(1, 1);
    let bios = vec![
        bio(0, Op::Read, 0, Some(Buf::zeroed(4096))),
        bio(1, Op::Flush, 0, None),
        Bio { flags: BioFlags::PREFLUSH, ..bio(2, Op::Write, 0, Some(Buf::zeroed(4096))) },
        bio(3, Op::Discard, 0, None),
        bio(4, Op::Read, 0, Some(pages.buf(0))),
        bio(5, Op::Write, 0, Some(pages.buf(1))),
    ];
    let Some(done) = run(&file, testing::commands, bios) else { return };
    assert!(done.iter().all(|completion| completion.status == Status::NotSupported), "{done:?}");
}
