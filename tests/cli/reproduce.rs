//! `zonal reproduce`: the form of its output, and the same bytes for the same seed.
use crate::support::{run, zonal};
use std::path::{Path, PathBuf};

/// Virtual time, a millisecond per round.
const FAST: [&str; 3] = ["reproduce", "--clock=virtual", "--time=0.003"];

/// Runs `zonal reproduce`: exit code, standard output, standard error.
fn reproduce(args: &[&str]) -> (i32, String, String) {
    run(&FAST, args)
}

#[track_caller]
fn run_ok(args: &[&str]) -> String {
    zonal(&[&FAST[..], args].concat()).expect_ok()
}

/// The file of a built-in table.
fn file(table: &str) -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    root.join(format!("crates/lab/data/tables/{table}.toml"))
}

/// The unit and the value of each published figure of a table's file, as its lines have them.
fn published(table: &str) -> Vec<String> {
    let text = std::fs::read_to_string(file(table)).expect("the file of the table");
    let before = text.lines().filter_map(|line| line.split_once(",prediction,"));
    let fields = before.map(|(before, _)| before.rsplitn(3, ',').take(2).collect::<Vec<_>>());
    let known = fields.filter(|fields| !fields[0].is_empty());
    known.map(|fields| format!(",{},{},", fields[1], fields[0])).collect()
}

#[test]
fn csv_has_the_published_lines_with_value_and_error() {
    for table in ["zwp-null_blk", "mq-deadline-scaling"] {
        let csv = run_ok(&[table, "--format=csv", "--rounds=1"]);
        let mut lines = csv.lines();
        let header =
            "table,device,config,scheduler,workload,metric,unit,value,source,zonal,error,use";
        assert_eq!(lines.next(), Some(header));
        let figures = published(table);
        let lines: Vec<&str> = lines.collect();
        assert_eq!(lines.len(), figures.len(), "{csv}");
        for (line, figure) in lines.iter().zip(figures) {
            assert!(line.starts_with(table) && line.contains(&figure), "{line}: {figure}");
            let fields: Vec<&str> = line.rsplit(',').collect();
            let ["prediction", error, own, _, value, ..] = fields[..] else { panic!("{line}") };
            let [own, error, published] =
                [own, error, value].map(|field| field.parse::<f64>().expect(line));
            assert!(own > 0.0, "{line}");
            let expected = (own / published - 1.0) * 100.0;
            // Measured figures are printed with about four digits.
            assert!((error - expected).abs() <= 0.01 * expected.abs() + 0.5, "{line}");
        }
    }
}

#[test]
fn file_of_a_table_is_measured_as_the_built_in_one() {
    let dir = tempfile::tempdir().expect("a directory");
    let mine = dir.path().join("mine.toml");
    std::fs::copy(file("zwp-null_blk"), &mine).expect("a copy");
    let measure = |table: &str| run_ok(&[table, "--format=csv", "--rounds=1"]);
    assert_eq!(measure(path(&mine)), measure("zwp-null_blk").replace("\nzwp-null_blk,", "\nmine,"));
    std::fs::write(&mine, "layout = 'grit'").expect("a file");
    let (code, out, err) = reproduce(&[path(&mine)]);
    assert_eq!((code, out.as_str()), (2, ""));
    assert!(err.contains("mine.toml: TOML parse error at line 1") && err.contains("grit"), "{err}");
}

#[test]
fn same_seed_gives_the_same_bytes_in_virtual_time() {
    for format in ["text", "csv", "json", "html"] {
        let format = format!("--format={format}");
        let args = ["zwp-null_blk", "mq-deadline-scaling", &format, "--seed=7", "--rounds=1"];
        assert_eq!(run_ok(&args), run_ok(&args));
    }
}

#[test]
fn tables_are_printed_in_the_order_of_the_arguments() {
    let tables = ["mq-deadline-scaling", "zwp-null_blk"];
    let csv = run_ok(&[tables[0], tables[1], "--format=csv", "--rounds=1"]);
    let first: Vec<&str> = csv.lines().filter_map(|line| line.split(',').next()).collect();
    let mut expected = vec!["table"];
    expected.extend(vec![tables[0]; 6]);
    expected.extend(vec![tables[1]; 24]);
    assert_eq!(first, expected);
    let text = run_ok(&[tables[0], tables[1], "--rounds=1"]);
    let (_, summary) = text.rsplit_once("\ntable ").expect("the summary");
    let rows: Vec<&str> = summary.lines().skip(1).take(2).collect();
    assert!(rows[0].starts_with(tables[0]) && rows[1].starts_with(tables[1]), "{text}");
}

#[test]
fn json_has_the_cells_of_every_table() {
    let json = run_ok(&["zwp-null_blk", "mq-deadline-scaling", "--format=json", "--rounds=2"]);
    let read: serde_json::Value = serde_json::from_str(&json).expect("it is JSON");
    let tables = read["tables"].as_array().expect("a list of tables");
    let cells = |table: &serde_json::Value| table["cells"].as_array().map(Vec::len);
    assert_eq!(tables.iter().map(cells).collect::<Vec<_>>(), [Some(24), Some(10)]);
    let cell = &tables[0]["cells"][0];
    assert_eq!(
        (cell["value"].as_f64(), cell["rounds"].as_array().map(Vec::len)),
        (Some(940.0), Some(2))
    );
    assert!(cell["error"].is_f64() && cell["clat_ns"]["99"].is_f64(), "{cell}");
}

#[test]
fn page_is_well_formed() {
    let page = run_ok(&["zwp-null_blk", "mq-deadline-scaling", "--format=html", "--rounds=1"]);
    let options = roxmltree::ParsingOptions { allow_dtd: true, ..Default::default() };
    let document = roxmltree::Document::parse_with_options(&page, options).expect("it is XML");
    let count = |tag| document.descendants().filter(|node| node.tag_name().name() == tag).count();
    // The plot is there for wide and for narrow pages, with a table after it; a script copies the command.
    assert_eq!((count("svg"), count("h2"), count("table"), count("script")), (2, 2, 4, 1));
}

#[test]
fn plots_are_written_beside_the_tables() {
    let dir = tempfile::tempdir().expect("a directory");
    let plots = dir.path().join("plots");
    let text = run_ok(&["zwp-null_blk", "--rounds=1", "--plot", path(&plots)]);
    assert!(text.starts_with("zwp-null_blk: "), "{text}");
    let svg = std::fs::read_to_string(plots.join("zwp-null_blk-change.svg")).expect("the plot");
    roxmltree::Document::parse(&svg).expect("it is XML");
    assert_eq!(std::fs::read_dir(&plots).expect("the directory").count(), 1);
}

fn path(path: &Path) -> &str {
    path.to_str().expect("a path in UTF-8")
}

#[test]
fn text_has_rows_columns_and_remarks() {
    let text = run_ok(&["zwp-null_blk", "--rounds=1"]);
    for row in ["ZWL mq-deadline", "ZWP mq-deadline", "ZWP bfq", "ZWP none"] {
        let line = text.lines().find(|line| line.starts_with(row)).expect(row);
        assert!(line.contains("published"), "{line}");
    }
    let columns = "seqw4K1 seqw4K16 seqw1M1 seqw1M16 rndw4K16 rndw128K16";
    let (above, table) = text.split_once("\n\n").expect("an empty line");
    let header = table.lines().next().expect("the header");
    assert_eq!(header.split_whitespace().collect::<Vec<_>>().join(" "), columns);
    let source =
        "\nsource: [PATCH v6 00/28] Zone write plugging (linux-block and linux-nvme, 5 April";
    assert!(above.contains(source) && above.contains("Compare the percentages only."), "{above}");
    assert!(
        text.contains("Published: ZWP none is slower than ZWL mq-deadline in rndw4K16 (-18.9%)")
    );
    assert!(text.contains("Zonal: ZWP none is "), "{text}");
    let scaling = run_ok(&["mq-deadline-scaling", "--rounds=1"]);
    let four = "1 drive, 4 threads unpinned, single requests";
    let line = scaling.lines().find(|line| line.starts_with(four)).expect(four);
    assert!(line.contains(" 1.1 ") && line.contains(" 22% "), "{line}");
}

#[test]
fn commands_are_those_that_measure_the_cells() {
    let commands = run_ok(&["--commands"]);
    let count = commands.lines().filter(|line| line.starts_with("zonal run ")).count();
    assert_eq!(count, 3 * 24 + 2 * 16 + 10 + 15 + 2 * 6 + 36 + 18 + 18 + 8 + 7);
    assert!(commands.contains("--scheduler mq-deadline --zone-write lock"), "{commands}");
    let first = commands.lines().nth(1).expect("a command");
    let args: Vec<&str> = first.split(' ').skip(1).collect();
    let (code, _, err) = run(&args, &[]);
    assert_eq!(code, 0, "{err}");
}

#[test]
fn bad_arguments_exit_with_2_and_list_the_tables() {
    let (code, out, err) = reproduce(&["zwp"]);
    assert_eq!((code, out.as_str()), (2, ""));
    assert!(err.contains("no table is called `zwp`\nTables:\n"), "{err}");
    let (_, _, err) = reproduce(&["zwp-null"]);
    assert!(err.contains("`zwp-null`, did you mean `zwp-null_blk`?\n"), "{err}");
    let (_, _, err) = reproduce(&["zwp-nul_blk"]);
    assert!(err.contains("`zwp-nul_blk`, did you mean `zwp-null_blk`?\n"), "{err}");
    assert!(err.contains("zwp-null_blk") && err.contains("mq-deadline-scaling"), "{err}");
    let (code, out, err) = reproduce(&["zwp-null_blk", "--format=xml"]);
    assert_eq!((code, out.as_str()), (2, ""));
    assert!(err.contains("'xml'") && err.contains("html"), "{err}");
    for arg in ["--time=0", "--rounds=0", "--clock=wall"] {
        assert_eq!(reproduce(&["zwp-null_blk", arg]).0, 2, "{arg}");
    }
    let file = tempfile::NamedTempFile::new().expect("a file");
    let (code, out, err) = reproduce(&["zwp-null_blk", "--plot", path(file.path())]);
    assert_eq!((code, out.as_str()), (2, ""), "found out before anything is measured");
    assert!(err.contains(&format!("--plot {}", file.path().display())), "{err}");
}
