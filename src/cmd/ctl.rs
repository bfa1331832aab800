//! `zonal ctl`: monitors and controls devices that `zonal serve` exports.
use crate::format::{self, FormatArgs, Forms};
use crate::terminal::stdout;
use anyhow::{Context, Result, bail};
use clap::Args;
use serde_json::Value;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use zonal_lab::table::Table;
use zonal_serve::control::{Command, ControlClient};

/// The commands, for help.
pub const COMMANDS: &str = "\
Commands:
  status                                the devices and where they are exported
  stat                                  what the device did
  plugs [all]                           live zone write plugs, or all that were used
  view [FIRST PER_CELL CELLS]           what `zonal top` shows, with a map of zones
  get [ATTRIBUTE]                       an attribute, or all
  set ATTRIBUTE VALUE                   change scheduler, scheduler.ATTRIBUTE, zone_write,
                                        zoned_qd1_writes, max_sectors_kb, nr_requests, io_timeout
  zone FIRST[-LAST] read-only|offline|mend
  depopulate HEAD read-only|offline|format
                                        lose a head of a shingled disk, and with it its zones;
                                        format: the disk is formatted without them, and is smaller
  revalidate                            read the zones of the device anew, when it has lost some
  fault [list]                          rules of injected faults
  fault add fail=KIND[,status=STATUS][,zone=FIRST-LAST][,one_in=N][,count=N]
  fault add delay=KIND,time=TIME[,zone=FIRST-LAST][,one_in=N][,count=N]
  fault add tear=write,keep=SIZE[,zone=FIRST-LAST][,one_in=N][,count=N]
                                        KIND is any, read, write, flush or zone; STATUS is ioerr,
                                        medium, timeout, nospc, protection or offline
  fault clear                           remove all rules
  ana                                   the ANA states of the paths over NVMe/TCP
  ana ADDRESS:PORT optimized|non-optimized|inaccessible|persistent-loss|change
                                        change that of a path
  mark TEXT                             put a mark into the log of `zonal serve --record`
  power-cut [--keep none|random|all-but-one] [--seed N] [--image IMAGE]
                                        cut the power of a device with `zonal serve --write-cache`:
                                        what is not durable is lost (none), a part of it is kept, or
                                        all but one write; IMAGE gets a copy of what is left
  power-cut ... --after WRITES | --at-mark TEXT | --in-write
                                        the same when that many writes completed, at this mark, or
                                        in the middle of the next write of several blocks
  power-cut cancel                      drop one that waits for its moment
  scrub start [MIB_PER_SECOND]          compare all data of an image with their checksums
  scrub [status]                        how far the scrub is, and damaged sectors
  scrub stop
  metrics                               counters in the format of Prometheus
  methods                               the first words of these commands, for programs
  help                                  these lines";

/// Options of `zonal ctl`.
#[derive(Args, Debug)]
pub struct CtlArgs {
    /// The socket that `zonal serve --ctl` made
    #[arg(value_name = "SOCKET")]
    pub socket: PathBuf,
    /// The device, by its number, if several are served
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub device: usize,
    #[command(flatten)]
    pub format: FormatArgs,
    /// The command and its arguments
    #[arg(value_name = "COMMAND", required = true, trailing_var_arg = true)]
    pub command: Vec<String>,
}

/// Sends a command and prints the answer, for people or as JSON.
///
/// # Errors
/// The command is malformed, there is no server, or the server rejects the command.
pub fn run(args: &CtlArgs) -> Result<ExitCode> {
    let (words, format) = format_of(args);
    if matches!(words, [word] if word == "help") {
        writeln!(stdout(), "{COMMANDS}")?;
        return Ok(ExitCode::SUCCESS);
    }
    // A malformed command is rejected without a server.
    Command::parse(words)?;
    let socket = args.socket.display();
    let answer = ControlClient::connect(&args.socket)
        .and_then(|mut client| client.send(args.device, words))
        .with_context(|| {
            format!("{socket}: expected the control socket of a `zonal serve --ctl`")
        })?;
    let answer = match answer {
        Ok(answer) => answer,
        Err(error) => bail!("{error}"),
    };
    let text = || format_value(&answer, 0);
    let title = words.join(" ");
    Forms {
        text,
        // A line, so that a program can read the answers of several commands.
        json: || format!("{answer}\n"),
        csv: || Table::of_json(&answer).csv(),
        html: || Ok(format::page_of(&title, &Table::of_json(&answer))),
    }
    .print(format)?;
    Ok(ExitCode::SUCCESS)
}

/// The words of the command, and the format, for which `--json` may stand at the end, too; in the text of a mark
/// it is a word.
fn format_of(args: &CtlArgs) -> (&[String], FormatArgs) {
    match &args.command[..] {
        [first, words @ .., last] if last == "--json" && first != "mark" => {
            (&args.command[..=words.len()], FormatArgs::json())
        }
        words => (words, args.format),
    }
}

/// An answer for people: one line per value, nested values indented.
fn format_value(value: &Value, depth: usize) -> String {
    let indent = "  ".repeat(depth);
    match value {
        Value::Null => String::new(),
        Value::String(text) if depth == 0 && text.ends_with('\n') => text.clone(),
        Value::String(text) => format!("{indent}{text}\n"),
        Value::Array(values) => values.iter().map(|value| format_value(value, depth)).collect(),
        Value::Object(entries) => entries
            .iter()
            .map(|(name, value)| match value {
                Value::Object(entries) if entries.is_empty() => String::new(),
                Value::Array(_) | Value::Object(_) => {
                    format!("{indent}{name}:\n{}", format_value(value, depth + 1))
                }
                _ => format!("{indent}{name}: {}", format_value(value, 0)),
            })
            .collect(),
        other => format!("{indent}{other}\n"),
    }
}
