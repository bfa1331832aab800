//! A program that uses the zones as files.
use crate::host::{DEPTH, Fua, Host, ShutDown};
use crate::model::{Command, SECTOR, Shape, Work};
use rustix::fs::OFlags;
use std::fs::{File, OpenOptions};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread;
use zonal_blk::{Buf, Sector, Zone, ZoneAttributes, ZoneCondition, ZoneKind};

type Job = Box<dyn FnOnce() -> (usize, bool) + Send>;

/// Threads that wait in system calls.
pub struct Files {
    dir: PathBuf,
    shape: Shape,
    jobs: Sender<Job>,
    ended: Receiver<(usize, bool)>,
    in_flight: usize,
}

impl Files {
    pub fn open(dir: &Path, shape: &Shape) -> Self {
        let (jobs, work) = channel::<Job>();
        let (done, ended) = channel();
        let work = Arc::new(Mutex::new(work));
        for _ in 0..DEPTH {
            let (work, done) = (Arc::clone(&work), done.clone());
            thread::spawn(move || {
                loop {
                    let job = work.lock().expect("no thread panics").recv();
                    // The host is gone.
                    let Ok(job) = job else { return };
                    if done.send(job()).is_err() {
                        return;
                    }
                }
            });
        }
        Files { dir: dir.to_owned(), shape: shape.clone(), jobs, ended, in_flight: 0 }
    }

    /// The file with a sector, and where in it that is, in bytes.
    fn place(&self, sector: u64) -> (PathBuf, u64) {
        let zone = sector / self.shape.zone_len;
        let conventional = self.shape.places / self.shape.zone_len;
        let name = match zone.checked_sub(conventional) {
            Some(number) => format!("seq/{number}"),
            None => format!("cnv/{zone}"),
        };
        (self.dir.join(name), sector % self.shape.zone_len * SECTOR as u64)
    }
}

fn open(path: &Path, flags: OFlags) -> std::io::Result<File> {
    let flags = (OFlags::DIRECT | flags).bits().cast_signed();
    OpenOptions::new().read(true).write(true).custom_flags(flags).open(path)
}

impl Host for Files {
    fn fua(&self) -> Fua {
        Fua::OnRequest
    }

    /// Threads overtake each other.
    fn keeps_order(&self) -> bool {
        false
    }

    fn submit(&mut self, slot: usize, command: &Command, data: &[u8]) {
        let capacity = self.shape.zone_capacity * SECTOR as u64;
        let job: Job = match command.work {
            Work::Write { sector, fua, .. } => {
                let (path, at) = self.place(sector);
                let data = Buf::from(data);
                let flags = if fua { OFlags::SYNC } else { OFlags::empty() };
                Box::new(move || {
                    let written = open(&path, flags).and_then(|file| file.write_all_at(&data, at));
                    (slot, written.is_ok())
                })
            }
            Work::Flush => {
                let (path, _) = self.place(0);
                Box::new(move || {
                    let synced = open(&path, OFlags::empty()).and_then(|file| file.sync_all());
                    (slot, synced.is_ok())
                })
            }
            Work::Reset { sector } | Work::Finish { sector } => {
                let len = if matches!(command.work, Work::Reset { .. }) { 0 } else { capacity };
                let (path, _) = self.place(sector);
                Box::new(move || {
                    let resized = open(&path, OFlags::empty()).and_then(|file| file.set_len(len));
                    (slot, resized.is_ok())
                })
            }
        };
        self.in_flight += 1;
        self.jobs.send(job).expect("threads");
    }

    fn poll(&mut self, ended: &mut Vec<(usize, bool)>) {
        for answer in self.ended.try_iter() {
            self.in_flight -= 1;
            ended.push(answer);
        }
    }

    fn poll_after_kill(&mut self, ended: &mut Vec<(usize, bool)>) {
        crate::host::wait_until("the end of all system calls", || {
            self.poll(ended);
            self.in_flight == 0
        });
    }

    fn read(&mut self, _: usize, sector: u64, len: u64) -> Result<Vec<u8>, String> {
        let (path, at) = self.place(sector);
        let mut buf = Buf::zeroed(len as usize * SECTOR);
        let read = File::open(path).and_then(|file| {
            let mut done = 0;
            // A sequential file ends at the write pointer.
            while done < buf.len() {
                match file.read_at(&mut buf[done..], at + done as u64)? {
                    0 => break,
                    more => done += more,
                }
            }
            Ok(())
        });
        read.map(|()| buf.to_vec()).map_err(|error| error.to_string())
    }

    fn zones(&mut self, _: usize) -> Vec<Zone> {
        let zone = |number| {
            let start = self.shape.places + number * self.shape.zone_len;
            let size = self.place(start).0.metadata().expect("a file").len() / SECTOR as u64;
            let cond = match size {
                0 => ZoneCondition::Empty,
                size if size == self.shape.zone_capacity => ZoneCondition::Full,
                _ => ZoneCondition::Closed,
            };
            Zone {
                start: Sector(start),
                len: Sector(self.shape.zone_len),
                capacity: Sector(self.shape.zone_capacity),
                wp: Sector(start + size),
                kind: ZoneKind::SequentialRequired,
                cond,
                attributes: ZoneAttributes::NONE,
            }
        };
        (0..self.shape.zones).map(zone).collect()
    }

    fn shut_down(&mut self) -> Option<ShutDown> {
        // Files that are open hold the file system.
        let mut ended = Vec::new();
        self.poll_after_kill(&mut ended);
        unmount(&self.dir);
        Some(ShutDown::WithServer)
    }
}

/// Unmounts a directory, if something is mounted there.
pub fn unmount(dir: &Path) {
    umount("-l", dir);
}

/// The same, and requests that nobody answers fail: otherwise they would hold the mount for ever.
#[cfg(feature = "fuse")]
pub fn abort(dir: &Path) {
    umount("-fl", dir);
}

fn umount(options: &str, dir: &Path) {
    let mut umount = std::process::Command::new("umount");
    // Where nothing is mounted, it says so.
    let _ = umount.arg(options).arg(dir).stderr(std::process::Stdio::null()).status();
}
