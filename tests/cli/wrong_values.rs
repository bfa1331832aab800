//! Each option of each command with values that are wrong: the exit code is 2, and the message names the option,
//! what was found and what was expected. Commands, options and what they take are those of the help, so that a new
//! one is tried, too.
use crate::support::{RunOutput, TestDir};
use std::sync::Mutex;

const DEVICE: &str = "null:zones=8,zone_size=1M,memory=true";
const JOB: [&str; 6] = [
    "--device=null:zones=8,zone_size=1M,memory=true",
    "--name=a",
    "--rw=write",
    "--bs=128k",
    "--zonemode=zbd",
    "--size=1z",
];
const CELLS: &str = "set,driver,lba,op,block,zones,depth,metric,value,unit\n\
                     io,spdk,4096,append:write,4096,1,1,iops,50000,1/s\n";

/// Values that no option takes.
const GARBAGE: &str = "no/such/place/?!";
/// What is no number, or none that an option takes: signs, ranges, units, digits.
const NUMBERS: [&str; 9] =
    ["", "-1", "99999999999999999999999", "1e999", "nan", "1.5x", "10furlongs", "0x", "1..2"];
/// Files that can be neither read nor written: a folder, and one below a file.
const FILES: [&str; 3] = [".", "", "cells.csv/x"];

/// What the help calls numbers, and files.
const ARE_NUMBERS: [&str; 24] = [
    "SEED",
    "N",
    "NS",
    "SECONDS",
    "SECTOR",
    "SECTORS",
    "ZONES",
    "COUNT",
    "SIZE",
    "SIZES",
    "TIME",
    "DEPTH,...",
    "SHARE",
    "ROUNDS",
    "STEPS",
    "STARTS",
    "FOLDS",
    "RUNS",
    "MINUTES",
    "JOBS",
    "SEEDS",
    "ERASURES",
    "NS|published",
    "ID",
];
const ARE_FILES: [&str; 6] = ["FILE", "LOG", "IMAGE", "SOCKET", "DIR", "OUT"];

/// Options that take any text.
const RIGHT: [&str; 4] = ["serial", "check", "mark", "fuse-options"];

/// An option of a command, as its help has it.
struct Described {
    name: String,
    value: String,
    /// How many values it takes at a time.
    values: usize,
    /// The words that it takes, if it takes no others.
    words: Vec<String>,
}

/// A command and what makes it right but for the option that is tried.
fn others(command: &str, option: &str) -> Vec<&'static str> {
    let with_job = |more: &[&'static str]| [&JOB[..], more].concat();
    match command {
        "run" => with_job(&[]),
        "advise" => with_job(&["--time=0.001", "--seeds=1", "--depths=1", "--schedulers=none"]),
        "sweep" => with_job(&["--vary=iodepth=1", "--time=0.001"]),
        "zone report" | "zone capacity" | "zone open" | "zone close" | "zone finish"
        | "zone reset" => vec![DEVICE],
        "image create" => vec!["new.img", "--profile=zns-1t"],
        "image check" | "image info" => vec!["disk.img"],
        "image resize" => vec!["disk.img", "--zones=4"],
        "image convert" => vec!["disk.raw", "new.img"],
        "reproduce" => vec!["smr-seq-qd"],
        "validate" => vec!["--device=zn540", "cells.csv"],
        "fit" => vec!["zn540", "cells.csv"],
        "crash" => of_crash(option),
        "crash generate" => vec!["new"],
        "crash play" => vec!["workloads", "."],
        "crash judge" => vec!["workloads", ".", "--marks=cells.csv"],
        "serve" => of_serve(option),
        "top" => vec!["s.sock"],
        "view" => vec!["run.view"],
        "devices" if matches!(option, "time" | "io-cost") => vec![DEVICE],
        "devices" | "doctor" | "options" | "config" => vec![],
        _ => panic!("zonal {command}: say what makes the command right but for one option"),
    }
}

fn of_crash(option: &str) -> Vec<&'static str> {
    let needed = match option {
        "import" => return vec!["dm.log", "--size=1m"],
        "script" => "--oracle=marks",
        "job" => "--oracle=fio-verify",
        "oracle" | "materialise" | "diff" | "size" => return vec!["run.log"],
        _ => "--check=test -e {image}",
    };
    vec!["run.log", needed]
}

/// A server that cannot begin, since its socket is a file: no value that is taken leaves it running.
fn of_serve(option: &str) -> Vec<&'static str> {
    match option {
        "vfio-user" | "vhost-user" | "fuse" | "ublk" => vec![DEVICE],
        "write-cache" => vec![DEVICE, "--vfio-user=cells.csv", "--ctl=c.sock"],
        "fuse-threads" => vec![DEVICE, "--fuse=cells.csv"],
        "vhost-user-queues" => vec![DEVICE, "--vhost-user=cells.csv"],
        "ublk-queues" | "ublk-depth" => vec![DEVICE, "--ublk=0"],
        "ctl" | "record" | "trace" => vec![DEVICE, "--vfio-user=s.sock"],
        _ => vec![DEVICE, "--vfio-user=cells.csv", "--nvme-tcp=127.0.0.1:0"],
    }
}

/// The commands of the help that have options, those of `ctl` aside: tests/serve/control.rs has them, and a server.
fn commands(dir: &TestDir, path: &[String], found: &mut Vec<Vec<String>>) {
    let help = help(dir, path);
    let listed = help.lines().skip_while(|line| *line != "Commands:").skip(1);
    let listed = listed.take_while(|line| line.starts_with("  "));
    let names = listed.filter(|line| !line.starts_with("   ")).map(|line| line[2..].split(' '));
    let names: Vec<&str> = names.filter_map(|mut words| words.next()).collect();
    for name in names.iter().filter(|name| !["help", "ctl"].contains(name)) {
        commands(dir, &[path, &[(*name).to_owned()]].concat(), found);
    }
    // Of the program itself only `--config` is an option.
    if !path.is_empty() && !options(&help).is_empty() {
        found.push(path.to_vec());
    }
}

fn help(dir: &TestDir, path: &[String]) -> String {
    let words: Vec<&str> = path.iter().map(String::as_str).chain(["--help"]).collect();
    dir.zonal(&words).expect_ok()
}

/// The options of a help that take a value.
fn options(help: &str) -> Vec<Described> {
    let mut found: Vec<Described> = Vec::new();
    let mut text = String::new();
    // Lines of an option's own text are indented further than those that begin an option.
    for line in help.lines().filter(|line| line.starts_with("  ")).chain(["  -"]) {
        let is_start =
            line.trim_start().starts_with('-') && line.len() - line.trim_start().len() <= 6;
        if !is_start {
            text = [text.as_str(), " ", line.trim()].concat();
            continue;
        }
        if let Some(option) = described(&text) {
            found.push(option);
        }
        text = line.trim().to_owned();
    }
    found
}

fn described(text: &str) -> Option<Described> {
    let (_, rest) = text.split_once("--").filter(|(before, _)| before.len() <= 4)?;
    let (name, rest) = rest.split_once([' ', '[', '='])?;
    let value = rest.trim_start_matches(['=', '[']).strip_prefix('<')?;
    let (value, mut rest) = value.split_once('>')?;
    let mut values = 1;
    while let Some((_, after)) = rest.strip_prefix(" <").and_then(|rest| rest.split_once('>')) {
        (values, rest) = (values + 1, after);
    }
    let list = rest.split_once("[possible values: ").and_then(|(_, list)| list.split_once(']'));
    let words = match list {
        Some((list, _)) => list.split(", ").map(str::to_owned).collect(),
        None => match rest.split_once("Possible values: - ") {
            Some((_, list)) => list
                .split(" - ")
                .filter_map(|word| word.split_once(':'))
                .map(|(word, _)| word.to_owned())
                .collect(),
            None => Vec::new(),
        },
    };
    Some(Described { name: name.to_owned(), value: value.to_owned(), values, words })
}

/// Wrong values of an option: each with what the message has to name beside it.
fn wrong(option: &Described) -> Vec<(String, String)> {
    let plain = |values: &[&str]| -> Vec<(String, String)> {
        values.iter().map(|value| ((*value).to_owned(), String::new())).collect()
    };
    let value = option.value.as_str();
    let mut wrong = match value {
        "DIR" => plain(&["cells.csv/x"]),
        _ if ARE_FILES.contains(&value) => plain(&FILES),
        _ if ARE_NUMBERS.contains(&value) => plain(&NUMBERS),
        _ => Vec::new(),
    };
    // A folder that is not there is made.
    if value != "DIR" {
        wrong.push((GARBAGE.to_owned(), String::new()));
    }
    for word in option.words.iter().filter(|word| word.len() > 3) {
        wrong.push((misspelt(word), word.clone()));
    }
    wrong
}

/// A word with its last two letters in each other's place, or with one too many.
fn misspelt(word: &str) -> String {
    let (rest, last) = word.split_at(word.len() - 2);
    let swapped: String = rest.chars().chain(last.chars().rev()).collect();
    if swapped == word { format!("{word}x") } else { swapped }
}

/// What a message about a value lacks.
fn lacks(ran: &RunOutput, option: &Described, (bad, right): (&str, &str)) -> Option<&'static str> {
    let (err, name) = (&ran.err, option.name.as_str());
    let is_device = ["device", "profile", "drives", "print"].contains(&name);
    let is_named = err.contains(&format!("--{name}"))
        || err.contains(&format!("option `{}`", name.replace('-', "_")))
        || is_device && err.contains(&format!("device {bad}"));
    let words = [
        "expected",
        "possible values",
        "did you mean",
        "a value is required",
        " is not in ",
        // An option of a feature that this program lacks.
        "` builds one with it",
    ];
    // What is wrong with a file, the system says.
    let is_file = option.value == "DIR" || ARE_FILES.contains(&option.value.as_str());
    let expects =
        words.iter().any(|word| err.contains(word)) || is_file && err.contains("(os error ");
    // What is printed before the jobs begin says which they are.
    match () {
        () if ran.code != 2 || ran.out.contains("groupid=") => Some("exit code 2 before the work"),
        () if !(is_named || name == "option" && err.contains(bad)) => Some("the option"),
        () if !err.contains(bad.trim_end_matches('/')) => Some("what was found"),
        () if !expects => Some("what was expected"),
        () => (!err.contains(right)).then_some("the nearest"),
    }
}

/// Runs a command with one wrong value after another: how many there were, and those that were answered wrongly.
fn tried(dir: &TestDir, command: &[String], option: &Described) -> (usize, Vec<String>) {
    let line = command.join(" ");
    let given = format!("--{}", option.name);
    let mut more = others(&line, &option.name);
    more.retain(|arg| !arg.starts_with(&format!("{given}=")));
    let (values, mut faults) = (wrong(option), Vec::new());
    for (bad, right) in &values {
        let mut args: Vec<&str> = command.iter().map(String::as_str).collect();
        let joined = format!("{given}={bad}");
        match option.values {
            1 => args.push(&joined),
            _ => args.extend([given.as_str(), bad, bad]),
        }
        args.extend(&more);
        let ran = dir.zonal(&args);
        if let Some(missing) = lacks(&ran, option, (bad, right)) {
            let RunOutput { code, out, err } = ran;
            let out = out.lines().next().unwrap_or_default();
            faults.push(format!("{} without {missing}: {code} {out} {err}", args.join(" ")));
        }
    }
    (values.len(), faults)
}

#[test]
fn each_option_names_itself_where_its_value_is_wrong() {
    let dir = TestDir::new().with("cells.csv", CELLS).with("disk.raw", "");
    let run = ["run", "--record=run.log", "--record-view=run.view", "--clock=virtual"];
    dir.zonal(&[&run[..], &JOB].concat()).expect_ok();
    dir.zonal(&["create", "disk.img", "--profile=null:zones=4,zone_size=1M"]).expect_ok();
    dir.zonal(&["crash", "generate", "workloads"]).expect_ok();
    // The head of a log of dm-log-writes: magic number, version, no entries, sectors of 512 bytes.
    let head = [0x6a_7366_7773_6872_u64, 1, 0, 512].map(u64::to_le_bytes).concat();
    std::fs::write(dir.path().join("dm.log"), [head, vec![0; 480]].concat()).expect("a log");
    let mut found = Vec::new();
    commands(&dir, &[], &mut found);
    let all: Vec<(&Vec<String>, Described)> = found
        .iter()
        .flat_map(|command| options(&help(&dir, command)).into_iter().map(move |it| (command, it)))
        .filter(|(_, option)| !RIGHT.contains(&option.name.as_str()))
        .collect();
    let results = Mutex::new((0, Vec::new()));
    std::thread::scope(|scope| {
        for part in all.chunks(all.len().div_ceil(4)) {
            let (dir, results) = (&dir, &results);
            scope.spawn(move || {
                for (command, option) in part {
                    let (number, faults) = tried(dir, command, option);
                    let mut results = results.lock().expect("no other thread failed");
                    results.0 += number;
                    results.1.extend(faults);
                }
            });
        }
    });
    let (number, faults) = results.into_inner().expect("no thread failed");
    assert!(number > 800, "only {number} values were tried");
    assert!(faults.is_empty(), "{} of {number}:\n{}", faults.len(), faults.join(""));
}
