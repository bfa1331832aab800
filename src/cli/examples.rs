//! Examples, which come after the description in the help of each command.
use clap::Command;

/// Command lines, by command.
const EXAMPLES: [(&str, &[&str]); 33] = [
    (
        "run",
        &[
            "zonal run examples/zwp.fio",
            "zonal run --device smr-30t --clock virtual --name=w --rw=write --bs=1m --zonemode=zbd --runtime=60",
        ],
    ),
    ("zone report", &["zonal zone report disk.img", "zonal zone report -c 8 /dev/nullb0"]),
    ("zone capacity", &["zonal zone capacity disk.img"]),
    ("zone open", &["zonal zone open -o 0x80000 -c 1 disk.img"]),
    ("zone close", &["zonal zone close -o 0x80000 -c 1 disk.img"]),
    ("zone finish", &["zonal zone finish -o 0x80000 -c 1 disk.img"]),
    ("zone reset", &["zonal zone reset -o 0x80000 -c 2 disk.img"]),
    ("reproduce", &["zonal reproduce smr-seq-qd"]),
    (
        "advise",
        &["zonal advise --device smr-30t --name=w --rw=write --bs=1m --zonemode=zbd --time=10"],
    ),
    (
        "sweep",
        &[
            "zonal sweep --device smr-30t --vary iodepth=1..128 --vary zone_write=plug,qd1 \\\n      \
           --name=w --rw=write --bs=1m --zonemode=zbd --time=10",
        ],
    ),
    ("validate", &["zonal validate --device zn540 results.csv --hold-out 3"]),
    ("fit", &["zonal fit zn540 results.csv --output mine.toml"]),
    (
        "serve",
        &[
            "zonal serve disk.img --nvme-tcp 127.0.0.1:4420 --ctl zonal.sock",
            "zonal serve smr-30t:memory=true --ublk",
            "zonal serve zns-1t:memory=true --vfio-user vm.sock",
        ],
    ),
    ("ctl", &["zonal ctl zonal.sock status", "zonal ctl zonal.sock set scheduler mq-deadline"]),
    ("top", &["zonal top zonal.sock"]),
    ("view", &["zonal view run.view", "zonal view plug.view qd1.view"]),
    ("crash", &["zonal crash run.zlog --list", "zonal crash run.zlog --check 'fsck.mine {image}'"]),
    ("crash generate", &["zonal crash generate workloads --count 50"]),
    ("crash play", &["zonal crash play workloads /mnt/test --ctl zonal.sock"]),
    ("crash judge", &["zonal crash judge workloads /mnt/test --marks marks.txt"]),
    ("image create", &["zonal image create disk.img --profile zns-1t --zones 64"]),
    ("image check", &["zonal image check disk.img --data"]),
    ("image info", &["zonal image info disk.img --json"]),
    (
        "image convert",
        &[
            "zonal image convert disk.img disk.raw",
            "zonal image convert disk.raw copy.img --profile zns-1t:zones=64",
        ],
    ),
    ("image snapshot", &["zonal image snapshot disk.img before.img"]),
    ("image clone", &["zonal image clone disk.img other.img"]),
    ("image resize", &["zonal image resize disk.img --zones 128 --dry-run"]),
    (
        "devices",
        &["zonal devices", "zonal devices zn540", "zonal devices --print zn540 >mine.toml"],
    ),
    ("config", &["zonal config", "zonal --config lab.toml config --json"]),
    ("doctor", &["zonal doctor", "zonal doctor ublk && zonal serve null --ublk"]),
    ("completions", &["zonal completions bash >~/.local/share/bash-completion/completions/zonal"]),
    ("man", &["zonal man ~/.local/share/man/man1"]),
    ("options", &["zonal options --markdown"]),
];

/// The examples of a command, by its words without `zonal`.
pub fn of(words: &str) -> &'static [&'static str] {
    EXAMPLES.iter().find(|(name, _)| *name == words).map_or(&[], |(_, lines)| lines)
}

/// Puts the examples of each command after its description, in `--help`; `-h` is short.
pub fn add(command: Command) -> Command {
    add_below("", command)
}

fn add_below(words: &str, command: Command) -> Command {
    let command = match (of(words), command.get_about().cloned()) {
        ([], _) | (_, None) => command,
        (lines, Some(about)) => {
            let about = command.get_long_about().cloned().unwrap_or(about);
            command.long_about(format!("{about}\n\nExamples:\n  {}", lines.join("\n  ")))
        }
    };
    command.mut_subcommands(|below| {
        let words = format!("{words} {}", below.get_name());
        add_below(words.trim_start(), below)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::OsString;

    /// The commands that have none below them, or need none.
    fn leaves(words: &str, command: &Command, to: &mut Vec<String>) {
        if !command.has_subcommands() || command.is_args_conflicts_with_subcommands_set() {
            to.push(words.to_owned());
        }
        for below in command.get_subcommands() {
            leaves(format!("{words} {}", below.get_name()).trim_start(), below, to);
        }
    }

    #[test]
    fn each_command_has_examples_that_can_be_parsed() {
        let mut commands = Vec::new();
        leaves("", &crate::cli::definition(), &mut commands);
        for command in &commands {
            let own = EXAMPLES.iter().find(|(name, _)| name == command);
            let (_, lines) = own.unwrap_or_else(|| panic!("`zonal {command}` has no example"));
            for line in *lines {
                let first = line.split([';', '|', '&', '>']).next().expect("a part");
                let first = first.replace("\\\n", " ").replace("'fsck.mine {image}'", "fsck");
                let first = first.replace("--config lab.toml", "");
                let words = first.split_whitespace().map(OsString::from).collect();
                let parsed = crate::cli::parsed(words);
                assert!(parsed.is_ok(), "{line}: {}", parsed.err().expect("an error"));
            }
        }
        let unknown = EXAMPLES.iter().find(|(name, _)| !commands.iter().any(|it| it == name));
        assert_eq!(unknown, None);
    }
}
