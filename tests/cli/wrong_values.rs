//! Each option of each command with values that are wrong: the message names the option, and the exit code is
//! 2. The options are those of the help, so that a new one is tried, too.
use crate::support::{RunOutput, TestDir};

const DEVICE: &str = "null:zones=8,zone_size=1M";
const JOB: [&str; 6] = [
    "--device=null:zones=8,zone_size=1M,memory=true",
    "--name=a",
    "--rw=write",
    "--bs=4k",
    "--zonemode=zbd",
    "--size=1z",
];
const CELLS: &str = "set,driver,lba,op,block,zones,depth,metric,value,unit\n\
                     io,spdk,4096,append:write,4096,1,1,iops,50000,1/s\n";

/// Values that no option takes; the second one is a directory, for options of files.
const WRONG: [&str; 2] = ["no/such/place/?!", "."];

/// Options of which one of these values is right, since they make folders or take any text.
const RIGHT: [&str; 5] = ["plot", "serial", "fuse", "work", "html"];

/// The commands, with what makes each right but for the option that is tried.
fn commands() -> Vec<(Vec<&'static str>, Vec<&'static str>)> {
    let with_job = |command, more: &[&'static str]| (vec![command], [&JOB[..], more].concat());
    vec![
        with_job("run", &[]),
        with_job("advise", &["--time=0.001", "--seeds=1", "--depths=1", "--schedulers=none"]),
        with_job("sweep", &["--vary=iodepth=1", "--time=0.001"]),
        (vec!["zone", "report"], vec![DEVICE]),
        (vec!["zone", "reset"], vec![DEVICE]),
        (vec!["device"], vec![DEVICE]),
        (vec!["devices"], vec![]),
        (vec!["create"], vec!["new.img", "--profile=zns-1t"]),
        (vec!["check"], vec!["disk.img"]),
        (vec!["image", "info"], vec!["disk.img"]),
        (vec!["image", "resize"], vec!["disk.img"]),
        (vec!["doctor"], vec![]),
        (vec!["options"], vec![]),
        (vec!["torture"], vec!["--runs=1"]),
        (vec!["reproduce"], vec!["smr-seq-qd"]),
        (vec!["validate"], vec!["--device=zn540", "cells.csv"]),
        (vec!["fit"], vec!["zn540", "cells.csv"]),
        (vec!["crash"], vec!["run.log"]),
        (vec!["serve"], vec![DEVICE, "--vfio-user=s.sock"]),
    ]
}

/// The options of a command that take a value, and what the help calls the value.
fn options(dir: &TestDir, command: &[&str]) -> Vec<(String, String)> {
    let help = dir.zonal(&[command, &["--help"]].concat()).expect_ok();
    let option = |line: &str| {
        let (_, rest) = line.split_once("--").filter(|(before, _)| before.trim().len() <= 3)?;
        let (name, value) = rest.split_once([' ', '[', '='])?;
        let value = value.split_once('<')?.1.split_once('>')?.0;
        let is_name = name.chars().all(|c| c.is_ascii_lowercase() || c == '-');
        is_name.then(|| (name.to_owned(), value.to_owned()))
    };
    help.lines().filter(|line| line.starts_with("  ")).filter_map(option).collect()
}

/// Whether a message is about an option: it names that, or what the option is to a device.
fn is_about(ran: &RunOutput, option: &str, bad: &str) -> bool {
    let device =
        ["device", "profile"].contains(&option) && ran.err.contains(&format!("device {bad}: "));
    let of_device = ran.err.contains(&format!("option `{}`", option.replace('-', "_")));
    let named = device || of_device || ran.err.contains(&format!("--{option}"));
    // `create --option OPTION=VALUE` is about the option of the device.
    // What is printed before the jobs begin says which they are.
    let has_begun = ran.out.contains("groupid=");
    ran.code == 2 && !has_begun && (named || option == "option" && ran.err.contains(bad))
}

#[test]
fn each_option_names_itself_where_its_value_is_wrong() {
    let dir = TestDir::new().with("cells.csv", CELLS);
    dir.zonal(&[&["run", "--record-all=run.log", "--clock=virtual"], &JOB[..]].concat())
        .expect_ok();
    dir.zonal(&["create", "disk.img", "--profile=null:zones=4,zone_size=1M"]).expect_ok();
    let (mut wrong, mut tried) = (Vec::new(), 0);
    for (command, more) in commands() {
        for (option, value) in options(&dir, &command) {
            if RIGHT.contains(&option.as_str()) {
                continue;
            }
            let is_file = ["FILE", "LOG", "IMAGE", "SOCKET"].contains(&value.as_str());
            for bad in WRONG.into_iter().take(1 + usize::from(is_file)) {
                let given = format!("--{option}={bad}");
                let others = more.iter().filter(|arg| !arg.starts_with(&format!("--{option}=")));
                let others: Vec<&str> = others.copied().collect();
                let ran = dir.zonal(&[&command[..], &[&given], &others].concat());
                tried += 1;
                if !is_about(&ran, &option, bad) {
                    let RunOutput { code, out, err } = ran;
                    let out = out.lines().next().unwrap_or_default();
                    wrong.push(format!("{} {given}: {code} {out} {err}", command.join(" ")));
                }
            }
        }
    }
    assert!(tried > 150, "only {tried} values were tried");
    assert!(wrong.is_empty(), "{} of {tried}:\n{}", wrong.len(), wrong.join(""));
}
