//! An operation on files, and its text.
use super::MAX_FILE;
use std::fmt;
use std::str::FromStr;

/// How a write comes to the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    /// write(2).
    Buffered,
    /// write(2) with `O_DIRECT`: blocks of 4096 bytes only.
    Direct,
    /// Through a mapping of the file, within its size.
    Mapped,
}

/// A part of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The file.
    pub path: String,
    /// In bytes.
    pub offset: u32,
    /// In bytes.
    pub len: u32,
}

/// An operation. Paths are relative to the directory of the workload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Op {
    /// A new, empty file.
    Create(String),
    /// A new directory.
    Mkdir(String),
    /// Removes an empty directory.
    Rmdir(String),
    /// Removes a name of a file or symbolic link.
    Unlink(String),
    /// Data of this operation's own.
    Write(Place, How),
    /// Sets the size.
    Truncate(String, u32),
    /// fallocate(2): allocates, and makes the file that long if it is shorter.
    Allocate(Place),
    /// fallocate(2): makes a hole.
    Punch(Place),
    /// Of a file, over another one or to a new name; or of a directory, to a new name.
    Rename(String, String),
    /// Another name for a file.
    Link(String, String),
    /// A symbolic link with the first as its text.
    Symlink(String, String),
    /// Sets the extended attribute `user.NAME` of a file to data of this operation's own.
    SetXattr(String, String),
    /// Of a file or a directory.
    Fsync(String),
    /// Of a file.
    Fdatasync(String),
    /// sync(2).
    Sync,
    /// syncfs(2).
    Syncfs,
    /// One that the file system does not support, and that had no effect.
    Refused(Box<Op>),
}

impl Op {
    /// Whether what was done before is durable, in part at least, when it has returned.
    pub fn persists(&self) -> bool {
        matches!(self, Op::Fsync(_) | Op::Fdatasync(_) | Op::Sync | Op::Syncfs)
    }
}

impl fmt::Display for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let place = |Place { path, offset, len }: &Place| format!("{path} {offset} {len}");
        match self {
            Op::Create(path) => write!(f, "create {path}"),
            Op::Mkdir(path) => write!(f, "mkdir {path}"),
            Op::Rmdir(path) => write!(f, "rmdir {path}"),
            Op::Unlink(path) => write!(f, "unlink {path}"),
            Op::Write(to, How::Buffered) => write!(f, "write {}", place(to)),
            Op::Write(to, How::Direct) => write!(f, "write {} direct", place(to)),
            Op::Write(to, How::Mapped) => write!(f, "write {} mapped", place(to)),
            Op::Truncate(path, len) => write!(f, "truncate {path} {len}"),
            Op::Allocate(of) => write!(f, "allocate {}", place(of)),
            Op::Punch(of) => write!(f, "punch {}", place(of)),
            Op::Rename(from, to) => write!(f, "rename {from} {to}"),
            Op::Link(from, to) => write!(f, "link {from} {to}"),
            Op::Symlink(text, path) => write!(f, "symlink {text} {path}"),
            Op::SetXattr(path, name) => write!(f, "setxattr {path} {name}"),
            Op::Fsync(path) => write!(f, "fsync {path}"),
            Op::Fdatasync(path) => write!(f, "fdatasync {path}"),
            Op::Sync => write!(f, "sync"),
            Op::Syncfs => write!(f, "syncfs"),
            Op::Refused(op) => write!(f, "refused {op}"),
        }
    }
}

/// The operations as they are written, for errors.
const OPS: &str = "create, mkdir, rmdir, unlink PATH; write PATH OFFSET LEN [direct|mapped]; truncate PATH LEN; \
    allocate, punch PATH OFFSET LEN; rename, link FROM TO; symlink TEXT PATH; setxattr PATH NAME; \
    fsync, fdatasync PATH; sync, syncfs or refused OPERATION";

impl FromStr for Op {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let words: Vec<&str> = text.split_whitespace().collect();
        let unknown = || {
            let hint = zonal_blk::did_you_mean_of(words.first().unwrap_or(&""), OPS);
            format!("found `{text}`, expected {OPS}{hint}")
        };
        Ok(match words[..] {
            ["create", at] => Op::Create(path(at)?),
            ["mkdir", at] => Op::Mkdir(path(at)?),
            ["rmdir", at] => Op::Rmdir(path(at)?),
            ["unlink", at] => Op::Unlink(path(at)?),
            ["write", at, offset, len] => Op::Write(place(at, offset, len)?, How::Buffered),
            ["write", at, offset, len, "direct"] => {
                let to = place(at, offset, len)?;
                if !to.offset.is_multiple_of(4096) || !to.len.is_multiple_of(4096) {
                    return Err(format!("found `{text}`, expected multiples of 4096 bytes"));
                }
                Op::Write(to, How::Direct)
            }
            ["write", at, offset, len, "mapped"] => Op::Write(place(at, offset, len)?, How::Mapped),
            ["truncate", at, len] => Op::Truncate(path(at)?, number(len)?),
            ["allocate", at, offset, len] => Op::Allocate(place(at, offset, len)?),
            ["punch", at, offset, len] => Op::Punch(place(at, offset, len)?),
            ["rename", from, to] => Op::Rename(path(from)?, path(to)?),
            ["link", from, to] => Op::Link(path(from)?, path(to)?),
            ["symlink", text, at] => Op::Symlink(path(text)?, path(at)?),
            ["setxattr", at, name] => Op::SetXattr(path(at)?, component(name)?.to_owned()),
            ["fsync", at] => Op::Fsync(path(at)?),
            ["fdatasync", at] => Op::Fdatasync(path(at)?),
            ["sync"] => Op::Sync,
            ["syncfs"] => Op::Syncfs,
            ["refused", ..] => match text.split_once("refused ") {
                Some((_, op)) if !op.contains("refused") => Op::Refused(Box::new(op.parse()?)),
                _ => return Err(unknown()),
            },
            _ => return Err(unknown()),
        })
    }
}

fn component(text: &str) -> Result<&str, String> {
    let good = |c: char| c.is_ascii_alphanumeric() || "_-.".contains(c);
    if !text.is_empty() && text.len() <= 64 && text.chars().all(good) && !text.starts_with('.') {
        return Ok(text);
    }
    Err(format!("found `{text}`, expected a name of letters, digits, `_`, `-` and `.`"))
}

/// A path within the directory of the workload.
fn path(text: &str) -> Result<String, String> {
    text.split('/').try_for_each(|part| component(part).map(drop))?;
    Ok(text.to_owned())
}

fn number(text: &str) -> Result<u32, String> {
    let parsed = text.parse().ok().filter(|&number| number <= MAX_FILE);
    parsed.ok_or_else(|| format!("found `{text}`, expected a number of bytes up to {MAX_FILE}"))
}

fn place(at: &str, offset: &str, len: &str) -> Result<Place, String> {
    let (offset, len) = (number(offset)?, number(len)?);
    if len == 0 || offset + len > MAX_FILE {
        return Err(format!(
            "found bytes {offset} to {}, expected some, up to {MAX_FILE}",
            offset + len
        ));
    }
    Ok(Place { path: path(at)?, offset, len })
}
