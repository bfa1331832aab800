//! The oracle of marks: a list of what must hold after each mark.
//!
//! ```text
//!  # after this mark, the command must exit with 0
//!  fsync 1 returned => ./has {image} a
//!  durable *        => kv check {image} {marks}
//! ```
//!
//! `{mark}` is the mark that was found. A remote host may have made it, so it is a variable of the
//! command's environment, however the command quotes it.
use crate::check::CheckError;
use crate::file;
use crate::judge::{Case, Judge, Judgement};
use crate::log::{Event, Log};
use crate::process::{CheckProcess, MARK};
use std::collections::BTreeSet;
use std::fs;
use std::io::{self, BufRead, BufReader, ErrorKind, Read};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Commands that must succeed after marks.
#[derive(Clone, Debug)]
pub struct MarksOracle {
    rules: Vec<Rule>,
    timeout: Duration,
}

#[derive(Clone, Debug)]
struct Rule {
    line: usize,
    /// The text of the mark, or with `prefix` how it begins.
    mark: String,
    prefix: bool,
    command: String,
}

/// Why a script cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ScriptError {
    /// It cannot be read.
    #[error("--script {}: {error}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        error: std::io::Error,
    },
    /// A line is malformed, or is about no mark of the log.
    #[error("--script {}: line {line}: found `{found}`, expected {expected}", path.display())]
    Line {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// The data found there.
        found: String,
        /// The value that should be there.
        expected: String,
    },
    /// There is no rule.
    #[error("--script {}: found no rule, expected lines MARK => COMMAND", .0.display())]
    Empty(PathBuf),
}

impl Rule {
    fn matches(&self, mark: &str) -> bool {
        if self.prefix { mark.starts_with(&self.mark) } else { mark == self.mark }
    }
}

impl MarksOracle {
    /// Reads a script for a log. A command that takes longer than `timeout` has failed.
    ///
    /// # Errors
    /// The script cannot be read, a line is malformed, or no mark of the log is the one of a line.
    pub fn open(path: &Path, log: &Log, timeout: Duration) -> Result<Self, ScriptError> {
        let io = |error| ScriptError::Io { path: path.to_owned(), error };
        let text = read(path).map_err(io)?;
        let rules = parse(path, &text)?;
        let mut unused: Vec<&Rule> = rules.iter().collect();
        let mut last = None;
        for event in log.events() {
            if let Event::Mark(mark) = event {
                unused.retain(|rule| !rule.matches(&mark));
                last = Some(mark);
            }
        }
        if let Some(rule) = unused.first() {
            let expected = match last {
                Some(mark) => format!("a mark that the log has, such as `{mark}`"),
                None => "a mark of the log, which has none".to_owned(),
            };
            return Err(ScriptError::Line {
                path: path.to_owned(),
                line: rule.line,
                found: rule.mark.clone(),
                expected,
            });
        }
        Ok(MarksOracle { rules, timeout })
    }
}

/// Most bytes of a script.
const MAX_LEN: u64 = 1 << 20;

/// The text of a script, which is a regular file: a device need not end, a FIFO need not begin.
fn read(path: &Path) -> io::Result<String> {
    let invalid = |text: String| io::Error::new(ErrorKind::InvalidData, text);
    if !fs::metadata(path)?.is_file() {
        return Err(invalid("expected a regular file".to_owned()));
    }
    let mut text = String::new();
    file::read(path)?.take(MAX_LEN + 1).read_to_string(&mut text)?;
    if text.len() as u64 > MAX_LEN {
        return Err(invalid(format!("found more than {MAX_LEN} bytes, expected less")));
    }
    Ok(text)
}

fn parse(path: &Path, text: &str) -> Result<Vec<Rule>, ScriptError> {
    let mut rules = Vec::new();
    for (line, text) in (1..).zip(text.lines().map(str::trim)) {
        if text.is_empty() || text.starts_with('#') {
            continue;
        }
        let error = |expected: &str| ScriptError::Line {
            path: path.to_owned(),
            line,
            found: text.to_owned(),
            expected: expected.to_owned(),
        };
        let (mark, command) = text.split_once("=>").ok_or_else(|| error("MARK => COMMAND"))?;
        let (mark, command) = (mark.trim(), command.trim());
        if mark.is_empty() || !command.contains("{image}") {
            return Err(error("MARK => COMMAND, in which {image} stands for the image"));
        }
        let (mark, prefix) = mark.strip_suffix('*').map_or((mark, false), |mark| (mark, true));
        rules.push(Rule { line, mark: mark.to_owned(), prefix, command: command.to_owned() });
    }
    if rules.is_empty() { Err(ScriptError::Empty(path.to_owned())) } else { Ok(rules) }
}

/// Puts the variable in place of `{mark}`: one word where it is not quoted, and the same text inside of
/// quotes.
fn with_variable(command: &str) -> String {
    let (mut text, mut rest, mut quote) = (String::new(), command, None);
    while let Some(next) = rest.chars().next() {
        if let Some(after) = rest.strip_prefix("{mark}") {
            text += &match quote {
                None => format!("\"${{{MARK}}}\""),
                Some('\'') => format!("'\"${{{MARK}}}\"'"),
                Some(_) => format!("${{{MARK}}}"),
            };
            rest = after;
            continue;
        }
        // The character after a backslash is no quote.
        let escapes = next == '\\' && quote != Some('\'');
        let taken =
            if escapes { rest.chars().take(2).map(char::len_utf8).sum() } else { next.len_utf8() };
        quote = match (quote, next) {
            (None, '\'' | '"') => Some(next),
            (Some(open), _) if open == next => None,
            (quote, _) => quote,
        };
        text += &rest[..taken];
        rest = &rest[taken..];
    }
    text
}

impl Judge for MarksOracle {
    fn identity(&self) -> String {
        format!("{self:?}")
    }

    fn wants_marks(&self) -> bool {
        true
    }

    fn judge(&self, case: &Case<'_>) -> Result<Judgement, CheckError> {
        let failed = |error| CheckError::File { path: case.marks.to_owned(), error };
        let marks = BufReader::new(fs::File::open(case.marks).map_err(failed)?);
        let marks: BTreeSet<String> = marks.lines().collect::<Result<_, _>>().map_err(failed)?;
        for rule in &self.rules {
            for mark in marks.iter().filter(|mark| rule.matches(mark)) {
                let process = CheckProcess {
                    command: with_variable(&rule.command),
                    timeout: self.timeout,
                    mark: Some(mark.clone()),
                };
                let found = process.run(case.state, case.image, case.marks)?;
                if let Some(why) = found.failure {
                    let why = format!("after mark `{mark}`, line {}: {why}", rule.line);
                    return Ok(Judgement { failure: Some(why), output: found.output });
                }
            }
        }
        Ok(Judgement::default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn any_text_is_a_script_or_refused(text in "([*=> #{}a-z]{0,20}(image)?\n){0,4}") {
            let _script = parse(Path::new("s"), &text);
        }
    }

    #[test]
    fn mark_of_a_host_is_text_however_a_command_quotes_it() {
        let directory = tempfile::tempdir().expect("a directory");
        let file = |name: &str| directory.path().join(name).display().to_string();
        let evil = |number: usize| {
            let made = file(&format!("executed-{number}"));
            format!("a '$(touch {made})' `touch {made}` \" ; touch {made} ; \" \\ * b")
        };
        let commands = [
            "printf %s {mark}",
            "printf %s \"{mark}\"",
            "printf %s '{mark}'",
            "printf %s \"it's {mark}\"",
            "printf %s 'say \"{mark}\"'",
            "printf %s \\\"{mark}\\\"",
        ];
        let around = [("", ""), ("", ""), ("", ""), ("it's ", ""), ("say \"", "\""), ("\"", "\"")];
        for (number, (command, (before, after))) in commands.into_iter().zip(around).enumerate() {
            let process = CheckProcess {
                command: with_variable(command),
                timeout: Duration::from_secs(60),
                mark: Some(evil(number)),
            };
            let found = process.run("", Path::new("i"), Path::new("m")).expect("it runs");
            assert_eq!(
                (found.failure, &found.output),
                (None, &format!("{before}{}{after}", evil(number)))
            );
        }
        assert_eq!(fs::read_dir(directory.path()).expect("a directory").count(), 0, "executed");
    }

    #[test]
    fn scripts_without_end_are_refused() {
        for endless in ["/dev/zero", "/"] {
            let error = read(Path::new(endless)).expect_err(endless);
            assert_eq!(error.to_string(), "expected a regular file");
        }
    }

    #[test]
    fn script_is_a_mark_and_a_command_on_each_line() {
        let text = "# comment\n\nfsync 1 => ok {image}\n durable * =>  kv {image} {mark} \n";
        let rules = parse(Path::new("s"), text).expect("a script");
        assert_eq!((rules[0].line, &*rules[0].mark, rules[0].prefix), (3, "fsync 1", false));
        assert_eq!(rules[1].command, "kv {image} {mark}");
        assert!(rules[1].matches("durable 7") && !rules[1].matches("durabl"));
        let error = |text: &str| parse(Path::new("s"), text).expect_err(text).to_string();
        assert_eq!(
            error("a => b {image}\nfsync 1 : ok"),
            "--script s: line 2: found `fsync 1 : ok`, expected MARK => COMMAND"
        );
        assert!(error("a => b").contains("in which {image} stands for the image"));
        assert!(error("# nothing").contains("found no rule"));
    }
}
