//! `--format`: each command has all formats, and `docs/reference/output.md` has the fields of its JSON.
use crate::support::{TestDir, repository};
use serde_json::Value;
use std::collections::BTreeSet;

/// The paths of the values in a JSON document. An item of an array has no number.
fn paths(path: &str, value: &Value, to: &mut BTreeSet<String>) {
    match value {
        Value::Object(entries) => {
            for (name, value) in entries {
                let dot = if path.is_empty() { "" } else { "." };
                // A name such as `clat_p99.9_ns` is one part of a path.
                paths(&format!("{path}{dot}{}", name.replace('.', "_")), value, to);
            }
        }
        Value::Array(items) if items.iter().any(Value::is_object) => {
            items.iter().for_each(|item| paths(&format!("{path}[]"), item, to));
        }
        _ => {
            to.insert(path.to_owned());
        }
    }
}

/// The fields of a section of the page: those between backquotes in the first cells of its table.
fn documented(page: &str, title: &str) -> Vec<String> {
    let heading = format!("\n## {title}\n");
    let (_, section) = page.split_once(&heading).unwrap_or_else(|| panic!("no section {title}"));
    let section = section.split("\n## ").next().expect("a part");
    let rows = section.lines().filter(|line| line.starts_with("| `"));
    let cells = rows.filter_map(|line| line.split(" | ").next());
    let fields = cells.flat_map(|cell| cell.split('`').skip(1).step_by(2).map(str::to_owned));
    let fields: Vec<String> = fields.collect();
    match section.contains("What `zonal image create` has, and:") {
        true => [documented(page, "zonal image create"), fields].concat(),
        false => fields,
    }
}

/// Whether a documented field stands for a path: `*` is any name, and an array without items ends a path.
fn stands_for(field: &str, path: &str) -> bool {
    let field: Vec<&str> = field.split('.').collect();
    let path: Vec<&str> = path.split('.').collect();
    let is_same = |(field, path): (&&str, &&str)| *field == "*" || field == path;
    let whole = field.len() == path.len() && field.iter().zip(&path).all(is_same);
    let (last, before) = path.split_last().expect("a path has a name");
    let ends = field.len() > before.len()
        && field.iter().zip(before).all(is_same)
        && [format!("{last}[]"), (*last).to_owned()].iter().any(|name| name == field[before.len()]);
    whole || ends
}

fn with_files() -> TestDir {
    let device = "device = \"null\"\n";
    let dir = TestDir::new()
        .with("mine.toml", device)
        .with("z.toml", "[devices]\na = \"null\"\n\n[run]\nclock = \"virtual\"\n");
    dir.zonal(&["create", "a.img", "--profile=null:zones=4,zone_size=1M"]).expect_ok();
    dir
}

const JOB: [&str; 4] = ["--name=w", "--rw=write", "--bs=64k", "--zonemode=zbd"];
const SMALL: &str = "--device=null:zones=8,zone_size=1M";

/// Each command with its section.
fn commands() -> Vec<(&'static str, Vec<&'static str>)> {
    let advise = ["advise", "--device=smr-30t:zones=64", "--depths=1,4", "--time=0.1", "--seeds=1"];
    let sweep = ["sweep", SMALL, "--vary=iodepth=1,4", "--time=0.01"];
    vec![
        ("zonal zone report", vec!["zone", "report", "null:zones=4,conventional=1"]),
        ("zonal zone capacity", vec!["zone", "capacity", "null:zones=4"]),
        ("zonal zone reset", vec!["zone", "reset", "null:zones=4"]),
        ("zonal image check", vec!["image", "check", "a.img"]),
        ("zonal image info", vec!["image", "info", "a.img"]),
        ("zonal devices", vec!["devices"]),
        ("zonal options", vec!["options"]),
        ("zonal devices SPEC", vec!["devices", "zns-1t", "--time=0.01"]),
        ("zonal doctor", vec!["doctor"]),
        ("zonal config", vec!["--config", "z.toml", "config"]),
        ("zonal advise", [&advise[..], &JOB].concat()),
        ("zonal sweep", [&sweep[..], &JOB].concat()),
    ]
}

#[track_caller]
fn check_fields(title: &str, json: &Value) {
    let page = std::fs::read_to_string(repository("docs/reference/output.md")).expect("the page");
    let fields = documented(&page, title);
    let mut found = BTreeSet::new();
    paths("", json, &mut found);
    for path in &found {
        assert!(
            fields.iter().any(|field| stands_for(field, path)),
            "{title}: no line about `{path}`"
        );
    }
    for field in &fields {
        assert!(
            found.iter().any(|path| stands_for(field, path)),
            "{title}: no `{field}` in {json:#}"
        );
    }
}

#[test]
fn each_command_has_all_formats_and_the_page_has_the_fields() {
    let dir = with_files();
    for (title, args) in commands() {
        let run = |more: &[&str]| {
            let ran = dir.zonal(&[&args[..], more].concat());
            assert_eq!(ran.code, 0, "{title} {more:?}: {}", ran.err);
            ran.out
        };
        let json = run(&["--format=json"]);
        let value: Value =
            serde_json::from_str(&json).unwrap_or_else(|_| panic!("{title}: {json}"));
        check_fields(title, &value);
        assert_eq!(run(&["--json"]), json, "{title}");
        let csv = run(&["--format=csv"]);
        let columns = |line: &str| line.split(',').count();
        let heading = csv.lines().next().expect("headings");
        assert!(columns(heading) >= 2 && csv.lines().count() >= 2, "{title}: {csv}");
        let html = run(&["--format=html"]);
        assert!(html.starts_with("<!DOCTYPE html>"), "{title}: {html}");
        roxmltree::Document::parse(html.trim_start_matches("<!DOCTYPE html>\n"))
            .unwrap_or_else(|error| panic!("{title}: {error}"));
        assert!(!run(&["--format=text"]).starts_with(['{', '[', '<']), "{title}");
    }
}

#[test]
fn created_images_are_told_as_json() {
    let dir = with_files();
    let out = dir.zonal(&["create", "b.img", "--profile=null:zones=4,zone_size=1M", "--json"]);
    let value: Value = serde_json::from_str(&out.expect_ok()).expect("JSON");
    check_fields("zonal image create", &value);
}

#[test]
fn unknown_formats_are_answered_by_the_nearest() {
    for args in [&["devices", "--format=jsno"][..], &["zone", "report", "null", "--format=jsno"]] {
        let ran = TestDir::new().zonal(args);
        assert!(ran.code == 2 && ran.err.contains("'json'"), "{}", ran.err);
    }
}
