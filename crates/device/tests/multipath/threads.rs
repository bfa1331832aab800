//! Several threads over paths that fail and return under them.
use crate::path::{Habits, TestPath};
use crate::world::{CONFIG, ZONE, bio, null_device};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;
use zonal_blk::{Nanos, Op, Queue, QueueOptions, Status, ZoneNo, ZoneWrite};
use zonal_device::control::DeviceControl;
use zonal_device::multipath::MultipathDevice;

#[test]
fn writes_of_threads_are_done_once_while_paths_fail_under_them() {
    const THREADS: u32 = 3;
    let medium = null_device(1 + THREADS);
    let habits = Habits { latency: Nanos(1), ..Habits::default() };
    let paths = ["a", "b"].map(|name| TestPath::new(name, &medium, habits.clone()));
    let all = paths.iter().map(|path| Arc::clone(path) as _).collect();
    let device = MultipathDevice::new(all, CONFIG).unwrap();
    let model = Arc::clone(&device);
    let options =
        QueueOptions { zone_write: Some(ZoneWrite::Plug), merge: false, ..QueueOptions::default() };
    let queue = Queue::attach(device, options).unwrap();
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        let writers: Vec<_> = (1..=THREADS)
            .map(|zone| {
                let queue = &queue;
                scope.spawn(move || {
                    let mut channel = queue.channel().unwrap();
                    let start = u64::from(zone) * ZONE;
                    let (mut now, mut done) = (Nanos(0), Vec::new());
                    for round in 1..=400 {
                        for block in 0..ZONE / 8 {
                            channel.submit(now, bio(Op::Write, start + block * 8, 1, round));
                        }
                        while channel.outstanding() > 0 {
                            now += Nanos(500_000);
                            channel.poll(now, &mut done);
                            thread::yield_now();
                        }
                        channel.submit(
                            now,
                            zonal_blk::Bio::new(Op::ZoneReset, zonal_blk::Sector(start), 0, 0),
                        );
                        while channel.outstanding() > 0 {
                            now += Nanos(500_000);
                            channel.poll(now, &mut done);
                        }
                    }
                    done
                })
            })
            .collect();
        let cutter = scope.spawn(|| {
            let mut turn = 0;
            while !over.load(Ordering::Acquire) {
                paths[turn % 2].cut();
                thread::sleep(Duration::from_micros(20));
                paths[turn % 2].mend();
                thread::sleep(Duration::from_micros(300));
                turn += 1;
            }
            turn
        });
        for writer in writers {
            let done = writer.join().unwrap();
            assert!(done.iter().all(|done| done.status == Status::Ok));
        }
        over.store(true, Ordering::Release);
        assert!(cutter.join().unwrap() > 0);
    });
    assert_eq!(paths.iter().map(|path| path.refused()).sum::<u64>(), 0, "none came twice");
    let errors = model.stats().counts[0];
    assert!(errors.0 == "path_errors" && errors.1 > 0, "{errors:?}");
    let mut zones = Vec::new();
    zonal_blk::Device::report_zones(&*medium, ZoneNo(1), usize::MAX, &mut zones).unwrap();
    assert!(zones.iter().all(|zone| zone.wp == zone.start), "all were reset");
}
