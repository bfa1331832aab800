//! Tests of the descriptions of tables, and of the output for made-up results.
use super::*;
use crate::executor::ClockKind;
use crate::experiment::Unit;
use crate::progress::StepProgress;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use zonal_fio::jobfile::{self, SystemEnvironment};

#[test]
fn built_in_tables_have_figures_and_each_figure_one_cell() {
    let count = |name: &str| table(name).figures().len();
    assert_eq!((count("zwp-null_blk"), count("mq-deadline-scaling")), (24, 6));
    for table in tables() {
        let figures = table.figures();
        assert!(!figures.is_empty() && table.source.is_some(), "{}", table.name);
        let mut keys: Vec<_> = figures.iter().map(|it| (&it.fields[..5], &it.fields[6])).collect();
        keys.sort_unstable();
        let same = keys.windows(2).find(|pair| pair[0] == pair[1]);
        assert_eq!(same, None, "{}", table.name);
    }
}

/// A built-in table.
fn table(name: &str) -> Table {
    tables().iter().find(|table| table.name == name).expect(name).clone()
}

#[test]
fn parameters_of_zn540_are_those_that_its_profile_names_as_calibrated() {
    let parameters = table("zn540").parameters.names;
    assert_eq!(crate::fit::Profile::calibrated_options("zn540"), parameters);
}

#[test]
fn published_write_amplification_is_that_of_the_closed_forms() {
    use zonal_device::ssd::closed_forms::{fifo, greedy};
    let alphas = [1.07, 1.125, 1.28, 1.5];
    let values = alphas.map(fifo).into_iter().chain(alphas.map(|alpha| greedy(alpha, 16)));
    let figures = table("flash").figures();
    assert_eq!(figures.len(), 8);
    for (value, figure) in values.zip(&figures) {
        assert_eq!(figure.text(), format!("{value:.3}"));
    }
}

/// A file of a table with one cell.
const FILE: &str = "about = 'mine'\nlayout = 'list'\ncompared = 'figures'\nclock = 'virtual'\n\
    repetitions = 2\npoints = '''\n\
    row,column,device,config,scheduler,zone_write,workload,metric,unit,published,use,jobs\n\
    a,,drive,old,fifo,qd1,writes,bandwidth,MB/s,9,calibration,--name=a --filename=null\n'''\n";

#[test]
fn file_of_a_table_is_read_and_a_scheduler_of_the_publication_alone_is_none_of_the_cell() {
    let table = tables::parse("mine", FILE).unwrap();
    assert_eq!((table.settings.rounds, table.settings.seconds), (2, None));
    let [cell] = &table.cells[..] else { panic!("one cell") };
    assert_eq!(cell.setup.jobs, ["--name=a", "--filename=null"]);
    assert_eq!((cell.setup.scheduler.as_str(), cell.figure_use), ("none", FigureUse::Calibration));
    let figure = cell.figure.as_ref().expect("it was published");
    assert_eq!(figure.fields[..5], ["mine", "drive", "old", "fifo", "writes"]);
    assert_eq!(figure.value(), Some(9.0));
    for (from, to, expected) in [
        (
            "layout = 'list'",
            "layout = 'lst'",
            "unknown variant `lst`, expected one of `grid`, `list`",
        ),
        ("about", "abuot", "unknown field `abuot`, expected one of `about`, `layout`"),
        ("'virtual'", "'real '", "clock: found `real `, expected real or virtual"),
        ("MB/s", "MB", "points: line 2: unit: found `MB`, expected MB/s, KIOPS, MIOPS, tps or WAF"),
        ("qd1", "qd2", "points: line 2: no policy is called `qd2`, expected plug, qd1"),
        (",use,", ",uses,", "unknown field `uses`, expected one of `row`, `column`"),
        ("calibration", "guess", "unknown variant `guess`, expected one of `prediction`"),
        ("=null", "='null", "points: line 2: jobs: unbalanced quotes"),
    ] {
        let error = tables::parse("mine", &FILE.replace(from, to)).unwrap_err();
        let error = format!("{error:#}");
        assert!(error.contains(expected), "{error}\nexpected {expected}");
    }
}

#[test]
fn names_of_tables_are_unique() {
    let names: Vec<&str> = tables().iter().map(|table| table.name.as_str()).collect();
    assert_eq!(names.iter().collect::<BTreeSet<_>>().len(), names.len());
}

#[test]
fn bases_have_the_unit_of_their_cells() {
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
fn jobs_of_all_cells_parse_and_name_known_devices() {
    for table in tables() {
        for (at, cell) in table.cells.iter().enumerate() {
            let jobs = jobfile::parse_args(&cell.setup.jobs, &SystemEnvironment).unwrap().jobs;
            assert!(!jobs.is_empty(), "{}", table.name_of(at));
            for job in jobs {
                let device = job.filename.as_deref().expect("each job names its device");
                zonal_backend::load(device).expect("the device is known");
            }
        }
    }
}

#[test]
fn row_and_column_identify_a_cell() {
    for table in tables().iter().filter(|table| table.layout != Layout::List) {
        for (at, cell) in table.cells.iter().enumerate() {
            assert_eq!(table.at(&cell.row, &cell.column), Some(at), "{}", table.name);
        }
    }
}

/// Rows `old` and `new`, the second compared with the first, and some columns. `config` and
/// `workload` of the published figures are the headings of row and column.
fn small(layout: Layout, comparability: Comparability, columns: &[&str]) -> Table {
    let cell = |config: &str, workload: &str, base: Option<usize>| Cell {
        row: config.to_owned(),
        column: workload.to_owned(),
        figure: Some(Figure {
            fields: [
                "small",
                "a, disk",
                config,
                "none",
                workload,
                "bandwidth",
                "MB/s",
                "withheld",
                "x",
            ]
            .map(str::to_owned),
        }),
        figure_use: FigureUse::Prediction,
        unit: Unit::MegabytesPerSecond,
        setup: Setup { scheduler: "none".to_owned(), zone_write: None, jobs: Vec::new() },
        bases: vec![base.map(|cell| Base { cell, times: 1.0 })],
    };
    let old = columns.iter().map(|column| cell("old", column, None));
    let new = columns.iter().enumerate().map(|(at, column)| cell("new", column, Some(at)));
    Table {
        name: "small".to_owned(),
        about: "made <up>".to_owned(),
        source: None,
        layout,
        axis: "depth".to_owned(),
        comparability,
        settings: MeasureSettings::virtual_time(3, Some(3.0)),
        comparisons: vec![Comparison {
            heading: "against old".to_owned(),
            kind: PercentKind::Change,
        }],
        cells: old.chain(new).collect(),
        crossings: Crossings::default(),
        parameters: FreeParameters::default(),
        remarks: vec![
            Remark::Text("A remark.".to_owned()),
            Remark::Slower { slower: "new".to_owned() },
            Remark::Least { least: "new".to_owned() },
        ],
    }
}

/// [`small`] with published and measured figures, row by row. Of three measured rounds, the first is
/// one less and the last one more than the given figure.
fn measured(mut table: Table, published: &[&str], ours: &[f64]) -> MeasuredTable {
    for (cell, value) in table.cells.iter_mut().zip(published) {
        cell.figure.as_mut().expect("it has one").fields[7] = (*value).to_owned();
    }
    let figures = table.figures();
    let sample = |figure: f64| Sample { figure, latency: [1_000_000, 2_000_000, 50_000_000] };
    let rounds = |&own: &f64| Rounds([own - 1.0, own, own + 1.0].map(sample).to_vec());
    let settings = MeasureSettings { seed: 7, ..MeasureSettings::virtual_time(3, Some(3.0)) };
    let results = Results(ours.iter().map(rounds).collect());
    MeasuredTable { figures, results, table, settings, interrupted: None }
}

fn grid(comparability: Comparability) -> MeasuredTable {
    let table = small(Layout::Grid, comparability, &["read", "write"]);
    measured(table, &["100", "50.5", "110", "withheld"], &[200.0, 20.0, 150.0, 40.0])
}

/// Four steps; the second row's figures are near the media rate.
fn curves() -> MeasuredTable {
    let table = small(Layout::Curves, Comparability::Figures, &["1", "2", "4", "8"]);
    let published = ["100", "96", "withheld", "40", "100", "withheld", "withheld", "98"];
    let ours = [101.0, 90.0, 60.0, 44.0, 98.0, 98.0, 98.0, 98.0];
    measured(table, &published, &ours)
}

#[test]
fn grid_has_published_figures_above_measured_ones_and_marks_withheld_ones() {
    let expected = "\
small: made <up>
published: a, disk
zonal: virtual clock, 1000 ns of a thread an I/O, seed 7, median of 3 rounds of 1 s a cell
The published figures are a kernel's, on another machine, with its system calls; Zonal's are those
of one program. Compare the percentages only.

                   read              write
                   MB/s               MB/s
old  published      100               50.5
     zonal        200.0              20.00
     spread        1.0%              10.0%
new  published      110    +10.0% withheld
     zonal        150.0    -25.0%    40.00   +100.0%
     spread        1.3%               5.0%

Percentages: against old.
Each percentage is the median of what it was in each round. Spread: between the slowest and the
fastest round, in percent of the median.
withheld: a published figure that is kept back; ours is a prediction.
Absolute error, which is that of another machine: 3 cells, median 60.4%, 90th percentile 100.0%,
largest 100.0% (old read).
A remark.
Zonal: new is slower than old in read (-25.0%).
Published: new is at least as fast as old in every column.
Zonal: new reaches at least 75% of none (new).
";
    assert_eq!(text(&grid(Comparability::Ratios)), expected);
}

#[test]
fn grid_of_a_model_has_errors_behind_figures_that_are_not_withheld() {
    let text = text(&grid(Comparability::Figures));
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
    assert!(
        text.contains(
            "Predicted: 3 cells, median 60.4%, 90th percentile 100.0%, largest 100.0% (old"
        )
    );
}

#[test]
fn list_has_published_figures_beside_measured_ones() {
    let table = small(Layout::List, Comparability::Ratios, &["read", "write"]);
    let published = ["100", "50.5", "110", "withheld"];
    let text = text(&measured(table, &published, &[200.0, 20.0, 150.0, 40.0]));
    let lines: Vec<&str> = text.lines().skip(6).take(6).collect();
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
fn curves_are_lists_with_errors_and_interpolated_figures() {
    let text = text(&curves());
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
            "Predicted: 5 cells, median 2.0%, 90th percentile 10.0%, largest 10.0% (old, depth 8).",
            "Naive, from the neighbouring known row or by interpolation: 5 cells, median 16.7%, 90th percentile",
            "145.0%, largest 145.0% (old, depth 8).",
            "Of those that are more than 5% below the fastest published bandwidth, or no bandwidth: 1 cell,",
            "median 10.0%, 90th percentile 10.0%, largest 10.0% (old, depth 8).",
            "Naive, from the neighbouring known row or by interpolation: 1 cell, median 145.0%, 90th percentile",
            "145.0%, largest 145.0% (old, depth 8).",
            "A remark.",
            "Zonal: new is slower than old in 1 (-3.0%).",
            "Published: new is at least as fast as old in every column.",
            "Zonal: new reaches at least 97% of none (new).",
        ]
    );
}

#[test]
fn withheld_figures_are_counted_and_have_no_error() {
    let measured = curves();
    let accuracy = Accuracy::of(&measured);
    assert_eq!(accuracy.withheld, 3);
    assert_eq!(accuracy.predicted.as_ref().map(|both| both.own.count), Some(5));
    assert_eq!((measured.error(2), measured.value(2)), (None, None));
    assert_eq!(interpolate(&measured, 0), None, "nothing to the left of it");
    let nothing = small(Layout::Grid, Comparability::Figures, &["read"]);
    let nothing = super::tests::measured(nothing, &["withheld", "withheld"], &[1.5, 2.5]);
    let accuracy = Accuracy::of(&nothing);
    assert_eq!((accuracy.predicted, accuracy.nontrivial, accuracy.withheld), (None, None, 2));
}

#[test]
fn figures_used_for_a_model_are_marked_and_are_no_predictions() {
    let mut used = curves();
    used.table.cells[3].figure_use = FigureUse::Calibration;
    used.table.cells[1].figure_use = FigureUse::Identity;
    let (names, inert) = (["a", "b"].map(str::to_owned).to_vec(), vec!["b".to_owned()]);
    used.table.parameters = FreeParameters { names, inert };
    let accuracy = Accuracy::of(&used);
    let predicted = accuracy.predicted.expect("three are left");
    assert_eq!((predicted.own.count, predicted.own.largest.round()), (3, 2.0));
    assert_eq!(accuracy.calibrated.map(|errors| errors.largest.round()), Some(10.0));
    assert_eq!((accuracy.identities, accuracy.nontrivial), (vec![1], None));
    let text = text(&used);
    for expected in [
        "         8       40 c  44.00  +10.0%",
        "         2       96 i  90.00   -6.2%",
        "Used to calibrate the model (c), no predictions: 1 cell, median 10.0%",
        "A parameter was computed from these (i), which say nothing: old, depth 2.",
        "Free parameters: 2 (a, b). Ten per cent more or less of b change no figure here by one per cent.",
    ] {
        assert!(text.contains(expected), "{expected}: {text}");
    }
    assert!(csv_lines(&used).contains(",40,x,44.00,10.0,calibration\n"));
}

#[test]
fn naive_figure_is_interpolated_or_that_of_the_neighbouring_row() {
    let curves = curves();
    assert_eq!(naive(&curves, 1), interpolate(&curves, 1));
    assert_eq!(naive(&curves, 0), Some(100.0), "of the other row");
    let grid = grid(Comparability::Figures);
    assert_eq!((naive(&grid, 0), naive(&grid, 3)), (Some(110.0), Some(50.5)));
    assert_eq!(naive(&grid, 1), None, "the other row's is withheld");
}

#[test]
fn a_table_without_spread_says_that_nothing_is_random() {
    let zero = "nothing in these cells is random";
    let mut same = curves();
    assert!(!text(&same).contains(zero));
    for rounds in &mut same.results.0 {
        rounds.0 = vec![rounds.0[1]; 3];
    }
    assert!(text(&same).contains(zero));
}

#[test]
fn overview_has_a_line_for_each_table() {
    let overview = overview(&[grid(Comparability::Ratios), curves(), curves()]);
    let lines: Vec<&str> = overview.lines().take(5).collect();
    assert_eq!(
        lines,
        [
            "table       predicted          error          naive  non-trivial         error           naive  calibrated  identities  withheld",
            "small               3  60.4%, 100.0%    9.5%, 10.0%                                                      0           0         1",
            "small               5    2.0%, 10.0%  16.7%, 145.0%            1  10.0%, 10.0%  145.0%, 145.0%           0           0         3",
            "small               5    2.0%, 10.0%  16.7%, 145.0%            1  10.0%, 10.0%  145.0%, 145.0%           0           0         3",
            "all models         10    2.0%, 10.0%  16.7%, 145.0%            2  10.0%, 10.0%  145.0%, 145.0%",
        ]
    );
    assert!(overview.ends_with("Errors of tables on null devices are those of another machine.\n"));
}

#[test]
fn csv_has_the_published_columns_and_the_measured_figures() {
    let expected = "\
table,device,config,scheduler,workload,metric,unit,value,source,zonal,error,use
small,\"a, disk\",old,none,read,bandwidth,MB/s,100,x,200.0,100.0,prediction
small,\"a, disk\",old,none,write,bandwidth,MB/s,50.5,x,20.00,-60.4,prediction
small,\"a, disk\",new,none,read,bandwidth,MB/s,110,x,150.0,36.4,prediction
small,\"a, disk\",new,none,write,bandwidth,MB/s,withheld,x,40.00,,prediction
";
    assert_eq!(csv_header() + &csv_lines(&grid(Comparability::Figures)), expected);
}

#[test]
fn json_has_settings_rounds_and_errors() {
    let read: serde_json::Value = serde_json::from_str(&json(&[curves()])).unwrap();
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
    assert_eq!(table["error"]["predicted"]["zonal"]["largest_at"], "old, depth 8");
    assert_eq!(table["error"]["nontrivial"]["naive"]["cells"], 1);
    assert_eq!(table["error"]["withheld"], 3);
}

/// The elements of a kind.
fn count(document: &roxmltree::Document<'_>, tag: &str) -> usize {
    document.descendants().filter(|node| node.tag_name().name() == tag).count()
}

#[test]
fn plots_have_units_a_legend_and_rings_for_published_figures() {
    let plots = plots(&curves()).unwrap();
    let names: Vec<&str> = plots.iter().map(|plot| plot.name.as_str()).collect();
    assert_eq!(names, ["small-throughput", "small-latency"]);
    let drawn: Vec<String> = plots.iter().map(|plot| plot.chart.draw().unwrap()).collect();
    let document = roxmltree::Document::parse(&drawn[0]).unwrap();
    let svg = "http://www.w3.org/2000/svg";
    let texts: Vec<&str> = document
        .descendants()
        .filter(|node| node.has_tag_name((svg, "text")))
        .filter_map(|node| node.text().map(str::trim))
        .collect();
    for expected in ["depth", "MB/s", "1", "8", "old", "new", "new, published"] {
        assert!(texts.contains(&expected), "{expected}: {texts:?}");
    }
    // A point per measured figure, two circles per ring, and those of the legend.
    assert_eq!(count(&document, "circle"), 8 + 2 * 5 + 2 * 2);
    let latency = &drawn[1];
    assert!(latency.contains("\nold, 99.9th\n") && latency.contains("\nms\n"), "{latency}");
    for svg in &drawn {
        assert!(svg.contains("currentColor") && !svg.contains("#010203"));
    }
}

#[test]
fn bars_show_figures_for_models_and_ratios_otherwise() {
    let names = |comparability| -> Vec<String> {
        plots(&grid(comparability)).unwrap().into_iter().map(|plot| plot.name).collect()
    };
    assert_eq!(names(Comparability::Ratios), ["small-change"]);
    assert_eq!(names(Comparability::Figures), ["small-bandwidth"]);
    let plots = plots(&grid(Comparability::Figures)).unwrap();
    let svg = plots[0].chart.draw().unwrap();
    let document = roxmltree::Document::parse(&svg).unwrap();
    // A bar per cell and row of the legend; published figures are rings.
    assert_eq!(count(&document, "rect"), 4 + 2);
    assert_eq!(count(&document, "circle"), 2 * 3 + 2 * 2);
}

#[test]
fn standalone_plots_set_their_own_colours() {
    let plots = plots(&curves()).unwrap();
    let file = plots[0].standalone().unwrap();
    assert_eq!(count(&roxmltree::Document::parse(&file).unwrap(), "style"), 1);
}

#[test]
fn page_is_well_formed_and_self_contained() {
    let page = html_page(&[grid(Comparability::Ratios), curves()]).unwrap();
    let options = roxmltree::ParsingOptions { allow_dtd: true, ..Default::default() };
    let document = roxmltree::Document::parse_with_options(&page, options).unwrap();
    assert_eq!(count(&document, "svg"), 3 * 2, "for wide and for narrow pages");
    assert_eq!(count(&document, "h2"), 2);
    // The overview, the tables, and the data of three plots, each with a row of headings.
    assert_eq!(count(&document, "tr"), 3 + 5 + 9 + (3 + 5 + 5));
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

/// A table of two cells that is quick to measure in virtual time, with writes that depend on the seed.
fn quick() -> (Table, MeasureSettings) {
    let mut table = small(Layout::Grid, Comparability::Figures, &["write"]);
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
    let settings = MeasureSettings { seed: 1, ..MeasureSettings::virtual_time(3, Some(0.03)) };
    (table, settings)
}

fn bench(workers: usize) -> Bench<'static> {
    Bench::new(Arc::default(), &()).with_workers(workers)
}

#[test]
fn cells_measured_in_parallel_give_the_results_of_serial_measurement() {
    let measure = |workers, seed| {
        let (table, settings) = quick();
        bench(workers).measure(table, MeasureSettings { seed, ..settings }).unwrap().results
    };
    let (serial, parallel) = (measure(1, 1), measure(4, 1));
    assert_eq!(serial, parallel);
    assert_eq!(serial.0.iter().map(|rounds| rounds.0.len()).collect::<Vec<_>>(), [3, 3]);
    assert!(serial.0[0].spread() > 0.0, "each round has its own seed");
    assert!(serial.figure(1) > serial.figure(0));
    // One in flight for 50 to 80 us, plus what an I/O costs its thread.
    let latency = serial.0[0].latency(0);
    assert!((50_000.0..81_000.0).contains(&latency), "{latency}");
    assert_ne!(serial, measure(2, 99));
}

/// Interrupts after some steps.
struct StopAfter {
    stop: Arc<AtomicBool>,
    left: AtomicUsize,
}

impl StepProgress for StopAfter {
    fn start(&self, _title: &str, _total: u64) {}
    fn message(&self, _text: &str) {}
    fn advance(&self, _steps: u64) {
        if self.left.fetch_sub(1, Ordering::Relaxed) == 1 {
            self.stop.store(true, Ordering::Relaxed);
        }
    }
    fn finish(&self) {}
}

#[test]
fn interrupted_table_has_the_cells_that_were_measured_and_says_so() {
    for clock in [ClockKind::Virtual, ClockKind::Real] {
        for (steps, cells) in [(1, 1), (3, 2)] {
            let (table, settings) = quick();
            let stop = Arc::new(AtomicBool::new(false));
            let progress = StopAfter { stop: Arc::clone(&stop), left: AtomicUsize::new(steps) };
            let mut bench = Bench::new(stop, &progress).with_workers(1);
            let measured = bench.measure(table, MeasureSettings { clock, ..settings }).unwrap();
            assert_eq!((measured.table.cells.len(), measured.interrupted), (cells, Some(2)));
            let note = format!("\ninterrupted: {cells} of 2 cells were measured");
            assert!(text(&measured).contains(&note), "{}", text(&measured));
            assert!(json(&[measured]).contains("\"interrupted\": true"));
        }
    }
}

#[test]
fn table_interrupted_before_its_first_cell_has_no_figures() {
    let (table, settings) = quick();
    let stopped = Arc::new(AtomicBool::new(true));
    let measured = Bench::new(stopped, &()).measure(table, settings).unwrap();
    assert!(
        text(&measured)
            .ends_with("\n\ninterrupted: 0 of 2 cells were measured, perhaps in fewer rounds.\n")
    );
    html_page(&[measured]).unwrap();
}

#[test]
fn bases_of_cells_that_are_left_out_are_left_out() {
    let table = small(Layout::Grid, Comparability::Ratios, &["read", "write"]);
    let table = table.with_cells(|at| at != 0);
    let bases: Vec<_> = table.cells.iter().map(|cell| cell.bases[0].map(|b| b.cell)).collect();
    assert_eq!(bases, [None, None, Some(0)]);
}

#[test]
fn error_names_the_cell_that_failed() {
    let (mut table, settings) = quick();
    table.cells[1].setup.jobs[1] = "--filename=no-such-device".to_owned();
    let error = format!("{:#}", bench(2).measure(table, settings).err().unwrap());
    assert!(error.starts_with("small: new write: "), "{error}");
    assert!(error.contains("no-such-device"), "{error}");
}
