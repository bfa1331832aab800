//! A file's lines, one at a time in one buffer.
use super::TraceError;
use std::io::{BufRead, Read};

/// Bytes that a line may have.
const MAX_LINE: u64 = 4096;

pub(super) struct Lines<'a> {
    /// Name of the file, for errors.
    pub name: String,
    input: &'a mut dyn BufRead,
    buffer: Vec<u8>,
    /// Number of the line in the buffer.
    number: u32,
    /// The next line is the same again.
    again: bool,
}

impl<'a> Lines<'a> {
    pub(super) fn new(name: &str, input: &'a mut dyn BufRead) -> Self {
        Lines { name: name.to_owned(), input, buffer: Vec::new(), number: 0, again: false }
    }

    /// Goes to the next line; false after the last.
    pub(super) fn advance(&mut self) -> Result<bool, TraceError> {
        if !std::mem::take(&mut self.again) {
            self.buffer.clear();
            self.number = self.number.checked_add(1).ok_or_else(|| self.error("too many lines"))?;
            let limited = &mut self.input.take(MAX_LINE);
            if let Err(error) = limited.read_until(b'\n', &mut self.buffer) {
                return Err(self.error(error.to_string()));
            }
            match self.buffer.last() {
                None => return Ok(false),
                Some(b'\n') => {}
                Some(_) if self.buffer.len() as u64 == MAX_LINE => {
                    return Err(self.error("the line is longer than 4096 bytes"));
                }
                Some(_) => return Err(self.error("the file is cut off: the line has no end")),
            }
        }
        match std::str::from_utf8(&self.buffer) {
            Ok(_) => Ok(true),
            Err(_) => Err(self.error("found bytes that are not text")),
        }
    }

    /// The line, with its end.
    pub(super) fn text(&self) -> &str {
        std::str::from_utf8(&self.buffer).expect("checked when it was read")
    }

    /// The next line is this one again.
    pub(super) fn put_back(&mut self) {
        self.again = true;
    }

    /// The line's number, from 1.
    pub(super) fn number(&self) -> u32 {
        self.number
    }

    /// What is wrong with the line.
    pub(super) fn error(&self, problem: impl Into<String>) -> TraceError {
        TraceError { file: self.name.clone(), line: self.number, problem: problem.into() }
    }
}
