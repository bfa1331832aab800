//! Parts of the documents that the program generates are up to date.
use crate::support::{TestDir, repository, zonal};

/// The part of a document between the lines `<!-- begin: NAME -->` and `<!-- end: NAME -->`.
fn part(document: &str, name: &str) -> String {
    let text = std::fs::read_to_string(repository(document)).expect("the document");
    let begin = format!("<!-- begin: {name} -->\n\n");
    let end = format!("\n<!-- end: {name} -->\n");
    let (_, rest) = text.split_once(&begin).expect("the part begins");
    rest.split_once(&end).expect("the part ends").0.to_owned()
}

#[test]
fn job_options_of_the_manual_are_those_of_the_program() {
    let markdown = zonal(&["options", "--markdown"]).expect_ok();
    assert_eq!(markdown, zonal_fio::options::markdown());
    let same = part("docs/reference/options.md", "options") == markdown;
    assert!(
        same,
        "docs/reference/options.md: put the output of `zonal options --markdown` between the marks"
    );
}

#[test]
fn picture_of_the_head_is_what_the_program_draws() {
    let dir = TestDir::new();
    // The picture does not depend on how long the cells beside it are measured.
    let args = ["reproduce", "smr-seq-qd", "--time", "1", "--rounds", "1", "--plot", "plots"];
    dir.zonal(&args).expect_ok();
    let name = "smr-seq-qd-head.svg";
    let readme = std::fs::read_to_string(repository("README.md")).expect("the front page");
    let caption = "`zonal reproduce smr-seq-qd --plot DIR` draws this";
    assert!(
        readme.contains(&format!("](docs/images/{name})")) && readme.contains(caption),
        "{readme}"
    );
    let drawn = dir.read(&format!("plots/{name}"));
    let shown = std::fs::read_to_string(repository(&format!("docs/images/{name}")));
    assert!(drawn == shown.expect("the picture"), "docs/images/{name}: draw it anew");
}

#[test]
fn device_options_of_the_manual_are_those_of_the_program() {
    let help = zonal(&["devices"]).expect_ok();
    let same = part("docs/reference/devices.md", "options") == format!("```text\n{help}```\n");
    assert!(same, "docs/reference/devices.md: put the output of `zonal devices` between the marks");
}
