//! The configuration file.
use super::support::{RunOutput, TestDir};

const CONFIG: &str = "[devices]\narchive = \"smr-30t:memory=false\"\nsmall = \"null\"\n\
                      [run]\nclock = \"virtual\"\n[zone.report]\ncount = 2\n";
const JOB: [&str; 6] =
    ["--name=w", "--rw=write", "--bs=1m", "--io_size=4m", "--zonemode=zbd", "--minimal"];

fn zonal(dir: &TestDir, args: &[&str]) -> RunOutput {
    dir.zonal(&[&["--config", "c.toml"], args].concat())
}

#[test]
fn devices_and_defaults_of_the_file_are_those_of_the_command_line() {
    let dir = TestDir::new().with("c.toml", CONFIG);
    let run = |config: bool, args: &[&str]| {
        let args = [&["run"], args, &JOB[..]].concat();
        if config { zonal(&dir, &args).expect_ok() } else { dir.zonal(&args).expect_ok() }
    };
    let own = run(false, &["--clock=virtual", "--device=smr-30t:memory=false,seed=1"]);
    assert_eq!(run(true, &["--device=archive:seed=1"]), own);
    let report = zonal(&dir, &["zone", "report", "small:zones=8"]).expect_ok();
    assert_eq!(report.lines().count(), 2, "{report}");
    let report = zonal(&dir, &["zone", "report", "--count", "3", "small:zones=8"]).expect_ok();
    assert_eq!(report.lines().count(), 3, "{report}");
}

#[test]
fn file_is_shown() {
    let dir = TestDir::new().with("c.toml", CONFIG);
    let expected = "c.toml\ndevice archive = smr-30t:memory=false\ndevice small = null\n\
                    zonal run --clock=virtual\nzonal zone report --count=2\n";
    assert_eq!(zonal(&dir, &["config"]).expect_ok(), expected);
    let json = zonal(&dir, &["config", "--json"]).expect_ok();
    let json: serde_json::Value = serde_json::from_str(&json).expect("JSON");
    assert_eq!(json["devices"]["small"], "null");
    assert_eq!(json["defaults"]["zone report"]["count"][0], "2");
    assert_eq!(dir.zonal(&["config"]).expect_ok(), "no file\n");
}

#[test]
fn file_that_cannot_be_used_is_refused_by_every_command() {
    let dir = TestDir::new().with("c.toml", "[run]\nclok = \"virtual\"\n");
    let refused = |args: &[&str], why: &str| {
        let output = dir.zonal(args);
        assert_eq!(output.code, 2, "{output:?}");
        assert!(output.err.contains(why), "{output:?}");
    };
    refused(&["--config", "c.toml", "devices"], "c.toml: line 2: `zonal run` has no option `clok`");
    refused(&["--config=none.toml", "devices"], "none.toml: cannot read the configuration");
    refused(&["--confg", "c.toml", "devices"], "'--config'");
    refused(&["--config"], "found no file");
    refused(&["--config", "", "--config", "c.toml", "devices"], "found two files");
    refused(&["run", "--config", "c.toml"], "config");
}
