//! Parts of the documents that the program generates are up to date.
use crate::support::{repository, zonal};

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
    let same = part("docs/jobs.md", "options") == markdown;
    assert!(same, "docs/jobs.md: put the output of `zonal options --markdown` between the marks");
}

#[test]
fn device_options_of_the_manual_are_those_of_the_program() {
    let help = zonal(&["devices"]).expect_ok();
    let same = part("docs/devices.md", "options") == format!("```text\n{help}```\n");
    assert!(same, "docs/devices.md: put the output of `zonal devices` between the marks");
}
