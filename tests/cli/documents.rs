//! What documents take from the program is what the program says.
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
fn job_options_of_the_manual_are_the_programs() {
    let markdown = zonal(&["options", "--markdown"]).fine();
    assert_eq!(markdown, zonal_fio::options::markdown());
    let same = part("docs/jobs.md", "options") == markdown;
    assert!(same, "docs/jobs.md: put the output of `zonal options --markdown` between the marks");
}

#[test]
fn device_options_of_the_manual_are_the_programs() {
    let help = zonal(&["devices"]).fine();
    let same = part("docs/devices.md", "options") == format!("```text\n{help}```\n");
    assert!(same, "docs/devices.md: put the output of `zonal devices` between the marks");
}

#[test]
fn links_between_documents_lead_somewhere() {
    let docs = std::fs::read_dir(repository("docs")).expect("the documents");
    let docs = docs.map(|entry| entry.expect("an entry").path());
    let top = ["README.md", "CONTRIBUTING.md", "CHANGELOG.md"].map(repository);
    for path in docs.chain(top).filter(|path| path.extension().is_some_and(|e| e == "md")) {
        let text = std::fs::read_to_string(&path).expect("the document");
        for link in text.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            let file = link.split('#').next().unwrap_or_default();
            let local = !file.is_empty() && !file.contains("://");
            let target = path.parent().expect("a directory").join(file);
            assert!(!local || target.exists(), "{}: {link}", path.display());
        }
    }
}
