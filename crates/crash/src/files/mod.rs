//! Workloads of file operations, and what of them must be there after a loss of power: bounded sequences in the
//! manner of ACE (Mohan and others, "Finding Crash-Consistency Bugs with Bounded Black-Box Crash Testing", OSDI 2018).
//!
//! ```text
//!  seed --generate--> Workload --play--> files, and a mark after each fsync, while the device is recorded
//!                        |
//!                        +------ judge --> are the files of a state among those that may be there?
//! ```
//!
//! A workload has a directory of its own. Its text has an operation a line:
//!
//! ```text
//!  create foo
//!  write foo 0 8192 direct
//!  fsync foo
//!  rename foo A/bar
//!  sync
//! ```
mod generate;
mod judge;
mod op;
mod play;
mod tree;

pub use generate::generate;
pub use judge::{Entry, Found, judge, judge_all};
pub use op::{How, Op, Place};
pub use play::{PlayError, play};
pub use tree::{Inode, Tree};

use std::fmt;
use twox_hash::XxHash3_128;

/// Most operations of a workload: bytes of the model have the number of the one that wrote them.
pub const MAX_OPS: usize = 250;
/// Most bytes of a file.
pub const MAX_FILE: u32 = 1 << 20;

/// Operations on files of one directory, in order. The operation with number *n* is the *n*th, from 1.
#[derive(Clone, Debug, PartialEq)]
pub struct Workload {
    name: String,
    /// Makes its data differ from those of other workloads.
    salt: u64,
    ops: Vec<Op>,
    states: Vec<Tree>,
}

/// Why a text is no workload.
#[derive(Debug, PartialEq, thiserror::Error)]
#[error("{name}, line {line}: {why}")]
pub struct WorkloadError {
    /// Of the workload.
    pub name: String,
    /// From 1.
    pub line: usize,
    /// What was found, and what was expected.
    pub why: String,
}

impl Workload {
    /// A workload; its name is that of its directory, and makes its data differ from those of others.
    ///
    /// # Errors
    /// An operation cannot succeed after those before it, or there are too many.
    pub fn new(name: &str, ops: Vec<Op>) -> Result<Self, WorkloadError> {
        let error = |line, why| WorkloadError { name: name.to_owned(), line, why };
        if ops.len() > MAX_OPS {
            let why = format!("found {} operations, expected at most {MAX_OPS}", ops.len());
            return Err(error(MAX_OPS + 1, why));
        }
        let mut states = vec![Tree::default()];
        for (line, op) in (1..).zip(&ops) {
            let mut tree = states[line - 1].clone();
            tree.apply(line as u8, op).map_err(|why| error(line, format!("{op}: {why}")))?;
            states.push(tree);
        }
        let salt = XxHash3_128::oneshot(name.as_bytes()) as u64;
        Ok(Workload { name: name.to_owned(), salt, ops, states })
    }

    /// Reads a workload: the number of an operation is that of its line.
    ///
    /// # Errors
    /// The line that is no operation, or one that cannot succeed.
    pub fn parse(name: &str, text: &str) -> Result<Self, WorkloadError> {
        let text = text.trim_end();
        let ops = (1..).zip(text.lines()).map(|(line, text)| {
            text.parse().map_err(|why| WorkloadError { name: name.to_owned(), line, why })
        });
        Workload::new(name, ops.collect::<Result<_, _>>()?)
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its operations.
    pub fn ops(&self) -> &[Op] {
        &self.ops
    }

    /// The files after as many operations as their index says.
    pub fn states(&self) -> &[Tree] {
        &self.states
    }

    /// What operation `number` writes to byte `offset` of a file. Zero stands for what was never written.
    pub fn byte(&self, number: u8, offset: usize) -> u8 {
        byte(self.salt, number, offset)
    }

    /// What operation `number` writes from `offset` on.
    pub(crate) fn data(&self, number: u8, offset: usize, len: usize) -> Vec<u8> {
        (offset..offset + len).map(|offset| self.byte(number, offset)).collect()
    }
}

/// Never zero, which is what a hole has.
fn byte(salt: u64, number: u8, offset: usize) -> u8 {
    if number == 0 {
        return 0;
    }
    let word = zonal_device::rng::mix(salt ^ (u64::from(number) << 48) ^ (offset as u64 / 8));
    (word >> (offset % 8 * 8)) as u8 | 1
}

impl fmt::Display for Workload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.ops.iter().try_for_each(|op| writeln!(f, "{op}"))
    }
}
