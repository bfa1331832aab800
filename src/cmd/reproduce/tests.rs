//! Tests of the descriptions of tables, and of what is printed from made-up results.
use super::measure::{Results, Rounds};
use super::published::{COLUMNS, Figure, Key, parse};
use super::table::{Base, Cell, Comparison, Layout, Setup, Style, Table, Unit};
use super::{csv, tables, text};

#[test]
fn tables_cover_their_published_figures_in_their_units() {
    for table in tables() {
        let figures = table.figures();
        assert!(!figures.is_empty(), "{}", table.name);
        for figure in &figures {
            let at = table.cell_of(figure);
            let cell = &table.cells[at.unwrap_or_else(|| panic!("{}: {figure:?}", table.name))];
            assert_eq!(cell.unit.name(), figure.fields[6]);
        }
        let published = table.cells.iter().filter(|cell| cell.published.is_some()).count();
        assert_eq!(published, figures.len(), "{}: a key that is no figure's", table.name);
    }
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

/// Two rows, of which the second is compared with the first, and two columns.
fn small(layout: Layout) -> Table {
    let cell = |config, workload, base| Cell {
        row: config,
        column: workload,
        published: Some(Key { config, scheduler: "none", workload }),
        unit: Unit::Kiops,
        setup: Setup { scheduler: "none", zone_write: None, jobs: Vec::new() },
        bases: vec![base],
    };
    let base = |cell| Some(Base { cell, times: 1.0 });
    Table {
        name: "small",
        about: "made up",
        layout,
        comparisons: &[Comparison { heading: "against old", style: Style::Change }],
        cells: vec![
            cell("old", "read", None),
            cell("old", "write", None),
            cell("new", "read", base(0)),
            cell("new", "write", base(1)),
        ],
        remarks: |_, results| vec![format!("The first is {}.", results.figure(0))],
    }
}

fn figures() -> Vec<Figure> {
    let text = [
        &COLUMNS.join(","),
        "small,\"a, disk\",old,none,read,iops,KIOPS,100,x",
        "small,\"a, disk\",old,none,write,iops,KIOPS,50.5,x",
        "small,\"a, disk\",new,none,read,iops,KIOPS,110,x",
        "small,\"a, disk\",new,none,write,iops,KIOPS,withheld,x",
    ];
    parse(&text.join("\n")).unwrap()
}

fn results() -> Results {
    let rounds = [vec![199.0, 200.0, 201.0], vec![2.0; 3], vec![150.0; 3], vec![4.0; 3]];
    Results(rounds.into_iter().map(Rounds).collect())
}

#[test]
fn grid_has_published_figures_above_ours_and_says_what_is_withheld() {
    let text = text::render(&small(Layout::Grid), &figures(), &results(), "by hand");
    let expected = "\
small: made up
published: a, disk
zonal: by hand

                   read              write
                  KIOPS              KIOPS
old  published      100               50.5
     zonal        200.0               2.00
     spread        1.0%               0.0%
new  published      110    +10.0% withheld
     zonal        150.0    -25.0%     4.00   +100.0%
     spread        0.0%               0.0%

Percentages: against old.
The published figures are a kernel's, on another machine: the percentages are what to compare; each
is the median of what it was in each round. Spread: between the slowest and the fastest round, in
percent of the median.
withheld: a published figure that is kept back; the figure below it is a prediction.
The first is 200.
";
    assert_eq!(text, expected);
}

#[test]
fn list_has_published_figures_beside_ours() {
    let text = text::render(&small(Layout::List), &figures(), &results(), "by hand");
    let lines: Vec<&str> = text.lines().skip(4).take(6).collect();
    assert_eq!(
        lines,
        [
            "     published  against old  zonal  against old  spread",
            "         KIOPS               KIOPS",
            "old        100               200.0                 1.0%",
            "old       50.5                2.00                 0.0%",
            "new        110       +10.0%  150.0       -25.0%    0.0%",
            "new   withheld                4.00      +100.0%    0.0%",
        ]
    );
}

#[test]
fn csv_has_the_published_columns_and_ours() {
    let expected = "\
table,device,config,scheduler,workload,metric,unit,value,source,zonal,error
small,\"a, disk\",old,none,read,iops,KIOPS,100,x,200.0,100.0
small,\"a, disk\",old,none,write,iops,KIOPS,50.5,x,2.00,-96.0
small,\"a, disk\",new,none,read,iops,KIOPS,110,x,150.0,36.4
small,\"a, disk\",new,none,write,iops,KIOPS,withheld,x,4.00,
";
    assert_eq!(csv::render(&small(Layout::Grid), &figures(), &results()), expected);
}
