//! The page of a run of the crash lab: a timeline of the log, zones by time, and what failed.
//!
//! ```text
//!  overview   all events of the log in columns: which zones were written, flushes, cuts that failed
//!  detail     each command around the first failure, from its start to its end
//! ```
use crate::page::{self, escaped};
use crate::table::Table;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt::Write;
use zonal_blk::Op;
use zonal_crash::State;
use zonal_crash::check::{Report, Verdict};
use zonal_crash::log::{Command, Event, Log};

/// Columns of the overview.
const COLUMNS: u64 = 240;
/// Zones that have a row of their own; the others share the last one.
const ROWS: usize = 48;
/// Events of the detail before the loss of power, and after it.
const AROUND: (u64, u64) = (160, 40);
/// Rows of a table.
const LISTED: usize = 200;
/// Width of the plots, height of a row, and room for the names of the rows, in pixels.
const WIDTH: f64 = 960.0;
const ROW: f64 = 14.0;
const LEFT: f64 = 80.0;

const STYLE: &str = "<style>\n\
.write{fill:#2B83C4}.append{fill:#1F9368}.reset{fill:#D06A14}.finish{fill:#A85CB8}.other{fill:#7F7F7F}\n\
.flush{stroke:#8A7A1E;stroke-width:1.5}.mark{stroke:#6374D6;stroke-dasharray:3 2}\n\
.cut{stroke:#C94A5A;stroke-width:2}.row{stroke:#8884}\n\
text{fill:currentColor;font:11px system-ui,sans-serif}\n</style>\n";

/// The rows of a timeline.
struct Rows {
    zones: Vec<u32>,
    /// There are more zones, which share a row.
    more: bool,
}

impl Rows {
    fn of(zones: &BTreeSet<u32>) -> Self {
        Rows { zones: zones.iter().copied().take(ROWS).collect(), more: zones.len() > ROWS }
    }

    fn row(&self, zone: u32) -> usize {
        self.zones.binary_search(&zone).unwrap_or(self.zones.len())
    }

    fn height(&self) -> f64 {
        (self.zones.len() + usize::from(self.more)) as f64 * ROW
    }

    /// The start of the drawing, with the names of the rows.
    fn begin(&self, svg: &mut String) {
        let height = self.height() + 2.0 * ROW;
        let _ = writeln!(
            svg,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" role=\"img\" aria-label=\"Zones by time; the \
             table below has the data\" width=\"{WIDTH}\" height=\"{height}\" viewBox=\"0 0 {WIDTH} {height}\">"
        );
        let names = self.zones.iter().map(|zone| format!("zone {zone}"));
        let names = names.chain(self.more.then(|| "other zones".to_owned()));
        for (index, name) in names.enumerate() {
            let bottom = (index + 1) as f64 * ROW;
            let text = bottom - 3.0;
            let _ = writeln!(
                svg,
                "<text x=\"0\" y=\"{text}\">{name}</text>\
                 <path class=\"row\" d=\"M{LEFT} {bottom}H{WIDTH}\" />"
            );
        }
    }

    /// A bar in a zone's row, from `x` on.
    fn bar(&self, svg: &mut String, zone: u32, class: &str, (x, width): (f64, f64), title: &str) {
        let y = self.row(zone) as f64 * ROW + 2.0;
        let height = ROW - 4.0;
        let title = escaped(title);
        let _ = writeln!(
            svg,
            "<rect class=\"{class}\" x=\"{x:.1}\" y=\"{y}\" width=\"{:.1}\" height=\"{height}\">\
             <title>{title}</title></rect>",
            width.max(1.0)
        );
    }

    /// A line through all rows.
    fn line(&self, svg: &mut String, class: &str, x: f64, title: &str) {
        let title = escaped(title);
        let _ = writeln!(
            svg,
            "<path class=\"{class}\" d=\"M{x:.1} 0V{:.1}\"><title>{title}</title></path>",
            self.height() + ROW / 2.0
        );
    }

    fn end(&self, svg: &mut String, (first, last): (u64, u64)) {
        let y = self.height() + 1.6 * ROW;
        let _ = writeln!(
            svg,
            "<text x=\"{LEFT}\" y=\"{y}\">event {first}</text>\
             <text x=\"{WIDTH}\" y=\"{y}\" text-anchor=\"end\">event {last}</text></svg>"
        );
    }
}

/// How the bars of an operation look; `None` for one without.
fn class(op: Op) -> Option<&'static str> {
    match op {
        Op::Write | Op::WriteZeroes => Some("write"),
        Op::ZoneAppend => Some("append"),
        Op::ZoneReset | Op::Discard => Some("reset"),
        Op::ZoneFinish => Some("finish"),
        Op::ZoneOpen | Op::ZoneClose | Op::ZoneOpenZrwa | Op::ZrwaFlush => Some("other"),
        Op::Read | Op::Flush | Op::ZoneResetAll => None,
    }
}

/// The page of a run with these results. `name` is the log, `check` what judged the states.
pub fn render(log: &Log, name: &str, check: &str, report: &Report) -> String {
    let mut page = page::begin(&format!("Crash lab: {name}"));
    page.push_str(STYLE);
    summary(&mut page, log, check, report);
    let cut = |verdict: &Verdict| verdict.state.parse::<State>().ok().map(|state| state.cut);
    let failed: BTreeSet<u64> = report.failures().filter_map(cut).collect();
    overview(&mut page, log, &failed);
    let first = report.shrunk.as_ref().and_then(|(verdict, _)| cut(verdict));
    if let Some(first) = first.or(failed.first().copied()) {
        detail(&mut page, log, first);
    }
    if report.failures().next().is_some() {
        failures(&mut page, report);
    }
    page + page::END
}

fn summary(page: &mut String, log: &Log, check: &str, report: &Report) {
    let (states, failed) = (report.verdicts.len(), report.failures().count());
    let early = if report.interrupted { ", interrupted" } else { "" };
    let _ = writeln!(
        page,
        "<p>{}, {}. Checked with <code>{}</code>: {states} states checked, {failed} failed{early}.</p>",
        escaped(&log.header().device),
        escaped(&log.header().summary()),
        escaped(check)
    );
    let Some((first, lacks)) = &report.shrunk else { return };
    let why = first.failure.as_deref().unwrap_or_default();
    let _ = writeln!(
        page,
        "<h2>The first failure, with the fewest changes</h2>\n<p><code>--state {}</code>: {}</p>\n<ul>",
        first.state,
        escaped(why)
    );
    lacks.iter().for_each(|line| {
        let _ = writeln!(page, "<li>{}</li>", escaped(line));
    });
    let _ = writeln!(page, "</ul>\n<pre>{}</pre>", escaped(&first.output));
}

/// The contents of the overview's columns.
#[derive(Default)]
struct Column {
    /// By zone, the operation that is shown.
    zones: BTreeMap<u32, Op>,
    flushes: u64,
}

fn overview(page: &mut String, log: &Log, failed: &BTreeSet<u64>) {
    let events = log.events().count() as u64;
    let zone_size = log.header().geometry().zone_size.0;
    let width = events.div_ceil(COLUMNS).max(1);
    let mut columns: Vec<Column> = Vec::new();
    let (mut zones, mut marks) = (BTreeSet::new(), BTreeMap::new());
    let mut counts: BTreeMap<u32, [u64; CLASSES.len()]> = BTreeMap::new();
    for (number, event) in (0..).zip(log.events()) {
        let at = usize::try_from(number / width).expect("few columns");
        columns.resize_with(columns.len().max(at + 1), Column::default);
        match event {
            Event::Started { command, .. } if command.op == Op::Flush => columns[at].flushes += 1,
            Event::Started { command, .. } if class(command.op).is_some() => {
                let zone = zone_of(&command, zone_size);
                zones.insert(zone);
                count(counts.entry(zone).or_default(), command.op);
                let shown = columns[at].zones.entry(zone).or_insert(command.op);
                // Of several, a reset says most.
                if matches!(command.op, Op::ZoneReset | Op::ZoneFinish) {
                    *shown = command.op;
                }
            }
            Event::Mark(text) => {
                marks.entry(at).or_insert(text);
            }
            _ => {}
        }
    }
    let rows = Rows::of(&zones);
    let scale = (WIDTH - LEFT) / columns.len().max(1) as f64;
    let x = |column: usize| LEFT + column as f64 * scale;
    page.push_str("<h2>The log</h2>\n<figure>");
    rows.begin(page);
    for (at, column) in columns.iter().enumerate() {
        for (&zone, &op) in &column.zones {
            let title = format!("{op:?} in zone {zone}, from event {} on", at as u64 * width + 1);
            rows.bar(page, zone, class(op).unwrap_or("other"), (x(at), scale), &title);
        }
        if column.flushes > 0 {
            rows.line(page, "flush", x(at), &format!("{} flushes", column.flushes));
        }
    }
    for (at, text) in marks {
        rows.line(page, "mark", x(at), &text);
    }
    let columns_failed: BTreeSet<u64> = failed.iter().map(|cut| cut / width).collect();
    for at in columns_failed {
        let title = format!("states failed, from event {} on", at * width);
        rows.line(page, "cut", x(usize::try_from(at).expect("few columns")), &title);
    }
    rows.end(page, (1, events));
    page::end_figure(page, &commands_of_zones(&counts));
    legend(page);
}

/// How bars look, and what they are.
const CLASSES: [(&str, &str); 5] = [
    ("write", "write"),
    ("append", "append"),
    ("reset", "reset, discard"),
    ("finish", "finish"),
    ("other", "open, close"),
];

/// Counts a command by how its bar looks.
fn count(counts: &mut [u64; CLASSES.len()], op: Op) {
    let at = CLASSES.iter().position(|(known, _)| Some(*known) == class(op));
    at.into_iter().for_each(|at| counts[at] += 1);
}

/// The commands of each zone, as a table.
fn commands_of_zones(counts: &BTreeMap<u32, [u64; CLASSES.len()]>) -> String {
    let headings = std::iter::once("zone").chain(CLASSES.iter().map(|(_, name)| *name));
    let row = |(zone, counts): (&u32, &[u64; CLASSES.len()])| {
        std::iter::once(zone.to_string()).chain(counts.iter().map(u64::to_string)).collect()
    };
    let mut out = String::new();
    Table::new(headings, counts.iter().take(LISTED).map(row)).html(&mut out, 1);
    if counts.len() > LISTED {
        let _ = writeln!(out, "<p>and {} more</p>", counts.len() - LISTED);
    }
    out
}

fn legend(page: &mut String) {
    let lines =
        [("flush", "flush"), ("mark", "mark"), ("cut", "loss of power that fails the check")];
    page.push_str("<p>");
    for (class, name) in CLASSES {
        let _ = write!(
            page,
            "<svg width=\"14\" height=\"10\"><rect class=\"{class}\" width=\"12\" height=\"10\" /></svg>{name} "
        );
    }
    for (class, name) in lines {
        let _ = write!(
            page,
            "<svg width=\"14\" height=\"10\"><path class=\"{class}\" d=\"M6 0V10\" /></svg>{name} "
        );
    }
    page.push_str("</p>\n");
}

fn zone_of(command: &Command, zone_size: u64) -> u32 {
    u32::try_from(command.sector.0 / zone_size.max(1)).unwrap_or(u32::MAX)
}

/// A command of the detail: from the event of its start to that of its end.
struct Bar {
    zone: u32,
    op: Op,
    from: u64,
    to: Option<u64>,
    title: String,
}

fn detail(page: &mut String, log: &Log, cut: u64) {
    let (first, last) = (cut.saturating_sub(AROUND.0), cut + AROUND.1);
    let zone_size = log.header().geometry().zone_size.0;
    let mut bars: Vec<Bar> = Vec::new();
    // Commands in flight, and among the bars those that were in flight within the window.
    let mut open: HashMap<u64, Bar> = HashMap::new();
    let (mut lines, mut end) = (Vec::new(), first);
    for (number, event) in (1..=last).zip(log.events()) {
        end = number;
        match event {
            Event::Started { id, command } => {
                let title = format!(
                    "{id}: {:?} of {} sectors at {}",
                    command.op, command.nr_sectors, command.sector
                );
                let zone = zone_of(&command, zone_size);
                open.insert(id, Bar { zone, op: command.op, from: number, to: None, title });
            }
            Event::Ended { id, .. } => {
                if let Some(bar) = open.remove(&id).filter(|_| number >= first) {
                    bars.push(Bar { to: Some(number), ..bar });
                }
            }
            Event::Mark(text) if number >= first => lines.push(("mark", number, text)),
            Event::Mark(_) => {}
        }
    }
    let mut unfinished: Vec<Bar> = open.into_values().collect();
    unfinished.sort_by_key(|bar| bar.from);
    bars.extend(unfinished);
    let zones = bars.iter().filter(|bar| class(bar.op).is_some()).map(|bar| bar.zone);
    let rows = Rows::of(&zones.collect());
    let scale = (WIDTH - LEFT) / (end - first + 1) as f64;
    let x = |number: u64| LEFT + (number.max(first) - first) as f64 * scale;
    page.push_str("<h2>Around the first failure</h2>\n<figure>");
    rows.begin(page);
    for bar in &bars {
        let to = bar.to.unwrap_or(end + 1);
        match class(bar.op) {
            Some(class) => {
                rows.bar(page, bar.zone, class, (x(bar.from), x(to) - x(bar.from)), &bar.title);
            }
            // What a flush covers had ended when it began.
            None => lines.push(("flush", bar.from, bar.title.clone())),
        }
    }
    for (class, number, title) in &lines {
        rows.line(page, class, x(*number), title);
    }
    // Between the last event before it and the next one.
    rows.line(page, "cut", x(cut) + scale / 2.0, &format!("the power fails after event {cut}"));
    rows.end(page, (first.max(1), end));
    page::end_figure(page, &commands(&bars));
}

/// The commands around the first failure, as a table.
fn commands(bars: &[Bar]) -> String {
    let mut bars: Vec<&Bar> = bars.iter().collect();
    bars.sort_by_key(|bar| bar.from);
    let headings = ["started by event", "ended by event", "zone", "command"];
    let row = |bar: &&Bar| {
        let to = bar.to.map_or("not".to_owned(), |to| to.to_string());
        vec![bar.from.to_string(), to, bar.zone.to_string(), bar.title.clone()]
    };
    let mut out = String::new();
    Table::new(headings, bars.iter().map(row)).html(&mut out, 0);
    out
}

fn failures(page: &mut String, report: &Report) {
    page.push_str("<h2>States that failed</h2>\n");
    let row = |verdict: &Verdict| {
        vec![verdict.state.clone(), verdict.failure.clone().unwrap_or_default()]
    };
    Table::new(["state", "why"], report.failures().take(LISTED).map(row)).html(page, 2);
    let failed = report.failures().count();
    if failed > LISTED {
        let _ = writeln!(page, "<p>and {} more</p>", failed - LISTED);
    }
}
