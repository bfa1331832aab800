//! A page: text, and blocks of commands with their marks.

/// A page.
#[derive(Clone, Debug, PartialEq)]
pub struct Page {
    pub parts: Vec<Part>,
}

/// A part of a page.
#[derive(Clone, Debug, PartialEq)]
pub enum Part {
    /// Lines without commands that are checked.
    Text(Vec<String>),
    /// The lines of a block, without its fences.
    Block(Block),
}

/// A block of commands.
#[derive(Clone, Debug, PartialEq)]
pub struct Block {
    pub check: Check,
    /// It takes long, and is left out of short checks.
    pub is_long: bool,
    pub steps: Vec<Step>,
}

/// How a block is checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Check {
    /// What each command prints is compared.
    Transcript { numbers_vary: bool },
    /// Each command succeeds.
    Commands,
    /// Not at all.
    None,
}

/// A command, as the page has it, and what it prints.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    /// With its continuation lines.
    pub command: String,
    pub expected: Vec<String>,
}

/// Words that commands begin with, where they do not follow `$ ` or, for root, `# `.
const PROGRAMS: [&str; 6] = ["zonal", "cargo", "fio", "nvme", "tests/", "fuzz/"];

/// The mark of a block and whether it is long.
fn parse_mark(mark: &str) -> Result<(Check, bool), String> {
    let (check, is_long) = match mark.strip_suffix(", long") {
        Some(check) => (check, true),
        None => (mark, false),
    };
    let check = match check {
        "transcript" => Check::Transcript { numbers_vary: false },
        "transcript, numbers vary" => Check::Transcript { numbers_vary: true },
        "commands" => Check::Commands,
        _ if check.strip_prefix("not run: ").is_some_and(|reason| !reason.is_empty()) => {
            Check::None
        }
        _ => return Err(format!("unknown mark `{mark}`")),
    };
    Ok((check, is_long))
}

/// Whether a block, which begins with a fence, has a command.
fn has_command(lines: &[&str]) -> bool {
    let is_shell = ["```sh", "```console"].contains(&lines[0]);
    let is_text = lines[0] == "```text";
    let is_command = |line: &str| {
        let root = line.strip_prefix("# ").is_some_and(|rest| rest.starts_with(char::is_lowercase));
        let named = |program: &&str| {
            let rest = line.strip_prefix(*program);
            let rest = rest.and_then(|rest| rest.strip_prefix(' ').or(program.strip_suffix('/')));
            rest.is_some_and(|rest| !rest.starts_with(' '))
        };
        line.starts_with("$ ") || root || PROGRAMS.iter().any(named)
    };
    is_shell || is_text && lines[1..].iter().any(|line| is_command(line))
}

impl Page {
    /// Parses a page.
    ///
    /// # Errors
    /// A mark is unknown or has no block, or a block with a command has no mark.
    pub fn parse(text: &str) -> Result<Self, String> {
        let lines: Vec<&str> = text.lines().collect();
        let (mut parts, mut plain, mut mark) = (Vec::new(), Vec::new(), None);
        let mut at = 0;
        while at < lines.len() {
            let line = lines[at];
            plain.push(line.to_owned());
            at += 1;
            if let Some(rest) = line.strip_prefix("<!-- ") {
                let words = rest.strip_suffix(" -->").unwrap_or_default();
                let is_mark = ["transcript", "commands", "not run"].iter();
                if is_mark.into_iter().any(|first| words.starts_with(first)) {
                    mark = Some(parse_mark(words).map_err(|error| format!("line {at}: {error}"))?);
                }
            } else if line.starts_with("```") {
                let length = lines[at..].iter().position(|line| *line == "```");
                let end = at + length.ok_or(format!("line {at}: the block has no end"))?;
                match mark.take() {
                    Some((Check::None, _)) => plain.extend(to_owned(&lines[at..end])),
                    Some((check, is_long)) => {
                        let steps =
                            steps(&lines[at..end], check).map_err(|e| format!("line {at}: {e}"))?;
                        parts.push(Part::Text(std::mem::take(&mut plain)));
                        parts.push(Part::Block(Block { check, is_long, steps }));
                    }
                    None if has_command(&lines[at - 1..end]) => {
                        return Err(format!(
                            "line {at}: a block with a command and without a mark"
                        ));
                    }
                    None => plain.extend(to_owned(&lines[at..end])),
                }
                plain.push("```".to_owned());
                at = end + 1;
            } else if mark.is_some() && !line.is_empty() {
                return Err(format!("line {at}: expected a block after the mark"));
            }
        }
        parts.push(Part::Text(plain));
        Ok(Page { parts })
    }

    /// The page as a file.
    pub fn text(&self) -> String {
        let mut text = String::new();
        for part in &self.parts {
            let lines: Vec<String> = match part {
                Part::Text(lines) => lines.clone(),
                Part::Block(block) => block.lines(),
            };
            lines.iter().for_each(|line| text += &format!("{line}\n"));
        }
        text
    }
}

impl Block {
    fn lines(&self) -> Vec<String> {
        let prompt = if self.check == Check::Commands { "" } else { "$ " };
        let lines = self.steps.iter().flat_map(|step| {
            let command = format!("{prompt}{}", step.command);
            let command: Vec<String> = command.lines().map(str::to_owned).collect();
            command.into_iter().chain(step.expected.clone())
        });
        lines.collect()
    }
}

fn to_owned(lines: &[&str]) -> Vec<String> {
    lines.iter().map(|&line| line.to_owned()).collect()
}

/// The steps of a block.
fn steps(lines: &[&str], check: Check) -> Result<Vec<Step>, String> {
    let mut steps: Vec<Step> = Vec::new();
    let mut lines = lines.iter();
    while let Some(line) = lines.next() {
        let command = match check {
            Check::Commands => Some(*line),
            _ => line.strip_prefix("$ "),
        };
        let Some(command) = command else {
            let step = steps.last_mut().ok_or("a transcript begins with a command after `$ `")?;
            step.expected.push((*line).to_owned());
            continue;
        };
        let mut command = command.to_owned();
        while command.ends_with('\\') {
            command += "\n";
            command += lines.next().ok_or("the last line is continued")?;
        }
        steps.push(Step { command, expected: Vec::new() });
    }
    Ok(steps)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn block_with_a_command_needs_a_mark_that_is_known() {
        for (text, error) in [
            ("```text\n$ zonal\n```\n", "line 1: a block with a command and without a mark"),
            ("```sh\nls\n```\n", "line 1: a block with a command and without a mark"),
            (
                "```text\n# modprobe ublk\n```\n",
                "line 1: a block with a command and without a mark",
            ),
            ("a\n\n<!-- transcripts -->\n", "line 3: unknown mark `transcripts`"),
            ("<!-- not run -->\n", "line 1: unknown mark `not run`"),
            ("<!-- commands -->\nb\n", "line 2: expected a block after the mark"),
            (
                "<!-- transcript -->\n\n```text\na\n```\n",
                "line 3: a transcript begins with a command after `$ `",
            ),
        ] {
            assert_eq!(Page::parse(text), Err(error.to_owned()), "{text}");
        }
    }

    #[test]
    fn page_is_written_as_it_was_read() {
        let page = "# A\n\n```toml\n# comment\n```\n\n<!-- not run: needs root -->\n\n```text\n# modprobe\n\
                    ```\n\n<!-- transcript, numbers vary, long -->\n\n```text\n$ a \\\n    b\nc\n```\nend\n";
        let parsed = Page::parse(page).unwrap();
        assert_eq!(parsed.text(), page);
        let Part::Block(block) = &parsed.parts[1] else { panic!("a block") };
        assert_eq!((block.check, block.is_long), (Check::Transcript { numbers_vary: true }, true));
        assert_eq!(block.steps[0].command, "a \\\n    b");
    }
}
