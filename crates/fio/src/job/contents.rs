//! Options for what the buffers of writes contain, where they are not verified.
use super::FillPattern;

/// The contents of writes (`buffer_pattern=`, `dedupe_percentage=`, ...).
#[derive(Clone, Debug, PartialEq)]
pub struct ContentOptions {
    /// `zero_buffers=`: zeroes.
    pub zeroes: bool,
    /// `buffer_pattern=`: this pattern, again and again.
    pub pattern: Option<FillPattern>,
    /// `refill_buffers=`, `scramble_buffers=`: other bytes in each write.
    pub refill: bool,
    /// `buffer_compress_percentage=`: the part of each chunk that is the pattern or zeroes; the rest is
    /// random.
    pub compressible: Option<u8>,
    /// `buffer_compress_chunk=`: bytes of a chunk; 0 for the whole block.
    pub chunk: u32,
    /// `dedupe_percentage=`: the percentage of writes with the contents of an earlier one.
    pub repeated: u8,
    /// `dedupe_mode=working_set`: the percentage of the region whose first contents are those that are
    /// repeated (`dedupe_working_set_percentage=`); with `repeat` that of the last write of its own.
    pub working_set: Option<u8>,
    /// `dedupe_global=`: all clones with the same seed have the same working set.
    pub shared: bool,
}

impl Default for ContentOptions {
    fn default() -> Self {
        ContentOptions {
            zeroes: false,
            pattern: None,
            refill: false,
            compressible: None,
            chunk: 512,
            repeated: 0,
            working_set: None,
            shared: false,
        }
    }
}

impl ContentOptions {
    /// Whether it matters what a write contains.
    pub fn is_chosen(&self) -> bool {
        self.zeroes
            || self.pattern.is_some()
            || self.refill
            || self.compressible.is_some()
            || self.repeated > 0
    }
}
