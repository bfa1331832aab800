//! The screen as text: rates above, the map of zones, plugs and the device's counters below.
use super::screen::{Prompt, Rates, Screen};
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Borders, Paragraph, Sparkline};
use zonal_serve::control::{Cell, MapRange, Plug, View};

/// The line at the bottom, in 60 columns.
const KEYS: &str = "q quit, ? all keys, d device, space freeze, +- zoom";
/// All keys.
const HELP: [&str; 11] = [
    "q, Esc      leave",
    "d           the next device",
    "space       freeze the screen, and go on",
    "+ -         fewer or more zones in a cell",
    "arrows      select a zone; PgUp PgDn Home End",
    "p           waiting writes by zone, or the most first",
    "s           the scheduler",
    "w           the policy for writes to zones",
    "f           add a fault rule",
    "c           clear the fault rules",
    "any key     close this list",
];
/// Lines of plugs and counters, with the title.
const DETAILS: u16 = 6;
/// Columns of a rate beside its curve.
const RATE_WIDTH: u16 = 36;
/// Columns from which on the list of plugs has the merged writes, too.
const WIDE: u16 = 72;

/// Draws the screen, and tells it the size of its map.
pub fn draw(frame: &mut Frame<'_>, screen: &mut Screen) {
    let parts = [
        Constraint::Length(1),
        Constraint::Length(5),
        Constraint::Min(3),
        Constraint::Length(DETAILS),
        Constraint::Length(1),
    ];
    let [title, rates, map, details, bottom] = Layout::vertical(parts).areas(frame.area());
    let [map_title, map_cells, map_legend] =
        Layout::vertical([Constraint::Length(1), Constraint::Min(1), Constraint::Length(1)])
            .areas(map);
    screen.resize(map_cells.width, map_cells.height);
    frame.render_widget(Paragraph::new(question(screen)), bottom);
    let Some((range, view)) = &screen.view else {
        frame.render_widget(Paragraph::new("waiting for the device"), title);
        return;
    };
    let style = Style::new().add_modifier(Modifier::BOLD);
    let heading = Line::styled(fitted(heading(screen, view), title.width), style);
    frame.render_widget(Paragraph::new(heading), title);
    draw_rates(frame, rates, screen);
    if screen.helps {
        return frame.render_widget(Paragraph::new(HELP.map(Line::from).to_vec()), map);
    }
    frame.render_widget(Paragraph::new(zones_title(view)), map_title);
    frame.render_widget(Paragraph::new(map_lines(screen, *range, view, map_cells)), map_cells);
    frame.render_widget(Paragraph::new(legend(screen, *range, view)), map_legend);
    let is_wide = details.width >= WIDE;
    let columns = if is_wide { 40 } else { 26 };
    let [plugs, counters] =
        Layout::horizontal([Constraint::Length(columns), Constraint::Min(1)]).areas(details);
    draw_list(frame, plugs, &plugs_title(screen, view), plug_lines(screen, view, is_wide));
    draw_list(frame, counters, "device", device_lines(view, screen.rates()));
}

fn heading(screen: &Screen, view: &View) -> String {
    let attribute = |name: &str| {
        let found = view.attributes.iter().find(|(known, _)| known == name);
        found.map_or("", |(_, value)| value.as_str())
    };
    let frozen = if screen.frozen { "  FROZEN" } else { "" };
    let faults = match view.faults {
        0 => String::new(),
        1 => "  1 fault rule".to_owned(),
        count => format!("  {count} fault rules"),
    };
    let (scheduler, policy) = (attribute("scheduler"), attribute("zone_write"));
    format!("{scheduler}  zone_write {policy}{faults}{frozen}  {}", view.device)
}

/// One of the rates.
type Rate = fn(&Rates) -> f64;

fn draw_rates(frame: &mut Frame<'_>, area: Rect, screen: &Screen) {
    let now = screen.rates();
    let bandwidth = |bytes: f64| format!("{:.1} MiB/s", bytes / f64::from(1 << 20));
    let failures = format!("{:.0} failures/s", now.failures);
    let counts = [now.reads, now.writes, now.others];
    let [reads, writes, others] = in_one_unit(counts, &RATE_UNITS);
    let [p50, p99] = match now.p99 > 0.0 {
        true => in_one_unit([now.p50, now.p99], &TIME_UNITS),
        false => [(); 2].map(|()| "-".to_owned()),
    };
    let in_flight = screen.view.as_ref().map_or(0, |(_, view)| view.in_flight);
    let rows: [(&str, Rate, String, String); 5] = [
        ("reads", |rates| rates.reads, reads, bandwidth(now.read_bytes)),
        ("writes", |rates| rates.writes, writes, bandwidth(now.written_bytes)),
        ("others", |rates| rates.others, others, failures),
        ("p50", |rates| rates.p50, p50, format!("{in_flight} in flight")),
        ("p99", |rates| rates.p99, p99, String::new()),
    ];
    for (row, (name, rate, value, more)) in rows.into_iter().enumerate() {
        let line = Rect { y: area.y + row as u16, height: 1, ..area }.intersection(area);
        let [text, curve] =
            Layout::horizontal([Constraint::Length(RATE_WIDTH), Constraint::Min(0)]).areas(line);
        let text_of_row = format!("{name:7}{value:>12} {more:>15}");
        frame.render_widget(Paragraph::new(text_of_row), text);
        let values = screen.history.iter().take(curve.width.into()).map(|rates| rate(rates) as u64);
        let mut values: Vec<u64> = values.collect();
        values.reverse();
        frame.render_widget(Sparkline::default().data(values), curve);
    }
}

/// From which value on a unit is used, its size, its name and its decimals; the largest first.
type UnitOf = (f64, f64, &'static str, usize);

const RATE_UNITS: [UnitOf; 3] =
    [(999_500.0, 1e6, "M/s", 2), (9_999.5, 1e3, "k/s", 1), (0.0, 1.0, "/s", 0)];
const TIME_UNITS: [UnitOf; 4] =
    [(1e10, 1e9, " s", 1), (1e7, 1e6, " ms", 1), (1e4, 1e3, " us", 1), (0.0, 1.0, " ns", 0)];

/// The values of a column in one unit, that of the largest.
fn in_one_unit<const N: usize>(values: [f64; N], units: &[UnitOf]) -> [String; N] {
    let most = values.iter().copied().fold(0.0, f64::max);
    let fits = |unit: &&UnitOf| most >= unit.0;
    let &(_, size, name, decimals) = units.iter().find(fits).expect("the last unit begins at 0");
    values.map(|value| format!("{:.decimals$}{name}", value / size))
}

/// A rate with three digits.
fn short(rate: f64) -> String {
    let [text] = in_one_unit([rate], &RATE_UNITS);
    text
}

fn zones_title(view: &View) -> Line<'static> {
    let zones = &view.zones;
    let limit = |limit: u32| match limit {
        0 => "no limit".to_owned(),
        limit => limit.to_string(),
    };
    let text = match &zones.error {
        Some(error) => format!("zones: the device did not report them: {error}"),
        None => format!(
            "{} zones: open {} of {}, active {} of {}, full {}",
            zones.zones,
            zones.open,
            limit(zones.max_open),
            zones.active,
            limit(zones.max_active),
            zones.full,
        ),
    };
    Line::from(text)
}

/// The cells of the map in rows of the area's width.
fn map_lines(screen: &Screen, range: MapRange, view: &View, area: Rect) -> Vec<Line<'static>> {
    let cells: Vec<(char, u8)> =
        view.zones.conditions.chars().zip(view.zones.filled.iter().copied()).collect();
    let selected = screen.selected.checked_sub(range.first).map(|zone| zone / range.per_cell);
    let span = |(number, &(condition, filled)): (usize, &(char, u8))| {
        let (glyph, mut style) = match screen.color {
            true => (fill_glyph(condition, filled), Style::new().fg(color(condition))),
            false => (condition, Style::new()),
        };
        if selected.is_some_and(|selected| selected as usize == number) {
            style = style.add_modifier(Modifier::REVERSED);
        }
        Span::styled(glyph.to_string(), style)
    };
    let spans: Vec<Span<'static>> = cells.iter().enumerate().map(span).collect();
    spans.chunks(area.width.max(1).into()).map(|row| Line::from(row.to_vec())).collect()
}

/// How full a cell is; of a cell that cannot be written, its condition.
fn fill_glyph(condition: char, filled: u8) -> char {
    const EIGHTHS: [char; 9] = ['·', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    match condition {
        'x' | 'r' | '-' => condition,
        _ => EIGHTHS[usize::from(filled.min(100)).div_ceil(13).min(8)],
    }
}

fn color(condition: char) -> Color {
    match condition {
        'x' => Color::Red,
        'r' => Color::Magenta,
        'O' => Color::LightCyan,
        'o' => Color::Cyan,
        'c' => Color::Yellow,
        '#' => Color::Green,
        '+' => Color::Blue,
        '.' => Color::DarkGray,
        _ => Color::Reset,
    }
}

/// The conditions in the map, and what is selected.
fn legend(screen: &Screen, range: MapRange, view: &View) -> Line<'static> {
    let map = &view.zones;
    let last = |first: u32| first.saturating_add(range.per_cell - 1).min(map.zones.max(1) - 1);
    let start = screen.selected - screen.selected % range.per_cell;
    let which = match range.per_cell {
        1 => format!("zone {start}"),
        _ => format!("zones {start}-{}", last(start)),
    };
    let cell =
        start.checked_sub(range.first).map_or(usize::MAX, |zone| (zone / range.per_cell) as usize);
    let filled =
        map.filled.get(cell).map_or(String::new(), |filled| format!(" {filled} % written"));
    let mut spans = vec![Span::raw(format!("{which}{filled} "))];
    for (letter, name) in
        Cell::CONDITIONS.into_iter().filter(|&(letter, _)| map.conditions.contains(letter))
    {
        let (glyph, style) = match screen.color {
            true => ('■', Style::new().fg(color(letter))),
            false => (letter, Style::new()),
        };
        spans.push(Span::styled(format!(" {glyph}"), style));
        spans.push(Span::raw(format!(" {name}")));
    }
    Line::from(spans)
}

fn plugs_title(screen: &Screen, view: &View) -> String {
    let order = if screen.by_zone { "by zone" } else { "most first" };
    let plugs = if view.live_plugs == 1 { "plug" } else { "plugs" };
    format!("{} {plugs}, {order}", view.live_plugs)
}

/// The plugs in which writes wait.
fn plug_lines(screen: &Screen, view: &View, is_wide: bool) -> Vec<String> {
    let mut plugs: Vec<&Plug> = view.plugs.iter().collect();
    if screen.by_zone {
        plugs.sort_by_key(|plug| plug.zone);
    }
    let line = |plug: &&Plug| {
        let Plug { zone, waiting, merges } = plug;
        let merged = match merges {
            merges if is_wide && *merges > 0 => format!(" {merges:6} merged"),
            _ => String::new(),
        };
        format!("zone {zone:6} {waiting:5} wait{merged}")
    };
    match plugs.is_empty() {
        true => vec!["no write waits".to_owned()],
        false => plugs.iter().map(line).collect(),
    }
}

/// The inside of the device, then its counters; numbers that may be long come first.
fn device_lines(view: &View, now: Rates) -> Vec<String> {
    let head = view.head.map(|(radius, _)| {
        let (at, distance) = (radius * 100.0, now.seek_distance * 100.0);
        format!("head {at:.0} % in, seeks {} of {distance:.0} %", short(now.seeks))
    });
    let levels = view.levels.iter().map(|(name, value, of)| match name.strip_suffix(", bytes") {
        Some(name) => {
            let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
            format!("{name} {:.1} of {:.1} MiB", mib(*value), mib(*of))
        }
        None => {
            format!("{} {value} of {of}", name.replace("programming or erasing", "busy"))
        }
    });
    let counts = view.counts.iter().map(|(name, count)| format!("{count} {name}"));
    // A device that is not polled does not know how long it has been idle.
    let busy = view.busy.iter().filter(|(part, _)| part != "idle");
    let busy = busy.map(|(part, time)| format!("{part} {:.1} s", *time as f64 / 1e9));
    head.into_iter().chain(levels).chain(counts).chain(busy).collect()
}

/// A text, whose end is left out where it has no room.
fn fitted(text: String, width: u16) -> String {
    let width = usize::from(width);
    if text.chars().count() <= width {
        return text;
    }
    let kept = text.chars().take(width.saturating_sub(1));
    kept.chain(['…']).take(width).collect()
}

/// A list below a line with its title, in as many columns as fit.
fn draw_list(frame: &mut Frame<'_>, area: Rect, title: &str, lines: Vec<String>) {
    let block = Block::new().borders(Borders::TOP).title(title.to_owned());
    let inside = block.inner(area);
    frame.render_widget(block, area);
    let line = |text| Line::from(fitted(text, inside.width));
    let lines: Vec<Line<'static>> = lines.into_iter().map(line).collect();
    let width = lines.iter().map(Line::width).max().unwrap_or(1) as u16 + 2;
    let columns = lines.chunks(inside.height.max(1).into());
    for (column, lines) in (0..inside.width / width.min(inside.width).max(1)).zip(columns) {
        let part = Rect { x: inside.x + column * width, ..inside }.intersection(inside);
        frame.render_widget(Paragraph::new(lines.to_vec()), part);
    }
}

/// The question, or the result of the last command, or the keys.
fn question(screen: &Screen) -> String {
    match (&screen.prompt, &screen.message) {
        (Some(Prompt::Choose(name, values)), _) => {
            let choices = values.iter().zip(1..).map(|(value, key)| format!("  {key} {value}"));
            format!("{name}:{}", choices.collect::<String>())
        }
        (Some(Prompt::Confirm(command)), _) => format!("{}: y to confirm", command.join(" ")),
        (Some(Prompt::Fault(text)), _) => {
            format!("fault, such as fail=write,zone=3,count=2: {text}_")
        }
        (None, Some(message)) => message.clone(),
        (None, None) => KEYS.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;
    use ratatui::crossterm::event::KeyCode;
    use std::time::Duration;
    use zonal_serve::control::ZoneMap;

    fn view(at: u64) -> View {
        let named = |entries: &[(&str, u64)]| {
            entries.iter().map(|&(name, count)| (name.to_owned(), count)).collect::<Vec<_>>()
        };
        let attributes = [("scheduler", "none"), ("zone_write", "plug")];
        View {
            at: Duration::from_secs(at),
            device: "zns-1t".to_owned(),
            attributes: attributes
                .map(|(name, value)| (name.to_owned(), value.to_owned()))
                .to_vec(),
            zones: ZoneMap {
                zones: 12,
                max_open: 14,
                open: 2,
                active: 3,
                full: 1,
                conditions: "#oOc......rx".to_owned(),
                filled: vec![100, 50, 13, 1, 0, 0, 0, 0, 0, 0, 0, 0],
                ..ZoneMap::default()
            },
            requests: named(&[("writes", at * 12_345), ("sectors_written", at * 12_345 * 8)]),
            live_plugs: 2,
            plugs: vec![
                Plug { zone: 2, waiting: 31, merges: 7 },
                Plug { zone: 1, waiting: 3, merges: 0 },
            ],
            counts: named(&[("pages_programmed", 99), ("erases", 1)]),
            busy: named(&[("dies", 1_500_000)]),
            faults: 1,
            latency: vec![(20, at * 99), (40, at)],
            in_flight: 7,
            levels: vec![("write buffer, bytes".to_owned(), 1 << 20, 2 << 20)],
            head: Some((0.25, at as f64)),
            devices: 2,
        }
    }

    fn text(screen: &mut Screen, (columns, rows): (u16, u16)) -> Vec<String> {
        let mut terminal = Terminal::new(TestBackend::new(columns, rows)).expect("a terminal");
        for at in 0..2 {
            terminal.draw(|frame| draw(frame, screen)).expect("drawn");
            screen.update(screen.range(), view(at));
        }
        terminal.draw(|frame| draw(frame, screen)).expect("drawn");
        let buffer = terminal.backend().buffer();
        let line = |row: &[ratatui::buffer::Cell]| {
            row.iter().map(ratatui::buffer::Cell::symbol).collect::<String>().trim_end().to_owned()
        };
        buffer.content.chunks(columns.into()).map(line).collect()
    }

    #[test]
    fn everything_is_on_80_columns_without_colours() {
        let lines = text(&mut Screen::new(false, 1), (80, 24));
        let expected = [
            "none  zone_write plug  1 fault rule  zns-1t",
            "reads        0.0k/s       0.0 MiB/s",
            "writes      12.3k/s      48.2 MiB/s █",
            "others       0.0k/s    0 failures/s",
            "p50         9216 ns     7 in flight █",
            "p99         9216 ns                 █",
            "12 zones: open 2 of 14, active 3 of no limit, full 1",
            "#oOc......rx",
        ];
        for (row, expected) in expected.iter().enumerate() {
            assert_eq!(lines[row].trim_end(), *expected, "row {row} of {lines:#?}");
        }
        let legend = "zone 0 100 % written  x offline r read-only O explicit-open";
        assert!(lines[16].starts_with(legend), "{lines:#?}");
        assert!(lines[17].starts_with("2 plugs, most first"), "{lines:#?}");
        assert!(lines[17].contains("device"), "{lines:#?}");
        assert!(lines[18].starts_with("zone      2    31 wait      7 merged"), "{lines:#?}");
        assert!(lines[18].contains("head 25 % in, seeks 0/s of 100 %"), "{lines:#?}");
        assert!(lines[19].contains("write buffer 1.0 of 2.0 MiB"), "{lines:#?}");
        assert!(lines[20].contains("99 pages_programmed"), "{lines:#?}");
        assert!(lines[23].starts_with("q quit"), "{lines:#?}");
    }

    #[test]
    fn sixty_columns_have_everything_and_whole_words() {
        let mut screen = Screen::new(false, 1);
        let lines = text(&mut screen, (60, 24));
        assert_eq!(lines[23], KEYS);
        assert!(lines[18].starts_with("zone      2    31 wait  "), "{lines:#?}");
        assert!(lines[18].ends_with("head 25 % in, seeks 0/s of 100 %"), "{lines:#?}");
        assert!(!lines.iter().any(|line| line.contains("merged")), "{lines:#?}");
    }

    #[test]
    fn what_is_long_keeps_its_numbers_and_says_that_its_end_is_left_out() {
        let device = View {
            levels: vec![("dies programming or erasing".to_owned(), 31, 32)],
            counts: vec![("writes that found the buffer full".to_owned(), 1_234_567)],
            ..view(1)
        };
        let lines = device_lines(&device, Rates::default());
        assert_eq!(
            lines[1..3],
            ["dies busy 31 of 32", "1234567 writes that found the buffer full"]
        );
        assert_eq!(fitted(lines[2].clone(), 34), "1234567 writes that found the buf…");
        assert_eq!(["ab", "abc"].map(|text| fitted(text.to_owned(), 2)), ["ab", "a…"]);
        assert_eq!(fitted("abc".to_owned(), 0), "");
    }

    #[test]
    fn question_mark_lists_all_keys_until_the_next_key() {
        let mut screen = Screen::new(false, 1);
        screen.key(KeyCode::Char('?').into());
        let lines = text(&mut screen, (60, 24));
        for (row, expected) in HELP.iter().enumerate() {
            assert_eq!(lines[6 + row], *expected, "{lines:#?}");
        }
        screen.key(KeyCode::Char('q').into());
        let lines = text(&mut screen, (60, 24));
        assert!(lines[6].starts_with("12 zones: "), "{lines:#?}");
    }

    #[test]
    fn values_of_a_column_have_one_unit() {
        assert_eq!(
            in_one_unit([0.0, 123.0, 12_345.0], &RATE_UNITS),
            ["0.0k/s", "0.1k/s", "12.3k/s"]
        );
        assert_eq!(in_one_unit([5_000.0, 2e7], &TIME_UNITS), ["0.0 ms", "20.0 ms"]);
        assert_eq!(in_one_unit([0.0, 0.0], &TIME_UNITS), ["0 ns", "0 ns"]);
    }

    #[test]
    fn colours_leave_the_glyph_to_say_how_full_a_zone_is() {
        let lines = text(&mut Screen::new(true, 1), (100, 30));
        assert_eq!(lines[7], "█▄▁▁······rx", "{lines:#?}");
    }

    #[test]
    fn no_terminal_is_too_small() {
        for size in [(1, 1), (3, 24), (80, 4), (20, 10)] {
            text(&mut Screen::new(false, 1), size);
        }
    }
}
