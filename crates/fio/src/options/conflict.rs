//! Options that contradict each other, or do not fit each other's values.
use super::engine::EngineError;
use super::number::format_size;
use thiserror::Error;

/// Options that contradict each other.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Conflict {
    /// The region does not hold one block.
    #[error("{} is less than the block size, {}", format_size(*.size), format_size(*.block))]
    SizeBelowBlock {
        /// Bytes of the region.
        size: u64,
        /// Bytes of a block.
        block: u64,
    },
    /// Two options that exclude each other.
    #[error("cannot be combined with {with}{}", reason(because))]
    Combined {
        /// The option at fault.
        option: &'static str,
        /// The other one.
        with: &'static str,
        /// Why; empty if it is evident.
        because: &'static str,
    },
    /// An option that has no meaning without another one.
    #[error("needs {other}")]
    Needs {
        /// The option at fault.
        option: &'static str,
        /// The option that it needs.
        other: String,
    },
    /// The verify header does not fit at its offset.
    #[error(
        "the header of verify={method} does not fit at offset {at} of {}: it must not overlap its \
         place at the start or exceed the end",
        format_size(*.len)
    )]
    NoRoomForHeader {
        /// The verification method.
        method: &'static str,
        /// Offset of the header.
        at: u32,
        /// Bytes of a block or interval.
        len: u64,
    },
    /// The engine cannot be used.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// Offsets can only be aligned to powers of two.
    #[error("expected a power of two, found {0}")]
    NotPowerOfTwo(u64),
}

impl Conflict {
    /// The option at fault.
    pub fn option(&self) -> &'static str {
        match self {
            Conflict::SizeBelowBlock { .. } => "size",
            Conflict::Combined { option, .. } | Conflict::Needs { option, .. } => option,
            Conflict::NoRoomForHeader { at: 0, .. } => "verify",
            Conflict::NoRoomForHeader { .. } => "verify_offset",
            Conflict::Engine(_) => "ioengine",
            Conflict::NotPowerOfTwo(_) => "replay_align",
        }
    }
}

fn reason(because: &str) -> String {
    if because.is_empty() { String::new() } else { format!(": {because}") }
}
