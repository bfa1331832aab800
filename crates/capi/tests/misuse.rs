//! Mistakes that a C program can make: each gives an error number and a message, and nothing happens to
//! the device.
use std::ffi::{CStr, CString, c_int};
use std::ptr::{null, null_mut};
use zonal_capi::create::zonal_create;
use zonal_capi::device::{
    zonal_close, zonal_get_info, zonal_info, zonal_keeps_data, zonal_open, zonal_open_with,
};
use zonal_capi::error::zonal_error;
use zonal_capi::io::{zonal_append, zonal_fsync, zonal_pread, zonal_pwrite};
use zonal_capi::queue::{
    zonal_completion, zonal_io, zonal_poll, zonal_queue_close, zonal_queue_fd, zonal_queue_open,
    zonal_submit,
};
use zonal_capi::zones::{zonal_list_zones, zonal_report_zones, zonal_zones_operation};

const BLOCK: usize = 4096;

fn open_as(flags: c_int, spec: &str) -> c_int {
    let name = CString::new(spec).expect("no zero byte");
    // SAFETY: a string, and no room for what the device is.
    unsafe { zonal_open(name.as_ptr(), flags, null_mut()) }
}

fn open() -> c_int {
    open_as(libc::O_RDWR, "null:zones=4,zone_size=64K,lba=4096,max_open=1,memory=true")
}

/// The call failed with this number, and a text that has these words.
#[track_caller]
fn fails(result: impl Into<i64>, errno: c_int, words: &str) {
    let found = std::io::Error::last_os_error().raw_os_error();
    assert_eq!(result.into(), -1);
    // SAFETY: a string that is valid until the next call.
    let text = unsafe { CStr::from_ptr(zonal_error()) }.to_str().expect("UTF-8");
    assert_eq!(found, Some(errno), "{text}");
    assert!(text.contains(words), "{text}");
}

fn write(at: u64, data: &mut [u8], user_data: u64) -> zonal_io {
    let data_at = data.as_mut_ptr().cast();
    zonal_io { op: 1, flags: 0, offset: at, length: data.len() as u64, data: data_at, user_data }
}

fn submit(queue: c_int, io: &zonal_io) -> c_int {
    // SAFETY: each test keeps the data of what it submits until it has closed the queue.
    unsafe { zonal_submit(queue, io, 1) }
}

fn poll(queue: c_int, timeout: i64) -> Vec<zonal_completion> {
    try_poll(queue, timeout).expect("it succeeds")
}

/// `None` if it fails.
fn try_poll(queue: c_int, timeout: i64) -> Option<Vec<zonal_completion>> {
    let empty = zonal_completion { user_data: 0, result: 0, offset: 0 };
    let mut completions = [empty; 4];
    // SAFETY: there is room for four.
    let count = unsafe { zonal_poll(queue, completions.as_mut_ptr(), 4, timeout) };
    Some(completions[..usize::try_from(count).ok()?].to_vec())
}

#[test]
fn images_are_created_once_and_keep_data() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("a.img").display().to_string();
    let create = |path: &str, profile: &str, flags| {
        let (path, profile) =
            (CString::new(path).expect("text"), CString::new(profile).expect("text"));
        // SAFETY: two strings.
        unsafe { zonal_create(path.as_ptr(), profile.as_ptr(), flags) }
    };
    let spec = "null:zones=4,zone_size=64K,lba=4096";
    assert_eq!(create(&path, spec, 0), 0);
    fails(create(&path, spec, 0), libc::EEXIST, "the file exists");
    fails(create(&format!("{path}2"), "null:zons=4", 0), libc::EINVAL, "did you mean `zones`");
    assert_eq!(create(&format!("{path}3"), "null:zoned=false", 0), 0, "without zones");
    fails(create(&format!("{path}2"), spec, 2), libc::EINVAL, "ZONAL_CREATE_NO_CHECKSUMS");
    let (image, spec) = (open_as(libc::O_RDWR, &path), open_as(libc::O_RDWR, spec));
    assert_eq!((zonal_keeps_data(image), zonal_keeps_data(spec)), (1, 0));
    assert_eq!((zonal_close(image), zonal_close(spec)), (0, 0));
    fails(zonal_keeps_data(image), libc::EBADF, "");
}

#[test]
fn null_pointers_are_errors() {
    let device = open();
    // SAFETY: null is what these calls must find out.
    unsafe {
        fails(zonal_open(null(), 0, null_mut()), libc::EFAULT, "name of the device");
        fails(zonal_get_info(device, null_mut()), libc::EFAULT, "info");
        fails(zonal_pread(device, null_mut(), BLOCK, 0) as i64, libc::EFAULT, "no buffer");
        fails(zonal_pwrite(device, null(), BLOCK, 0) as i64, libc::EFAULT, "no buffer");
        let nowhere = null_mut();
        fails(zonal_append(device, null(), BLOCK, 0, nowhere) as i64, libc::EFAULT, "no buffer");
        fails(
            zonal_report_zones(device, 0, 0, 0, null_mut(), null_mut()),
            libc::EFAULT,
            "nr_zones",
        );
        fails(zonal_list_zones(device, 0, 0, 0, null_mut(), null_mut()), libc::EFAULT, "zones");
        let queue = zonal_queue_open(device, 1);
        fails(zonal_submit(queue, null(), 1), libc::EFAULT, "ios");
        fails(zonal_poll(queue, null_mut(), 1, 0), libc::EINVAL, "no room");
        assert_eq!(zonal_queue_close(queue), 0);
    }
    assert_eq!(zonal_close(device), 0);
}

#[test]
fn handles_that_are_closed_or_of_something_else_are_errors() {
    let device = open();
    let queue = zonal_queue_open(device, 1);
    assert_eq!((zonal_queue_close(queue), zonal_close(device)), (0, 0));
    let mut data = [0; BLOCK];
    for number in [device, -1, c_int::MAX] {
        fails(zonal_close(number), libc::EBADF, "open device");
        fails(zonal_fsync(number), libc::EBADF, "open device");
        fails(zonal_zones_operation(number, 1, 0, 0), libc::EBADF, "open device");
        fails(zonal_queue_open(number, 1), libc::EBADF, "open device");
    }
    fails(submit(queue, &write(0, &mut data, 0)), libc::EBADF, "open queue");
    fails(zonal_queue_close(queue), libc::EBADF, "open queue");
}

#[test]
fn queue_outlives_the_handle_of_its_device() {
    let device = open();
    let queue = zonal_queue_open(device, 1);
    assert_eq!(zonal_close(device), 0);
    let mut data = [7; BLOCK];
    assert_eq!(submit(queue, &write(0, &mut data, 5)), 1);
    let done = poll(queue, -1);
    assert_eq!((done.len(), done[0].user_data, done[0].result), (1, 5, BLOCK as i64));
    assert_eq!(zonal_queue_close(queue), 0);
}

#[test]
fn wrong_lengths_places_and_numbers_are_errors() {
    let device = open();
    let mut data = [0; BLOCK];
    let at = data.as_mut_ptr().cast();
    // SAFETY: the data are as long as each call says, or the call fails before it looks.
    unsafe {
        fails(zonal_pread(device, at, 512, 0) as i64, libc::EINVAL, "multiples of 4096");
        fails(zonal_pread(device, at, BLOCK, 7) as i64, libc::EINVAL, "multiples of 4096");
        fails(zonal_pread(device, at, 0, 0) as i64, libc::EINVAL, "at least 4096");
        fails(zonal_pread(device, at, BLOCK, -4096) as i64, libc::EINVAL, "invalid");
        fails(zonal_pread(device, at, BLOCK, 1 << 20) as i64, libc::EINVAL, "invalid");
        // Not at the write pointer.
        fails(zonal_pwrite(device, at, BLOCK, 8192) as i64, libc::EIO, "write pointer");
        let mut count = 1;
        let zones = null_mut();
        fails(zonal_report_zones(device, 0, 0, 99, zones, &mut count), libc::EINVAL, "0x63");
        fails(zonal_report_zones(device, 1 << 20, 0, 0, zones, &mut count), libc::EINVAL, "bytes");
    }
    fails(zonal_zones_operation(device, 9, 0, 0), libc::EINVAL, "1 to 4");
    fails(zonal_zones_operation(device, 1, 4096, 0), libc::EINVAL, "multiples of 65536");
    fails(zonal_zones_operation(device, 1, 0, -65536), libc::EINVAL, "negative");
    // One zone may be open.
    fails(zonal_zones_operation(device, 2, 0, 131_072), libc::ETOOMANYREFS, "at most 1 zones");
    fails(zonal_queue_open(device, 0), libc::EINVAL, "at least 1");
    assert_eq!(zonal_close(device), 0);
}

#[test]
fn queue_takes_as_many_commands_as_it_is_deep() {
    let device = open();
    let queue = zonal_queue_open(device, 2);
    let mut data = [[1; BLOCK], [2; BLOCK], [3; BLOCK]];
    let mut ios = Vec::new();
    for (at, data) in (0..).step_by(BLOCK).zip(&mut data) {
        ios.push(write(at, data, at));
    }
    // SAFETY: three commands, whose data stay until the queue is closed.
    assert_eq!(unsafe { zonal_submit(queue, ios.as_ptr(), 3) }, 2);
    fails(submit(queue, &ios[2]), libc::EAGAIN, "2 commands are in flight");
    let mut done = 0;
    while done < 2 {
        done += poll(queue, 1_000_000_000).len();
    }
    assert!(poll(queue, -1).is_empty(), "nothing is in flight");
    for (op, flags, words) in [(10, 0, "op 10"), (1, 2, "flags 2")] {
        fails(submit(queue, &zonal_io { op, flags, ..ios[2] }), libc::EINVAL, words);
    }
    assert_eq!(zonal_queue_close(queue), 0);
    assert_eq!(zonal_close(device), 0);
}

/// Whether the descriptor can be read within a time, in milliseconds.
fn can_be_read(fd: c_int, timeout: c_int) -> bool {
    let mut entry = libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
    // SAFETY: one entry.
    unsafe { libc::poll(&raw mut entry, 1, timeout) == 1 }
}

#[test]
fn descriptor_can_be_read_when_there_is_something_to_poll() {
    for spec in [
        "null:zones=4,zone_size=64K,lba=4096,latency=5ms",
        "zns-1t:zones=16",
        "null:zones=4,zone_size=64K,lba=4096",
    ] {
        let device = open_as(libc::O_RDWR, spec);
        let queue = zonal_queue_open(device, 4);
        let fd = zonal_queue_fd(queue);
        assert_eq!(zonal_queue_fd(queue), fd, "{spec}: it stays the same");
        assert!(!can_be_read(fd, 0), "{spec}: nothing is in flight");
        let mut data = [[1; BLOCK], [2; BLOCK]];
        for (at, data) in (0..).step_by(BLOCK).zip(&mut data) {
            assert_eq!(submit(queue, &write(at, data, at)), 1, "{spec}");
        }
        let mut done = 0;
        while done < 2 {
            assert!(can_be_read(fd, 60_000), "{spec}: it waits for the device");
            let mut completion = zonal_completion { user_data: 0, result: 0, offset: 0 };
            // SAFETY: there is room for one.
            let count = unsafe { zonal_poll(queue, &raw mut completion, 1, 0) };
            assert!(count == 0 || completion.result == BLOCK as i64, "{spec}");
            done += count;
        }
        assert!(!can_be_read(fd, 0), "{spec}: all is done");
        assert_eq!((zonal_queue_close(queue), zonal_close(device)), (0, 0));
    }
    fails(zonal_queue_fd(99), libc::EBADF, "99");
}

#[test]
fn queue_is_of_one_thread_at_a_time() {
    let device = open_as(libc::O_RDWR, "null:zones=4,zone_size=64K,latency=2s");
    let queue = zonal_queue_open(device, 1);
    let mut data = [0; BLOCK];
    assert_eq!(submit(queue, &write(0, &mut data, 0)), 1);
    std::thread::scope(|scope| {
        // It is refused while the other thread submits.
        let waiting = scope.spawn(|| {
            loop {
                match try_poll(queue, -1) {
                    Some(completions) => return completions.len(),
                    None => std::thread::yield_now(),
                }
            }
        });
        let another = write(BLOCK as u64, &mut data, 0);
        loop {
            assert_eq!(submit(queue, &another), -1);
            // As deep as it is, until the other thread waits.
            if std::io::Error::last_os_error().raw_os_error() != Some(libc::EAGAIN) {
                break;
            }
            std::thread::yield_now();
        }
        fails(zonal_queue_close(queue), libc::EBUSY, "another thread");
        assert_eq!(waiting.join().expect("no panic"), 1);
    });
    assert_eq!(zonal_queue_close(queue), 0);
    assert_eq!(zonal_close(device), 0);
}

#[test]
fn device_that_was_opened_to_be_read_is_not_changed() {
    let device = open_as(libc::O_RDONLY, "null:zones=4,zone_size=64K,lba=4096,memory=true");
    let mut data = [1; BLOCK];
    // SAFETY: the data are as long as the calls say.
    unsafe {
        let written = zonal_pwrite(device, data.as_ptr().cast(), BLOCK, 0);
        fails(written as i64, libc::EBADF, "O_RDONLY");
        assert_eq!(zonal_pread(device, data.as_mut_ptr().cast(), BLOCK, 0), BLOCK as isize);
    }
    assert_eq!(data, [0; BLOCK]);
    fails(zonal_zones_operation(device, 1, 0, 0), libc::EBADF, "O_RDONLY");
    let queue = zonal_queue_open(device, 1);
    fails(submit(queue, &write(0, &mut data, 0)), libc::EBADF, "O_RDONLY");
    assert_eq!((zonal_queue_close(queue), zonal_close(device)), (0, 0));
}

#[test]
fn options_and_names_say_what_was_meant() {
    let open_with = |options: &str| {
        let (name, options) = (c"null:zones=4,zone_size=64K", CString::new(options).expect("text"));
        // SAFETY: two strings.
        unsafe { zonal_open_with(name.as_ptr(), libc::O_RDWR, options.as_ptr(), null_mut()) }
    };
    fails(open_with("schedular=bfq"), libc::EINVAL, "did you mean `scheduler`");
    fails(open_with("scheduler=deadline"), libc::EINVAL, "mq-deadline");
    fails(open_with("zone_write=pluk"), libc::EINVAL, "plug");
    assert!(open_with("scheduler=mq-deadline,zone_write=qd1") > 0);
    fails(open_as(libc::O_RDWR, "/dev/none"), libc::ENOENT, "/dev/none");
    fails(open_as(libc::O_RDWR, "/dev/null"), libc::ENOTBLK, "a block device");
    fails(open_as(libc::O_RDWR, "none.img"), libc::ENOENT, "zonal image create");
    // SAFETY: all fields are numbers.
    let mut info: zonal_info = unsafe { std::mem::zeroed() };
    // SAFETY: a string and a `zonal_info`.
    let plain = unsafe { zonal_open(c"null".as_ptr(), libc::O_RDWR, &mut info) };
    assert!(plain > 0 && info.lblock_size > 0);
}

#[test]
fn child_of_fork_cannot_use_what_the_parent_has_open() {
    let device = open();
    let mut data = vec![1; BLOCK];
    // SAFETY: as many bytes as are named; the child calls the library alone, and ends.
    unsafe {
        assert_eq!(zonal_pwrite(device, data.as_ptr().cast(), BLOCK, 0), BLOCK as isize);
        let child = libc::fork();
        if child == 0 {
            let refused = |result: i64| {
                let errno = std::io::Error::last_os_error().raw_os_error();
                result == -1 && errno == Some(libc::EPERM)
            };
            let good = refused(zonal_pwrite(device, data.as_ptr().cast(), BLOCK, 4096) as i64)
                && refused(zonal_pread(device, data.as_mut_ptr().cast(), BLOCK, 0) as i64)
                && refused(zonal_fsync(device).into())
                && refused(zonal_queue_open(device, 1).into())
                && refused(zonal_close(device).into());
            libc::_exit(c_int::from(!good));
        }
        let mut status = 0;
        assert_eq!(libc::waitpid(child, &raw mut status, 0), child);
        assert_eq!(status, 0, "the child used the parent's device");
        assert_eq!(zonal_pwrite(device, data.as_ptr().cast(), BLOCK, 4096), BLOCK as isize);
    }
    assert_eq!(zonal_close(device), 0);
}
