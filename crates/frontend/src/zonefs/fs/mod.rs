//! The rules of zonefs: which files there are, and what may be done with them. Answers what it can
//! and plans the I/O of the rest (`data`). Files are never created or removed.
mod data;

use super::options::{Access, Options};
use super::tree::{Entry, Extent, FileNo, Node, ROOT, Tree};
pub use data::OpenMode;
pub(super) use data::{ReadPlan, WritePlan};
use rustix::io::Errno;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::SystemTime;
use zonal_blk::{Op, Queue, Status, Zone, ZoneCondition, ZoneKind, ZoneNo};
use zonal_os::Notify;

/// A device's zones as files.
pub struct ZoneFs {
    queue: Arc<Queue>,
    options: Options,
    tree: Tree,
    files: Vec<Mutex<State>>,
    /// The root, `cnv` and `seq`.
    dirs: [Mutex<Meta>; 3],
    /// After an error with `remount-ro`.
    read_only: AtomicBool,
    /// Sequential files that are open for writing.
    written: AtomicU32,
    notify: Notify,
}

/// Why a device has no file system.
#[derive(Debug, thiserror::Error)]
pub enum ZoneFsError {
    /// It has no zones.
    #[error("the device has no zones: expected a zoned device")]
    NoZones,
    /// It did not report its zones.
    #[error("the device did not report its zones: {0}")]
    Report(Status),
}

/// The attributes of an inode that the device does not have.
#[derive(Clone, Debug)]
struct Meta {
    perm: u16,
    uid: u32,
    gid: u32,
    accessed: SystemTime,
    modified: SystemTime,
    changed: SystemTime,
}

/// The state of a file.
#[derive(Debug)]
struct State {
    meta: Meta,
    access: Access,
    /// Its size in bytes as of the last zone report.
    size: u64,
    /// How often it is open for writing.
    writers: u32,
    /// Its zone was opened explicitly for them.
    opened: bool,
    /// Writes in flight.
    in_flight: u32,
    /// The write pointer after them, in bytes from the start of the file.
    next: u64,
}

/// Attributes, as of stat(2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attr {
    /// The number of its node.
    pub node: u64,
    /// Inode number.
    pub ino: u64,
    /// Size in bytes; of `cnv` and `seq` the number of files.
    pub size: u64,
    /// Capacity in blocks of 512 bytes.
    pub blocks: u64,
    /// Whether it is a directory.
    pub is_dir: bool,
    /// Permission bits.
    pub perm: u16,
    /// Links.
    pub links: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// The device's block size in bytes, to which writes are aligned.
    pub block_size: u32,
    /// Time of last access, as set by utimensat(2).
    pub accessed: SystemTime,
    /// Last written.
    pub modified: SystemTime,
    /// Last changed.
    pub changed: SystemTime,
}

/// Attributes to set; `None` for those to keep.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SetAttr {
    /// Permission bits.
    pub perm: Option<u16>,
    /// Owner.
    pub uid: Option<u32>,
    /// Group.
    pub gid: Option<u32>,
    /// Last read.
    pub accessed: Option<SystemTime>,
    /// Last written.
    pub modified: Option<SystemTime>,
}

/// Usage, as of statfs(2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StatFs {
    /// Block size in bytes.
    pub block_size: u32,
    /// Capacity of all files in blocks.
    pub blocks: u64,
    /// Blocks that can still be written.
    pub free: u64,
    /// Files and their directories.
    pub files: u64,
}

impl ZoneFs {
    /// The file system of a device.
    ///
    /// # Errors
    /// [`ZoneFsError`].
    pub fn new(
        queue: Arc<Queue>,
        mut options: Options,
        notify: Notify,
    ) -> Result<Self, ZoneFsError> {
        let limits = queue.limits();
        if limits.nr_zones == 0 {
            return Err(ZoneFsError::NoZones);
        }
        if options.explicit_open && limits.max_open_zones == 0 {
            notify("explicit-open: the device has no limit of open zones; ignored, as by zonefs");
            options.explicit_open = false;
        }
        let mut zones = Vec::new();
        let count = limits.nr_zones as usize;
        queue.report_zones(ZoneNo(0), count, &mut zones).map_err(ZoneFsError::Report)?;
        let tree = Tree::new(&zones, options.aggregate);
        let now = SystemTime::now();
        let meta =
            |perm, uid, gid| Meta { perm, uid, gid, accessed: now, modified: now, changed: now };
        let state = |extent: &Extent| {
            // The contents of a zone that has failed before are unknown.
            let of_file = &zones[extent.first.index()..][..extent.zones as usize];
            let is_good = |zone: &Zone| {
                !matches!(zone.cond, ZoneCondition::ReadOnly | ZoneCondition::Offline)
            };
            Mutex::new(State {
                meta: meta(options.perm, options.uid, options.gid),
                access: if of_file.iter().all(is_good) { Access::Full } else { Access::None },
                size: 0,
                writers: 0,
                opened: false,
                in_flight: 0,
                next: 0,
            })
        };
        Ok(ZoneFs {
            files: tree.extents.iter().map(state).collect(),
            dirs: std::array::from_fn(|_| Mutex::new(meta(0o555, 0, 0))),
            tree,
            options,
            queue,
            read_only: AtomicBool::new(false),
            written: AtomicU32::new(0),
            notify,
        })
    }

    /// The block layer of the device.
    pub fn queue(&self) -> &Arc<Queue> {
        &self.queue
    }

    fn node(&self, number: u64) -> Result<Node, Errno> {
        self.tree.node(number).ok_or(Errno::NOENT)
    }

    fn extent(&self, FileNo(file): FileNo) -> &Extent {
        &self.tree.extents[file]
    }

    fn state(&self, FileNo(file): FileNo) -> MutexGuard<'_, State> {
        self.files[file].lock().expect("no thread panics while it holds a file")
    }

    fn dir(&self, node: Node) -> MutexGuard<'_, Meta> {
        let at = usize::try_from(Tree::number(node) - ROOT).expect("a small number");
        self.dirs[at].lock().expect("no thread panics while it holds a directory")
    }

    /// The file of a node.
    ///
    /// # Errors
    /// `EISDIR` for a directory, `ENOENT` if there is no such node.
    pub fn file(&self, node: u64) -> Result<FileNo, Errno> {
        match self.node(node)? {
            Node::File(file) => Ok(file),
            _ => Err(Errno::ISDIR),
        }
    }

    /// Whether a file is a sequential zone.
    pub fn is_sequential(&self, file: FileNo) -> bool {
        self.extent(file).kind == ZoneKind::SequentialRequired
    }

    /// Looks up a name in a directory.
    ///
    /// # Errors
    /// `ENOENT`; `ENOTDIR` for a file.
    pub fn lookup(&self, parent: u64, name: &str) -> Result<Attr, Errno> {
        let parent = self.node(parent)?;
        if let Node::File(_) = parent {
            return Err(Errno::NOTDIR);
        }
        let child = self.tree.child(parent, name).ok_or(Errno::NOENT)?;
        Ok(self.attr_of(child))
    }

    /// The entries of a directory from the `from`th on.
    ///
    /// # Errors
    /// `ENOTDIR`, `ENOENT`.
    pub fn entries(
        &self,
        dir: u64,
        from: usize,
    ) -> Result<impl Iterator<Item = Entry> + '_, Errno> {
        match self.node(dir)? {
            Node::File(_) => Err(Errno::NOTDIR),
            node => Ok(self.tree.entries(node, from)),
        }
    }

    /// A node's attributes. A file's size is read from the device.
    ///
    /// # Errors
    /// `ENOENT`.
    pub fn attr(&self, node: u64) -> Result<Attr, Errno> {
        Ok(self.attr_of(self.node(node)?))
    }

    fn attr_of(&self, node: Node) -> Attr {
        let (meta, perm, size, blocks, links) = match node {
            Node::File(file) => {
                let mut state = self.state(file);
                let size = self.refresh(file, &mut state);
                let perm = match state.access {
                    Access::Full => state.meta.perm,
                    Access::Read => state.meta.perm & !0o222,
                    Access::None => state.meta.perm & !0o777,
                };
                (state.meta.clone(), perm, size, self.extent(file).capacity >> 9, 1)
            }
            dir => {
                let meta = self.dir(dir).clone();
                let (size, links) = match dir {
                    Node::Dir(kind) => (self.tree.count(kind) as u64, 2),
                    _ => (0, 2 + u32::try_from(self.tree.entries(dir, 2).count()).unwrap_or(0)),
                };
                let perm = meta.perm;
                (meta, perm, size, 0, links)
            }
        };
        Attr {
            node: Tree::number(node),
            ino: self.tree.ino(node),
            size,
            blocks,
            is_dir: !matches!(node, Node::File(_)),
            perm,
            links,
            uid: meta.uid,
            gid: meta.gid,
            block_size: self.queue.limits().lba_size,
            accessed: meta.accessed,
            modified: meta.modified,
            changed: meta.changed,
        }
    }

    /// Sets attributes other than the size.
    ///
    /// # Errors
    /// `EROFS` after an error with `remount-ro`; `EPERM` for a file whose zone has failed, and for write
    /// permission on a directory.
    pub fn setattr(&self, node: u64, change: SetAttr) -> Result<(), Errno> {
        let node = self.node(node)?;
        self.check_not_read_only()?;
        let mut file;
        let mut dir;
        let meta = match node {
            Node::File(number) => {
                file = self.state(number);
                if file.access != Access::Full {
                    return Err(Errno::PERM);
                }
                &mut file.meta
            }
            node => {
                if change.perm.is_some_and(|perm| perm & 0o222 != 0) {
                    return Err(Errno::PERM);
                }
                dir = self.dir(node);
                &mut *dir
            }
        };
        meta.perm = change.perm.map_or(meta.perm, |perm| perm & 0o7777);
        meta.uid = change.uid.unwrap_or(meta.uid);
        meta.gid = change.gid.unwrap_or(meta.gid);
        meta.accessed = change.accessed.unwrap_or(meta.accessed);
        meta.modified = change.modified.unwrap_or(meta.modified);
        meta.changed = SystemTime::now();
        Ok(())
    }

    /// Whether all files have become read-only after an error.
    pub fn is_read_only(&self) -> bool {
        self.read_only.load(Ordering::Acquire)
    }

    fn check_not_read_only(&self) -> Result<(), Errno> {
        if self.is_read_only() { Err(Errno::ROFS) } else { Ok(()) }
    }

    /// The usage of the device.
    pub fn statfs(&self) -> StatFs {
        let block_size = self.queue.limits().lba_size;
        let (mut capacity, mut used) = (0, 0);
        for (number, extent) in self.tree.extents.iter().enumerate() {
            let file = FileNo(number);
            capacity += extent.capacity;
            used += self.refresh(file, &mut self.state(file));
        }
        let blocks = |bytes: u64| bytes / u64::from(block_size);
        let free = blocks(capacity.saturating_sub(used));
        let dirs = self.tree.entries(Node::Root, 2).count();
        let files = (self.files.len() + dirs) as u64;
        StatFs { block_size, blocks: blocks(capacity), free, files }
    }

    /// Whether opening and closing the file may open and close its zone.
    pub fn opens_zones(&self, file: FileNo) -> bool {
        self.options.explicit_open && self.is_sequential(file)
    }

    /// Opens a file. Returns whether its zone has to be opened, after which [`ZoneFs::open_done`] is to be
    /// called.
    ///
    /// # Errors
    /// For writing: `EROFS` after an error with `remount-ro`, `EPERM` if the zone has failed, `EBUSY` if
    /// the device's limit of open zones is reached with `explicit-open`.
    pub(super) fn open(&self, file: FileNo, writes: bool) -> Result<bool, Errno> {
        if !writes {
            return Ok(false);
        }
        self.check_not_read_only()?;
        let mut state = self.state(file);
        if state.access != Access::Full {
            return Err(Errno::PERM);
        }
        if state.writers > 0 || !self.is_sequential(file) {
            state.writers += 1;
            return Ok(false);
        }
        let open = self.written.fetch_add(1, Ordering::AcqRel) + 1;
        if self.options.explicit_open && open > self.queue.limits().max_open_zones {
            self.written.fetch_sub(1, Ordering::AcqRel);
            return Err(Errno::BUSY);
        }
        state.writers = 1;
        let has_room = self.refresh(file, &mut state) < self.extent(file).capacity;
        Ok(self.options.explicit_open && has_room)
    }

    /// The zone was opened with this status.
    pub(super) fn open_done(&self, file: FileNo, status: Status) -> Result<(), Errno> {
        let mut state = self.state(file);
        if status == Status::Ok {
            state.opened = true;
            return Ok(());
        }
        state.writers -= 1;
        self.written.fetch_sub(1, Ordering::AcqRel);
        Err(errno(status))
    }

    /// Closes a file. Returns the operation that its zone needs, after which [`ZoneFs::close_done`] is to be
    /// called.
    pub(super) fn close(&self, file: FileNo, wrote: bool) -> Option<Op> {
        if !wrote {
            return None;
        }
        let mut state = self.state(file);
        state.writers = state.writers.saturating_sub(1);
        if state.writers > 0 || !self.is_sequential(file) {
            return None;
        }
        let opened = std::mem::take(&mut state.opened);
        let size = self.refresh(file, &mut state);
        // A full zone is no longer open.
        if !opened || size == self.extent(file).capacity {
            self.written.fetch_sub(1, Ordering::AcqRel);
            return None;
        }
        // Closing an empty zone would leave it active.
        Some(if size == 0 { Op::ZoneReset } else { Op::ZoneClose })
    }

    /// The operation of [`ZoneFs::close`] completed with this status.
    pub(super) fn close_done(&self, file: FileNo, status: Status) {
        self.written.fetch_sub(1, Ordering::AcqRel);
        if status != Status::Ok {
            self.recover(file, status, false);
            // Zones that stay open would soon exhaust the device's limit.
            self.become_read_only();
        }
    }

    /// Sequential files that are open for writing.
    pub fn open_for_writing(&self) -> u32 {
        self.written.load(Ordering::Acquire)
    }
}

/// The error number of a failed status.
pub(super) fn errno(status: Status) -> Errno {
    Errno::from_raw_os_error(status.errno())
}
