//! Workloads carried out by the operating system.
use super::judge::ATTRIBUTE;
use super::{How, Op, Place, Workload};
use rustix::fs::Mode;
use rustix::fs::{FallocateFlags, OFlags, XattrFlags, fallocate, open, setxattr, sync, syncfs};
use rustix::io::Errno;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, symlink};
use std::path::{Path, PathBuf};
use zonal_os::mapped::write_mapped;

/// Why a workload was not played to its end.
#[derive(Debug, thiserror::Error)]
pub enum PlayError {
    /// Its directory cannot be made.
    #[error("{}: {error}", path.display())]
    Directory {
        /// The directory.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// An operation failed.
    #[error("{workload}, operation {number}, `{op}`: {error}")]
    Op {
        /// Its name.
        workload: String,
        /// From 1.
        number: usize,
        /// The operation.
        op: String,
        /// Why.
        error: io::Error,
    },
    /// A mark could not be put.
    #[error("mark `{mark}`: {why}")]
    Mark {
        /// Its text.
        mark: String,
        /// Why.
        why: String,
    },
}

/// Plays a workload in a new directory of its name below `directory`, and puts a mark `NAME NUMBER` after each operation
/// that makes others durable; `NAME 0` when the directory itself is. Returns the workload as it was played: what the
/// file system does not support (`EOPNOTSUPP`; `EINVAL` of a direct write) is refused in it.
///
/// # Errors
/// An operation or a mark failed.
pub fn play(
    workload: &Workload,
    directory: &Path,
    mark: &mut dyn FnMut(&str) -> Result<(), String>,
) -> Result<Workload, PlayError> {
    let root = directory.join(workload.name());
    let mut put = |number: usize| {
        let text = format!("{} {number}", workload.name());
        mark(&text).map_err(|why| PlayError::Mark { mark: text, why })
    };
    fs::create_dir(&root).map_err(|error| PlayError::Directory { path: root.clone(), error })?;
    sync();
    put(0)?;
    let mut ops = Vec::new();
    for (number, op) in (1..).zip(workload.ops()) {
        let failed = |error: io::Error| PlayError::Op {
            workload: workload.name().to_owned(),
            number,
            op: op.to_string(),
            error,
        };
        let done = carry_out(&root, workload, number as u8, op);
        let refused = done.as_ref().is_err_and(|error| refuses(op, error));
        if refused && !op.persists() {
            ops.push(Op::Refused(Box::new(op.clone())));
            continue;
        }
        done.map_err(failed)?;
        ops.push(op.clone());
        if op.persists() {
            put(number)?;
        }
    }
    let played = Workload::new(workload.name(), ops);
    played.map_err(|error| PlayError::Op {
        workload: workload.name().to_owned(),
        number: error.line,
        op: "after one that was refused".to_owned(),
        error: io::Error::other(error.why),
    })
}

fn refuses(op: &Op, error: &io::Error) -> bool {
    let direct = matches!(op, Op::Write(_, How::Direct));
    match Errno::from_io_error(error) {
        Some(Errno::OPNOTSUPP) => true,
        Some(Errno::INVAL) => direct,
        _ => false,
    }
}

fn carry_out(root: &Path, workload: &Workload, number: u8, op: &Op) -> io::Result<()> {
    let at = |path: &str| root.join(path);
    let write = |path: &str| OpenOptions::new().read(true).write(true).open(at(path));
    match op {
        Op::Create(path) => File::create_new(at(path)).map(drop),
        Op::Mkdir(path) => fs::create_dir(at(path)),
        Op::Rmdir(path) => fs::remove_dir(at(path)),
        Op::Unlink(path) => fs::remove_file(at(path)),
        Op::Write(Place { path, offset, len }, how) => {
            let data = workload.data(number, *offset as usize, *len as usize);
            let offset = u64::from(*offset);
            match how {
                How::Buffered => write(path)?.write_all_at(&data, offset),
                How::Direct => write_direct(&at(path), &data, offset),
                How::Mapped => write_mapped(&write(path)?, offset, &data),
            }
        }
        Op::Truncate(path, len) => write(path)?.set_len(u64::from(*len)),
        Op::Allocate(of) => allocate(&write(&of.path)?, FallocateFlags::empty(), of),
        Op::Punch(of) => {
            let hole = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
            allocate(&write(&of.path)?, hole, of)
        }
        Op::Rename(from, to) => fs::rename(at(from), at(to)),
        Op::Link(from, to) => fs::hard_link(at(from), at(to)),
        Op::Symlink(text, path) => symlink(text, at(path)),
        Op::SetXattr(path, name) => {
            let value = workload.data(number, 0, ATTRIBUTE);
            Ok(setxattr(at(path), format!("user.{name}"), &value, XattrFlags::empty())?)
        }
        Op::Fsync(path) => File::open(at(path))?.sync_all(),
        Op::Fdatasync(path) => File::open(at(path))?.sync_data(),
        Op::Sync => {
            sync();
            Ok(())
        }
        Op::Syncfs => Ok(syncfs(File::open(root)?)?),
        Op::Refused(_) => Ok(()),
    }
}

fn allocate(file: &File, flags: FallocateFlags, of: &Place) -> io::Result<()> {
    Ok(fallocate(file, flags, u64::from(of.offset), u64::from(of.len))?)
}

/// The blocks begin at a multiple of 4096 bytes in memory too.
fn write_direct(path: &Path, data: &[u8], offset: u64) -> io::Result<()> {
    const BLOCK: usize = 4096;
    let file = File::from(open(path, OFlags::WRONLY | OFlags::DIRECT, Mode::empty())?);
    let mut buffer = vec![0; data.len() + BLOCK];
    let first = buffer.as_ptr().align_offset(BLOCK);
    buffer[first..first + data.len()].copy_from_slice(data);
    file.write_all_at(&buffer[first..first + data.len()], offset)
}
