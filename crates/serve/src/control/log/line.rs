//! Events as lines. Text may come from a remote host: control characters and invisible ones are
//! escaped, and each value has a bounded length.
use super::Format;
use serde_json::{Map, Value};
use std::fmt::{self, Debug, Write};
use std::time::{SystemTime, UNIX_EPOCH};
use tracing::Level;
use tracing::field::{Field, Visit};
use zonal_blk::units::date;

/// Most characters of a message or a value.
const MAX_CHARS: usize = 1024;

/// The fields of an event.
#[derive(Default)]
pub(super) struct Content {
    /// The sentence.
    pub message: String,
    /// Values by name.
    pub fields: Vec<(&'static str, Value)>,
}

impl Content {
    fn add(&mut self, field: &Field, value: Value) {
        self.fields.push((field.name(), value));
    }
}

impl Visit for Content {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        let text = clean(format_args!("{value:?}"));
        if field.name() == "message" { self.message = text } else { self.add(field, text.into()) }
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        let text = clean(format_args!("{value}"));
        if field.name() == "message" { self.message = text } else { self.add(field, text.into()) }
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.add(field, value.into());
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.add(field, value.into());
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.add(field, value.into());
    }
}

/// Text without control characters, cut at [`MAX_CHARS`].
fn clean(text: fmt::Arguments<'_>) -> String {
    let mut cleaner = Cleaner { text: String::new(), left: MAX_CHARS };
    // Writing to a string does not fail.
    let _ = cleaner.write_fmt(text);
    cleaner.text
}

struct Cleaner {
    text: String,
    /// Characters that still fit.
    left: usize,
}

impl Write for Cleaner {
    fn write_str(&mut self, part: &str) -> fmt::Result {
        for c in part.chars() {
            if self.left == 0 {
                // Formatting goes no further.
                self.text.push('…');
                return Err(fmt::Error);
            }
            self.left -= 1;
            match c {
                '\\' | '"' | '\'' => self.text.push(c),
                _ => self.text.extend(c.escape_debug()),
            }
        }
        Ok(())
    }
}

/// A line, with its end.
pub(super) fn line(format: Format, time: SystemTime, level: Level, content: &Content) -> String {
    let Content { message, fields } = content;
    if format == Format::Json {
        let mut object = Map::new();
        object.insert("time".to_owned(), timestamp(time).into());
        object.insert("level".to_owned(), level.as_str().to_lowercase().into());
        object.insert("message".to_owned(), message.as_str().into());
        object.extend(fields.iter().map(|(name, value)| ((*name).to_owned(), value.clone())));
        return format!("{}\n", Value::Object(object));
    }
    let fields: String = fields.iter().map(|(name, value)| format!(" {name}={value}")).collect();
    match format {
        Format::Text => format!("{} {level:5} {message}{fields}\n", timestamp(time)),
        _ => format!("zonal: {message}{fields}\n"),
    }
}

/// A time in UTC (RFC 3339), to the millisecond.
fn timestamp(time: SystemTime) -> String {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    let (days, second) = (since.as_secs() / 86_400, since.as_secs() % 86_400);
    let (year, month, day) = date(days);
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    let millis = since.subsec_millis();
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{millis:03}Z")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn cleaned(text: &str) -> String {
        clean(format_args!("{text}"))
    }

    #[test]
    fn what_a_host_sent_stays_on_its_line() {
        assert_eq!(cleaned("a\nb\x1b[2J\u{9b}\u{202e}é"), r"a\nb\u{1b}[2J\u{9b}\u{202e}é");
        assert_eq!(cleaned(r#"host "nqn.a\n""#), r#"host "nqn.a\n""#);
        let long = cleaned(&"x".repeat(5000));
        assert_eq!((long.chars().count(), long.ends_with("x…")), (MAX_CHARS + 1, true));
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_one_line_without_control_characters(message: String, value: String) {
            let fields = vec![("value", Value::from(cleaned(&value)))];
            let content = Content { message: cleaned(&message), fields };
            for format in [Format::Plain, Format::Text, Format::Json] {
                let line = line(format, UNIX_EPOCH, Level::WARN, &content);
                let text = line.strip_suffix('\n').expect("an end");
                proptest::prop_assert!(!text.contains(char::is_control), "{text:?}");
                if format == Format::Json {
                    proptest::prop_assert!(serde_json::from_str::<Value>(text).is_ok());
                }
            }
        }
    }

    #[test]
    fn times_are_those_of_the_calendar() {
        for (seconds, expected) in [
            (0, "1970-01-01T00:00:00.007Z"),
            (951_782_399, "2000-02-28T23:59:59.007Z"),
            (951_782_400, "2000-02-29T00:00:00.007Z"),
            (1_798_761_599, "2026-12-31T23:59:59.007Z"),
            (4_107_542_400, "2100-03-01T00:00:00.007Z"),
        ] {
            let time = UNIX_EPOCH + Duration::from_secs(seconds) + Duration::from_millis(7);
            assert_eq!(timestamp(time), expected);
        }
    }

    #[test]
    fn formats_have_the_same_content() {
        let fields = vec![("host", Value::from("nqn.a b")), ("queue", Value::from(3))];
        let content = Content { message: "connected".to_owned(), fields };
        let line = |format| line(format, UNIX_EPOCH, Level::INFO, &content);
        assert_eq!(line(Format::Plain), "zonal: connected host=\"nqn.a b\" queue=3\n");
        assert_eq!(
            line(Format::Text),
            "1970-01-01T00:00:00.000Z INFO  connected host=\"nqn.a b\" queue=3\n"
        );
        assert_eq!(
            line(Format::Json),
            "{\"time\":\"1970-01-01T00:00:00.000Z\",\"level\":\"info\",\"message\":\"connected\",\
             \"host\":\"nqn.a b\",\"queue\":3}\n"
        );
    }
}
