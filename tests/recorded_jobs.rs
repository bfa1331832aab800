//! Jobs that once did something else than in fio, with what fio 3.41 does with them (`zonal-fio-diff --record`).
use std::fs;
use std::path::Path;
use zonal_fio_diff::programs::Programs;
use zonal_fio_diff::recorded::differences;

#[test]
fn recorded_jobs_do_what_they_do_in_fio() {
    let programs =
        Programs { fio: "fio".into(), zonal: env!("CARGO_BIN_EXE_zonal").into(), mistake: None };
    let place = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fio-diff/recorded");
    let mut found = Vec::new();
    let mut cases = 0;
    for entry in fs::read_dir(&place).expect("the recorded jobs") {
        let path = entry.expect("a file").path();
        let text = fs::read_to_string(&path).expect("a text");
        let differences = differences(&programs, &text).expect("a case");
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        found.extend(differences.iter().map(|it| format!("{name}: {it}")));
        cases += 1;
    }
    assert!(cases > 0, "no recorded job");
    assert!(found.is_empty(), "{}", found.join("\n"));
}
