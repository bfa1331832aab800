//! Files that a package installs beside the program: `zonal completions` and `zonal man`.
use crate::cli::{EXIT_CODES, examples_of};
use crate::terminal::stdout;
use anyhow::{Context, Result};
use clap::builder::PossibleValuesParser;
use clap::{Arg, Command};
use clap_complete::Shell;
use clap_mangen::Man;
use std::fs;
use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;
use zonal_device::device_spec;
use zonal_fio::options;
use zonal_serve::control::NAMES;

/// Commands that take job options beside their own.
const RUN_JOBS: [&str; 3] = ["run", "sweep", "advise"];

/// Prints the completions for a shell.
///
/// # Errors
/// They cannot be written.
pub fn completions(command: Command, shell: Shell) -> Result<ExitCode> {
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut completed(command), "zonal", &mut text);
    stdout().write_all(&text)?;
    Ok(ExitCode::SUCCESS)
}

/// The command line with the words that its definition does not have, since other words are right, too:
/// devices, schedulers, job options and the commands of `zonal ctl`.
fn completed(command: Command) -> Command {
    let devices = || device_spec::kinds().map(|kind| kind.name);
    let profiles = || device_spec::profiles().map(|(name, _)| name);
    let devices: Vec<&str> = devices().chain(profiles()).collect();
    let schedulers: Vec<&str> = zonal_blk::scheduler_list!().split(',').collect();
    let of_ctl: Vec<&str> = NAMES.into_iter().chain(["help"]).collect();
    command.mut_subcommands(|below| {
        let runs_jobs = RUN_JOBS.contains(&below.get_name());
        let is_ctl = below.get_name() == "ctl";
        let one_of = |words: &[&'static str]| PossibleValuesParser::new(words.to_vec());
        let below = below.mut_args(|arg| match arg.get_id().as_str() {
            "command" if is_ctl => arg.value_parser(one_of(&of_ctl)),
            // Those of `zonal ctl` have numbers.
            "device" | "devices" | "profile" if arg.get_default_values().is_empty() => {
                arg.value_parser(one_of(&devices))
            }
            "scheduler" | "schedulers" => arg.value_parser(one_of(&schedulers)),
            _ => arg,
        });
        let below = if below.has_subcommands() { completed(below) } else { below };
        let names =
            |arg: &Arg| [arg.get_id().to_string(), arg.get_long().unwrap_or_default().to_owned()];
        let own: Vec<String> = below.get_arguments().flat_map(names).collect();
        let groups: Vec<String> =
            below.get_groups().map(|group| group.get_id().to_string()).collect();
        let is_new = |name: &&str| own.iter().chain(&groups).all(|known| known.as_str() != *name);
        let jobs = options::beginning_with("").filter(is_new);
        let jobs = jobs.map(|name| Arg::new(name).long(name).value_name("VALUE"));
        if runs_jobs { below.args(jobs.collect::<Vec<_>>()) } else { below }
    })
}

/// Writes the manual pages of all commands to a directory. `command` has no examples in its help: they are
/// a section of their own.
///
/// # Errors
/// The directory or a page cannot be written.
pub fn man(command: Command, directory: &Path) -> Result<ExitCode> {
    let in_directory = || format!("directory {}", directory.display());
    fs::create_dir_all(directory).with_context(in_directory)?;
    let mut command = command.disable_help_subcommand(true);
    command.build();
    write_pages("", &command, directory).with_context(in_directory)?;
    Ok(ExitCode::SUCCESS)
}

/// The pages of a command and of those below it. `above` is the words before its name.
fn write_pages(above: &str, command: &Command, directory: &Path) -> io::Result<()> {
    let words = format!("{above} {}", command.get_name());
    let words = words.trim_start();
    let name = words.replace(' ', "-");
    let page = page(words, &name, command)?;
    fs::write(directory.join(format!("{name}.1")), page)?;
    command.get_subcommands().try_for_each(|below| write_pages(words, below, directory))
}

fn page(words: &str, name: &str, command: &Command) -> io::Result<Vec<u8>> {
    let parents = words.split(' ').count() - 1;
    // The table after the options keeps its lines.
    let table = command.get_after_long_help().or(command.get_after_help()).map(ToString::to_string);
    let man = Man::new(command.clone().after_help("").after_long_help(""));
    let mut page = Vec::new();
    man.render_title(&mut page)?;
    man.render_name_section(&mut page)?;
    man.render_synopsis_section(&mut page)?;
    man.render_description_section(&mut page)?;
    if command.get_arguments().any(|arg| !arg.is_hide_set()) {
        man.render_options_section(&mut page)?;
    }
    if command.has_subcommands() {
        man.render_subcommands_section(&mut page)?;
    }
    if let Some(table) = table.filter(|table| parents > 0 && !table.is_empty()) {
        page.extend(section("NOTES", &table));
    }
    let examples = examples_of(words.split_once(' ').map_or("", |(_, words)| words));
    if !examples.is_empty() {
        page.extend(section("EXAMPLES", &examples.join("\n")));
    }
    page.extend(section("EXIT STATUS", EXIT_CODES));
    page.extend(section(
        "FILES",
        "~/.config/zonal/config.toml    names for devices and defaults of options: zonal config",
    ));
    page.extend(section("ENVIRONMENT", "ZONAL_CONFIG    the configuration file; empty for none"));
    let above = words.rsplit_once(' ').map(|(above, _)| above.replace(' ', "-"));
    let below = command.get_subcommands().map(|below| format!("{name}-{}", below.get_name()));
    let also: Vec<String> =
        above.into_iter().chain(below).map(|name| format!("{name}(1)")).collect();
    page.extend(section("SEE ALSO", &also.join(", ")));
    Ok(page)
}

/// A section whose lines stay as they are.
fn section(title: &str, text: &str) -> Vec<u8> {
    let line = |line: &str| {
        let line = line.replace('\\', "\\e").replace('-', "\\-");
        let dot = if line.starts_with(['.', '\'']) { "\\&" } else { "" };
        format!("{dot}{line}\n")
    };
    let lines: String = text.lines().map(line).collect();
    format!(".SH \"{title}\"\n.nf\n{lines}.fi\n").into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli;

    #[test]
    fn pages_have_all_sections_and_tables_keep_their_lines() {
        let directory = tempfile::tempdir().expect("a directory");
        man(cli::without_examples(), directory.path()).expect("pages");
        let read = |name: &str| {
            fs::read_to_string(directory.path().join(name)).expect("a page").replace("\\-", "-")
        };
        let ctl = read("zonal-ctl.1");
        let sections = [
            "NAME",
            "SYNOPSIS",
            "DESCRIPTION",
            "OPTIONS",
            "NOTES",
            "EXAMPLES",
            "EXIT STATUS",
            "FILES",
            "ENVIRONMENT",
            "SEE ALSO",
        ];
        let found: Vec<usize> = sections
            .iter()
            .map(|title| {
                let quoted = [format!(".SH {title}\n"), format!(".SH \"{title}\"\n")];
                quoted
                    .iter()
                    .find_map(|line| ctl.find(line))
                    .unwrap_or_else(|| panic!("{title}: {ctl}"))
            })
            .collect();
        assert!(found.is_sorted(), "{found:?}");
        assert!(ctl.contains("\n  status                                the devices"), "{ctl}");
        assert!(read("zonal.1").contains("zonal-run(1)"), "the page of a command is named");
        assert!(
            read("zonal-zone-reset.1").contains("\nzonal-zone(1)\n"),
            "the command above it, too"
        );
        assert_eq!(section("A", ".x\n'y"), b".SH \"A\"\n.nf\n\\&.x\n\\&'y\n.fi\n");
    }

    #[test]
    fn completions_know_devices_schedulers_and_job_options() {
        let mut text = Vec::new();
        clap_complete::generate(Shell::Fish, &mut completed(cli::definition()), "zonal", &mut text);
        let text = String::from_utf8(text).expect("UTF-8");
        let mut bash = Vec::new();
        clap_complete::generate(Shell::Bash, &mut completed(cli::definition()), "zonal", &mut bash);
        let bash = String::from_utf8(bash).expect("UTF-8");
        for (command, word) in
            [("ctl", "power-cut"), ("zone__subcmd__report", "zn540"), ("serve", "zn540")]
        {
            let (_, rule) =
                bash.split_once(&format!("zonal__subcmd__{command})\n")).expect(command);
            let words = rule.lines().find(|line| line.contains("opts=")).expect("words");
            assert!(words.contains(word), "{command} {word}: {words}");
        }
        for (option, word) in [("device", "smr-30t"), ("scheduler", "kyber"), ("zonemode", "")] {
            let found = text.split("\ncomplete ").any(|rule| {
                rule.contains("__fish_zonal_using_subcommand run")
                    && rule.contains(&format!("-l {option} "))
                    && rule.contains(word)
            });
            assert!(found, "{option} {word}");
        }
    }
}
