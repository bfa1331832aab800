//! Tests of the descriptions of tables, and of what is printed from made-up results.
use super::accuracy::{Accuracy, interpolate};
use super::how::MeasureSettings;
use super::measure::Bench;
use super::measured::{Measured, Results, Rounds, Sample};
use super::published::{COLUMNS, Key, parse};
use super::table::{
    ANY_MACHINE, Base, Cell, Claim, Comparison, Layout, Method, Setup, Style, Table, Unit,
};
use super::{csv, html, json, plot, tables, text};
use crate::cli::ClockKind;
use crate::devices;
use std::collections::BTreeSet;
use zonal_fio::jobfile::{self, SystemEnvironment};

#[test]
fn tables_cover_their_published_figures_in_their_units() {
    for table in tables() {
        let figures = table.figures();
        assert!(!figures.is_empty(), "{}", table.name);
        for figure in &figures {
            assert!(table.cell_of(figure).is_some(), "{}: {figure:?}", table.name);
        }
        let published = table.cells.iter().filter(|cell| cell.published.is_some()).count();
        assert_eq!(published, figures.len(), "{}: a key that is no figure's", table.name);
    }
}

#[test]
fn tables_have_names_of_their_own() {
    let names: Vec<&str> = tables().iter().map(|table| table.name).collect();
    assert_eq!(names.iter().collect::<BTreeSet<_>>().len(), names.len());
}

#[test]
fn cells_are_compared_with_cells_in_the_same_unit() {
    for table in tables() {
        for cell in &table.cells {
            assert_eq!(cell.bases.len(), table.comparisons.len());
            for base in cell.bases.iter().flatten() {
                assert_eq!(table.cells[base.cell].unit, cell.unit);
            }
        }
    }
}

#[test]
fn jobs_of_all_cells_can_be_read_and_name_devices_that_there_are() {
    for table in tables() {
        for (at, cell) in table.cells.iter().enumerate() {
            let jobs = jobfile::parse_args(&cell.setup.jobs, &SystemEnvironment).unwrap().jobs;
            assert!(!jobs.is_empty(), "{}", table.name_of(at));
            for job in jobs {
                let device = job.filename.as_deref().expect("each job names its device");
                devices::load(device).expect("the device is known");
            }
        }
    }
}

#[test]
fn rows_and_columns_name_one_cell_each() {
    for table in tables().iter().filter(|table| table.layout != Layout::List) {
        for (at, cell) in table.cells.iter().enumerate() {
            assert_eq!(table.at(&cell.row, &cell.column), Some(at), "{}", table.name);
        }
    }
}

/// Rows `old` and `new`, of which the second is compared with the first, and some columns; `config`
/// and `workload` of the published figures are those of row and column.
fn small(layout: Layout, claim: Claim, columns: &[&str]) -> Table {
    let cell = |config: &'static str, workload: &str, base: Option<usize>| Cell {
        row: config.to_owned(),
        column: workload.to_owned(),
        published: Some(Key {
            device: "a, disk",
            config,
            scheduler: "none",
            workload: workload.to_owned(),
        }),
        unit: Unit::MegabytesPerSecond,
        setup: Setup { scheduler: "none", zone_write: None, jobs: Vec::new() },
        bases: vec![base.map(|cell| Base { cell, times: 1.0 })],
    };
    let old = columns.iter().map(|column| cell("old", column, None));
    let new = columns.iter().enumerate().map(|(at, column)| cell("new", column, Some(at)));
    Table {
        name: "small",
        about: "made <up>",
        layout,
        claim,
        method: Method {
            clock: ClockKind::Virtual,
            rounds: 3,
            seconds: Some(3.0),
            costs: ANY_MACHINE,
        },
        comparisons: &[Comparison { heading: "against old", style: Style::Change }],
        cells: old.chain(new).collect(),
        crossings: Vec::new(),
        remarks: |measured| vec![format!("The first is {}.", measured.results.figure(0))],
    }
}

/// Figures of [`small`], row by row, and what was measured: three rounds, ours one less and one
/// more than what is given in the first and in the last.
fn measured(table: Table, published: &[&str], ours: &[f64]) -> Measured {
    let line = |(cell, value): (&Cell, &&str)| {
        let (row, column) = (&cell.row, &cell.column);
        format!("small,\"a, disk\",{row},none,{column},bandwidth,MB/s,{value},x")
    };
    let lines: Vec<String> = table.cells.iter().zip(published).map(line).collect();
    let figures = parse(&format!("{}\n{}", COLUMNS.join(","), lines.join("\n"))).unwrap();
    let sample = |figure: f64| Sample { figure, latency: [1_000_000, 2_000_000, 50_000_000] };
    let rounds = |&own: &f64| Rounds([own - 1.0, own, own + 1.0].map(sample).to_vec());
    let settings = MeasureSettings {
        clock: ClockKind::Virtual,
        rounds: 3,
        seconds: Some(3.0),
        seed: 7,
        costs: ANY_MACHINE,
    };
    Measured { figures, results: Results(ours.iter().map(rounds).collect()), table, settings }
}

fn grid(claim: Claim) -> Measured {
    let table = small(Layout::Grid, claim, &["read", "write"]);
    measured(table, &["100", "50.5", "110", "withheld"], &[200.0, 20.0, 150.0, 40.0])
}

/// Four steps; the second row's fastest figures are about the media rate.
fn curves() -> Measured {
    let table = small(Layout::Curves { axis: "depth" }, Claim::Figures, &["1", "2", "4", "8"]);
    let published = ["100", "96", "withheld", "40", "100", "withheld", "withheld", "98"];
    let ours = [101.0, 90.0, 60.0, 44.0, 98.0, 98.0, 98.0, 98.0];
    measured(table, &published, &ours)
}

#[test]
fn grid_has_published_figures_above_ours_and_says_what_is_withheld() {
    let expected = "\
small: made <up>
published: a, disk
zonal: virtual clock, 1000 ns of a thread an I/O, seed 7, median of 3 rounds of 1 s a cell

                   read              write
                   MB/s               MB/s
old  published      100               50.5
     zonal        200.0              20.00
     spread        1.0%              10.0%
new  published      110    +10.0% withheld
     zonal        150.0    -25.0%    40.00   +100.0%
     spread        1.3%               5.0%

Percentages: against old.
The published figures are a kernel's, on another machine: the percentages are what to compare; each
is the median of what it was in each round. Spread: between the slowest and the fastest round, in
percent of the median.
withheld: a published figure that is kept back; ours is a prediction.
Absolute error, which is that of another machine: 3 cells, median 60.4%, largest 100.0% (old read).
The first is 200.
";
    assert_eq!(text::render(&grid(Claim::Percentages)), expected);
}

#[test]
fn grid_of_a_model_has_errors_behind_our_figures_but_for_those_withheld() {
    let text = text::render(&grid(Claim::Figures));
    let lines: Vec<&str> = text.lines().skip(6).take(6).collect();
    assert_eq!(
        lines,
        [
            "old  published      100               50.5",
            "     zonal        200.0   +100.0%    20.00    -60.4%",
            "     spread        1.0%              10.0%",
            "new  published      110    +10.0% withheld",
            "     zonal        150.0    +36.4%    40.00",
            "     spread        1.3%               5.0%",
        ]
    );
    assert!(text.contains("Absolute error: 3 cells, median 60.4%, largest 100.0% (old read)."));
}

#[test]
fn list_has_published_figures_beside_ours() {
    let table = small(Layout::List, Claim::Percentages, &["read", "write"]);
    let published = ["100", "50.5", "110", "withheld"];
    let text = text::render(&measured(table, &published, &[200.0, 20.0, 150.0, 40.0]));
    let lines: Vec<&str> = text.lines().skip(4).take(6).collect();
    assert_eq!(
        lines,
        [
            "     published  against old  zonal  against old  spread",
            "          MB/s                MB/s",
            "old        100               200.0                 1.0%",
            "old       50.5               20.00                10.0%",
            "new        110       +10.0%  150.0       -25.0%    1.3%",
            "new   withheld               40.00      +100.0%    5.0%",
        ]
    );
}

#[test]
fn curves_are_lines_with_errors_and_what_interpolation_would_say() {
    let text = text::render(&curves());
    let lines: Vec<&str> = text.lines().skip(4).collect();
    assert_eq!(
        lines,
        [
            "     depth  published  zonal   error  spread  interpolated",
            "                 MB/s   MB/s                          MB/s",
            "old      1        100  101.0   +1.0%    2.0%",
            "         2         96  90.00   -6.2%    2.2%         80.00",
            "         4   withheld  60.00            3.3%         68.00",
            "         8         40  44.00  +10.0%    4.5%",
            "new      1        100  98.00   -2.0%    2.0%",
            "         2   withheld  98.00            2.0%         99.33",
            "         4   withheld  98.00            2.0%         98.67",
            "         8         98  98.00   +0.0%    2.0%",
            "",
            "Percentages behind our figures: by how much they differ from the published ones. Spread: \
             between the",
            "slowest and the fastest seed, in percent of the median.",
            "withheld: a published figure that is kept back; ours is a prediction.",
            "Absolute error: 5 cells, median 2.0%, largest 10.0% (old, depth 8).",
            "Of those that are more than 5% below the fastest published bandwidth, or no bandwidth: 1 \
             cell,",
            "median 10.0%, largest 10.0% (old, depth 8).",
            "Interpolated between published figures: 1 cell, median 16.7%, largest 16.7% (old, depth 2).",
            "Zonal on the same: 1 cell, median 6.2%, largest 6.2% (old, depth 2).",
            "The first is 101.",
        ]
    );
}

#[test]
fn withheld_figures_count_nowhere_but_where_they_are_counted() {
    let measured = curves();
    let accuracy = Accuracy::of(&measured);
    assert_eq!(accuracy.withheld, 3);
    assert_eq!(accuracy.given.as_ref().map(|errors| errors.count), Some(5));
    assert_eq!((measured.error(2), measured.value(2)), (None, None));
    assert_eq!(interpolate(&measured, 0), None, "nothing to the left of it");
    let nothing = small(Layout::Grid, Claim::Figures, &["read"]);
    let nothing = super::tests::measured(nothing, &["withheld", "withheld"], &[1.5, 2.5]);
    let accuracy = Accuracy::of(&nothing);
    assert_eq!((accuracy.given, accuracy.nontrivial, accuracy.withheld), (None, None, 2));
}

#[test]
fn overview_has_a_line_for_each_table() {
    let expected = "\
table  figures  withheld  median error  largest  non-trivial
small        3         1         60.4%   100.0%
small        5         3          2.0%    10.0%   10.0% of 1

Errors of tables on null devices are those of another machine.
";
    assert_eq!(text::overview(&[grid(Claim::Percentages), curves()]), expected);
}

#[test]
fn csv_has_the_published_columns_and_ours() {
    let expected = "\
table,device,config,scheduler,workload,metric,unit,value,source,zonal,error
small,\"a, disk\",old,none,read,bandwidth,MB/s,100,x,200.0,100.0
small,\"a, disk\",old,none,write,bandwidth,MB/s,50.5,x,20.00,-60.4
small,\"a, disk\",new,none,read,bandwidth,MB/s,110,x,150.0,36.4
small,\"a, disk\",new,none,write,bandwidth,MB/s,withheld,x,40.00,
";
    assert_eq!(csv::header() + &csv::lines(&grid(Claim::Figures)), expected);
}

#[test]
fn json_says_how_each_figure_came_about() {
    let read: serde_json::Value = serde_json::from_str(&json::render(&[curves()])).unwrap();
    let table = &read["tables"][0];
    assert_eq!(
        (&table["table"], &table["clock"], &table["seed"]),
        (&"small".into(), &"virtual".into(), &7.into())
    );
    let first = &table["cells"][0];
    assert_eq!((&first["device"], &first["workload"]), (&"a, disk".into(), &"1".into()));
    assert_eq!((&first["value"], &first["zonal"]), (&100.0.into(), &101.0.into()));
    assert_eq!(first["rounds"], serde_json::json!([100.0, 101.0, 102.0]));
    assert_eq!(first["clat_ns"]["99.9"], 50e6);
    let withheld = &table["cells"][2];
    let null = serde_json::Value::Null;
    assert_eq!((&withheld["value"], &withheld["error"]), (&null, &null));
    assert_eq!((&withheld["withheld"], &withheld["interpolated"]), (&true.into(), &68.0.into()));
    assert_eq!(table["error"]["given"]["largest_at"], "old, depth 8");
    assert_eq!(table["error"]["nontrivial"]["cells"], 1);
    assert_eq!(table["error"]["withheld"], 3);
}

/// The elements of a kind.
fn count(document: &roxmltree::Document<'_>, tag: &str) -> usize {
    document.descendants().filter(|node| node.tag_name().name() == tag).count()
}

#[test]
fn plots_have_axes_with_units_a_legend_and_rings_for_what_was_published() {
    let plots = plot::of(&curves()).unwrap();
    let names: Vec<&str> = plots.iter().map(|plot| plot.name.as_str()).collect();
    assert_eq!(names, ["small-throughput", "small-latency"]);
    let document = roxmltree::Document::parse(&plots[0].svg).unwrap();
    let svg = "http://www.w3.org/2000/svg";
    let texts: Vec<&str> = document
        .descendants()
        .filter(|node| node.has_tag_name((svg, "text")))
        .filter_map(|node| node.text().map(str::trim))
        .collect();
    for expected in ["depth", "MB/s", "1", "8", "old", "new", "new, published"] {
        assert!(texts.contains(&expected), "{expected}: {texts:?}");
    }
    // A point each of ours, two circles for each ring, and those of the legend.
    assert_eq!(count(&document, "circle"), 8 + 2 * 5 + 2 * 2);
    let latency = &plots[1].svg;
    assert!(latency.contains("\nold, 99.9th\n") && latency.contains("\nms\n"), "{latency}");
    for plot in &plots {
        assert!(plot.svg.contains("currentColor") && !plot.svg.contains("#010203"));
    }
}

#[test]
fn bars_are_figures_of_models_and_changes_elsewhere() {
    let names = |claim| -> Vec<String> {
        plot::of(&grid(claim)).unwrap().into_iter().map(|plot| plot.name).collect()
    };
    assert_eq!(names(Claim::Percentages), ["small-change"]);
    assert_eq!(names(Claim::Figures), ["small-bandwidth"]);
    let plots = plot::of(&grid(Claim::Figures)).unwrap();
    let document = roxmltree::Document::parse(&plots[0].svg).unwrap();
    // A bar for each cell and in the legend; the published ones are rings.
    assert_eq!(count(&document, "rect"), 4 + 2);
    assert_eq!(count(&document, "circle"), 2 * 3 + 2 * 2);
}

#[test]
fn files_of_plots_are_whole_and_have_colours_of_their_own() {
    let dir = tempfile::tempdir().unwrap();
    let plots = plot::of(&curves()).unwrap();
    let inner = dir.path().join("a/b");
    plot::prepare(&inner).unwrap();
    plot::write(&inner, &plots).unwrap();
    let names = std::fs::read_dir(&inner).unwrap();
    let mut names: Vec<String> =
        names.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort_unstable();
    assert_eq!(names, ["small-latency.svg", "small-throughput.svg"]);
    let text = std::fs::read_to_string(inner.join(&names[0])).unwrap();
    assert_eq!(count(&roxmltree::Document::parse(&text).unwrap(), "style"), 1);
    let file = dir.path().join("file");
    std::fs::write(&file, "").unwrap();
    let error = format!("{:#}", plot::prepare(&file).unwrap_err());
    assert!(error.starts_with(&format!("--plot {}: ", file.display())), "{error}");
}

#[test]
fn page_is_well_formed_and_needs_nothing_else() {
    let page = html::render(&[grid(Claim::Percentages), curves()]).unwrap();
    let options = roxmltree::ParsingOptions { allow_dtd: true, ..Default::default() };
    let document = roxmltree::Document::parse_with_options(&page, options).unwrap();
    assert_eq!(count(&document, "svg"), 3);
    assert_eq!(count(&document, "h2"), 2);
    // The overview and the tables, each with a line of headings.
    assert_eq!(count(&document, "tr"), 3 + 5 + 9);
    let html = "http://www.w3.org/1999/xhtml";
    let cells = document.descendants().filter(|node| node.has_tag_name((html, "td")));
    let cells: Vec<&str> = cells.filter_map(|node| node.text()).collect();
    assert!(cells.contains(&"withheld") && cells.contains(&"+10.0%"), "{cells:?}");
    for tag in ["script", "link", "img", "iframe", "image", "use"] {
        assert_eq!(count(&document, tag), 0, "{tag}");
    }
    let outside = |node: roxmltree::Node<'_, '_>| {
        node.attributes().any(|a| matches!(a.name(), "href" | "src") || a.value().contains("url("))
    };
    assert!(!document.descendants().any(outside));
    assert!(!page.contains("@import") && !page.contains("url("));
}

/// A table of two cells that is quickly measured in virtual time: writes that depend on the seed.
fn quick() -> (Table, MeasureSettings) {
    let mut table = small(Layout::Grid, Claim::Figures, &["write"]);
    for (cell, depth) in table.cells.iter_mut().zip([1, 4]) {
        let device = "null:zones=16,zone_size=1M,max_open=4,latency=50us,jitter=30us";
        cell.setup.jobs = vec![
            "--name=a".to_owned(),
            format!("--filename={device}"),
            "--zonemode=zbd".to_owned(),
            "--rw=randwrite".to_owned(),
            format!("--iodepth={depth}"),
        ];
    }
    let settings = MeasureSettings {
        clock: ClockKind::Virtual,
        rounds: 3,
        seconds: Some(0.03),
        seed: 1,
        costs: ANY_MACHINE,
    };
    (table, settings)
}

#[test]
fn cells_side_by_side_give_what_they_give_one_after_another() {
    let (table, settings) = quick();
    let serial = Bench::with_workers(1).measure(&table, &settings).unwrap();
    let parallel = Bench::with_workers(4).measure(&table, &settings).unwrap();
    assert_eq!(serial, parallel);
    assert_eq!(serial.0.iter().map(|rounds| rounds.0.len()).collect::<Vec<_>>(), [3, 3]);
    assert!(serial.0[0].spread() > 0.0, "each round has a seed of its own");
    assert!(serial.figure(1) > serial.figure(0));
    // One in flight for 50 to 80 us, and an I/O costs its thread a little more.
    let latency = serial.0[0].latency(0);
    assert!((50_000.0..81_000.0).contains(&latency), "{latency}");
    let other =
        Bench::with_workers(2).measure(&table, &MeasureSettings { seed: 99, ..settings }).unwrap();
    assert_ne!(serial, other);
}

#[test]
fn cell_that_cannot_be_measured_is_named() {
    let (mut table, settings) = quick();
    table.cells[1].setup.jobs[1] = "--filename=no-such-device".to_owned();
    let error = format!("{:#}", Bench::with_workers(2).measure(&table, &settings).unwrap_err());
    assert!(error.starts_with("small: new write: "), "{error}");
    assert!(error.contains("no-such-device"), "{error}");
}
