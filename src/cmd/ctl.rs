//! `zonal ctl`: watches and changes devices that `zonal serve` serves.
//!
//! Takes a control socket and a command; gives the answer, for people or as JSON.
use crate::cli::CtlArgs;
use anyhow::{Context, Result, bail};
use serde_json::Value;
use std::io::Write;
use std::process::ExitCode;
use zonal_host::control::{self, Command};

/// Asks, and shows the answer.
///
/// # Errors
/// What is wrong with the command, or why there is no answer, or what the server says against it.
pub fn run(args: &CtlArgs) -> Result<ExitCode> {
    // What is no command needs no server to say so.
    Command::parse(&args.command)?;
    let socket = args.socket.display();
    let answer =
        control::send_command(&args.socket, args.device, &args.command).with_context(|| {
            format!("{socket}: expected the control socket of a `zonal serve --ctl`")
        })?;
    let answer = match answer {
        Ok(answer) => answer,
        Err(error) => bail!("{error}"),
    };
    let mut out = std::io::stdout().lock();
    if args.json {
        writeln!(out, "{answer}")?;
    } else {
        out.write_all(format_value(&answer, 0).as_bytes())?;
    }
    Ok(ExitCode::SUCCESS)
}

/// An answer for people: a line for each value, indented below what it belongs to.
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
