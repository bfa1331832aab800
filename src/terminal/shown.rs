//! Text for the terminal. A name or a message may come from a file or a host, and the terminal executes
//! control characters: everything that the program prints goes through here.
use std::fmt;
use std::io::{self, Stdout, Write};

/// Text in which control characters, and characters that change the direction of writing, are escaped as
/// in `\u001b`. Line ends and tabs stay. JSON keeps its meaning: in its strings the escapes stand for the
/// same characters.
pub fn shown(text: impl fmt::Display) -> String {
    let mut shown = String::new();
    for character in text.to_string().chars() {
        if is_executed(character) {
            shown += &format!("\\u{:04x}", u32::from(character));
        } else {
            shown.push(character);
        }
    }
    shown
}

fn is_executed(character: char) -> bool {
    match character {
        '\n' | '\t' => false,
        '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => true,
        _ => character.is_control(),
    }
}

/// Standard output, with its text [`shown`].
pub fn stdout() -> Shown<Stdout> {
    Shown { out: io::stdout(), rest: Vec::new() }
}

/// A writer that passes text on, [`shown`].
pub struct Shown<W: Write> {
    out: W,
    /// The first bytes of a character that is not complete yet.
    rest: Vec<u8>,
}

impl<W: Write> Write for Shown<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.rest.extend_from_slice(bytes);
        let whole = match str::from_utf8(&self.rest) {
            Err(error) if error.error_len().is_none() => error.valid_up_to(),
            _ => self.rest.len(),
        };
        let whole: Vec<u8> = self.rest.drain(..whole).collect();
        self.out.write_all(shown(String::from_utf8_lossy(&whole)).as_bytes())?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

impl<W: Write> Drop for Shown<W> {
    /// A character that the text ends in the middle of is shown as one that there is not.
    fn drop(&mut self) {
        if !self.rest.is_empty() {
            // As with what is buffered, whoever has to know of an error writes what follows.
            let _ = self.out.write_all(char::REPLACEMENT_CHARACTER.to_string().as_bytes());
            let _ = self.out.flush();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EVIL: &str = "a\x1b]0;title\x07\r\u{9b}2J\u{202e}é\n\tb\x7f";
    const SHOWN: &str = "a\\u001b]0;title\\u0007\\u000d\\u009b2J\\u202eé\n\tb\\u007f";

    #[test]
    fn terminal_executes_nothing_of_a_text() {
        assert_eq!(shown(EVIL), SHOWN);
    }

    #[test]
    fn characters_that_are_written_in_pieces_are_whole() {
        for len in 1..5 {
            let text = written(EVIL.as_bytes().chunks(len));
            assert_eq!(text, SHOWN, "in pieces of {len}");
        }
        assert_eq!(written([&b"a\x9b\xffb\n"[..]]), "a\u{fffd}\u{fffd}b\n");
    }

    #[test]
    fn text_that_ends_within_a_character_shows_that() {
        assert_eq!(written([&b"a\xe2\x82"[..]]), "a\u{fffd}");
        assert_eq!(written([&b"a\xe2"[..], b"\x82", b"\xac"]), "a€");
    }

    fn written<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> String {
        let mut bytes = Vec::new();
        let mut out = Shown { out: &mut bytes, rest: Vec::new() };
        pieces.into_iter().for_each(|piece| out.write_all(piece).expect("memory"));
        drop(out);
        String::from_utf8(bytes).expect("UTF-8")
    }

    #[test]
    fn json_has_the_same_text() {
        let text = serde_json::to_string(EVIL).expect("JSON");
        let read: String = serde_json::from_str(&shown(text)).expect("JSON");
        assert_eq!(read, EVIL);
    }
}
