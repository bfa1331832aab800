//! The state of the screen, and how keys change it.
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use serde_json::Value;
use std::collections::{BTreeMap, VecDeque};
use zonal_blk::sched::Scheduler;
use zonal_blk::{IoHistograms, ZoneWrite};
use zonal_serve::control::{MAX_CELLS, MapRange, View};

/// Rates that are remembered: more than a terminal has columns.
const HISTORY: usize = 512;

/// The device's rates a second, between two views.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Rates {
    /// Reads.
    pub reads: f64,
    /// Bytes that were read.
    pub read_bytes: f64,
    /// Writes.
    pub writes: f64,
    /// Bytes that were written.
    pub written_bytes: f64,
    /// Flushes, discards and zone management.
    pub others: f64,
    /// Requests that failed.
    pub failures: f64,
    /// The median of the time that reads and writes were with the device, in ns; 0 if there were none.
    pub p50: f64,
    /// The 99th percentile of that.
    pub p99: f64,
    /// Seeks of a disk's head.
    pub seeks: f64,
    /// The mean distance of a seek, where 1 is from edge to edge.
    pub seek_distance: f64,
}

impl Rates {
    fn between(before: &View, after: &View) -> Option<Self> {
        let seconds = after.at.checked_sub(before.at)?.as_secs_f64();
        let count = |of: &[(String, u64)], name: &str| {
            of.iter().find(|(known, _)| known == name).map_or(0, |&(_, count)| count)
        };
        let more = |of: fn(&View) -> &[(String, u64)], name| {
            count(of(after), name).saturating_sub(count(of(before), name)) as f64
        };
        let rate = |name| more(|view| &view.requests, name) / seconds;
        let seeks = more(|view| &view.counts, "seeks");
        let travel = |view: &View| view.head.map_or(0.0, |(_, travel)| travel);
        let times = times_between(&before.latency, &after.latency);
        (seconds > 0.0).then(|| Rates {
            reads: rate("reads"),
            read_bytes: rate("sectors_read") * 512.0,
            writes: rate("writes"),
            written_bytes: rate("sectors_written") * 512.0,
            others: rate("discards") + rate("flushes") + rate("zone_management"),
            failures: rate("failures"),
            p50: percentile(&times, 0.5),
            p99: percentile(&times, 0.99),
            seeks: seeks / seconds,
            seek_distance: (travel(after) - travel(before)) / seeks.max(1.0),
        })
    }
}

/// The counts between two histograms, by range.
fn times_between(before: &[(u8, u64)], after: &[(u8, u64)]) -> Vec<(u8, u64)> {
    let before: BTreeMap<u8, u64> = before.iter().copied().collect();
    let more = |&(range, count): &(u8, u64)| {
        (range, count.saturating_sub(before.get(&range).copied().unwrap_or(0)))
    };
    after.iter().map(more).filter(|&(_, count)| count > 0).collect()
}

/// A percentile in ns: the middle of its range. 0 of nothing.
fn percentile(times: &[(u8, u64)], part: f64) -> f64 {
    let total: u64 = times.iter().map(|&(_, count)| count).sum();
    let mut left = total as f64 * part;
    for &(range, count) in times {
        left -= count as f64;
        if left <= 0.0 {
            let start = |range: u8| IoHistograms::range_start(range.into()).0 as f64;
            return (start(range) + start(range.saturating_add(1))) / 2.0;
        }
    }
    0.0
}

/// A question to the user. The line at the bottom shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Prompt {
    /// One of several values of an attribute, by its number.
    Choose(&'static str, &'static [&'static str]),
    /// Whether a command is to be executed.
    Confirm(Vec<String>),
    /// The text of a fault rule.
    Fault(String),
}

/// The request of a key that the screen does not handle itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Nothing.
    None,
    /// The end of the view.
    Quit,
    /// The end of the program.
    Interrupt,
    /// A command for the server.
    Send(Vec<String>),
}

/// The state of the screen.
#[derive(Default)]
pub struct Screen {
    /// The device that is shown, counted from 1.
    pub device: usize,
    /// Whether colours tell conditions, and glyphs how full zones are.
    pub color: bool,
    /// The last view, with the part of the zones that it shows.
    pub view: Option<(MapRange, View)>,
    /// The view before, of a device that has done something since.
    previous: Option<View>,
    /// The last rates, the newest first.
    pub history: VecDeque<Rates>,
    /// Views are ignored.
    pub frozen: bool,
    /// All keys are listed in place of the zones.
    pub helps: bool,
    /// Plugs are listed by zone, not by waiting writes.
    pub by_zone: bool,
    /// The selected zone.
    pub selected: u32,
    /// The question.
    pub prompt: Option<Prompt>,
    /// The result of the last command.
    pub message: Option<String>,
    /// The columns and rows of the map.
    map: (u16, u16),
    /// Zones in a cell; `None` for as many as it takes to show all.
    per_cell: Option<u32>,
    first: u32,
}

impl Screen {
    /// A screen without a view.
    pub fn new(color: bool, device: usize) -> Self {
        Screen { color, device, ..Screen::default() }
    }

    /// Shows the next device, if there is one.
    fn next_device(&mut self) {
        let devices = self.view.as_ref().map_or(1, |(_, view)| view.devices);
        if devices > 1 {
            *self = Screen { map: self.map, ..Screen::new(self.color, self.device % devices + 1) };
        }
    }

    /// The rates between the last two views.
    pub fn rates(&self) -> Rates {
        self.history.front().copied().unwrap_or_default()
    }

    fn zones(&self) -> u32 {
        self.view.as_ref().map_or(0, |(_, view)| view.zones.zones)
    }

    fn cells(&self) -> u32 {
        (u32::from(self.map.0) * u32::from(self.map.1)).clamp(1, MAX_CELLS as u32)
    }

    fn per_cell(&self) -> u32 {
        self.per_cell.unwrap_or_else(|| self.zones().div_ceil(self.cells())).max(1)
    }

    /// The part of the zones that the map shows.
    pub fn range(&self) -> MapRange {
        MapRange { first: self.first, per_cell: self.per_cell(), cells: self.cells() as usize }
    }

    /// The map has this many columns and rows from now on.
    pub fn resize(&mut self, columns: u16, rows: u16) {
        self.map = (columns, rows);
        self.scroll();
    }

    /// Shows a view.
    pub fn update(&mut self, range: MapRange, view: View) {
        if self.frozen {
            return;
        }
        let rates = self.previous.as_ref().and_then(|previous| Rates::between(previous, &view));
        self.history.extend(rates);
        self.history.rotate_right(usize::from(rates.is_some()));
        self.history.truncate(HISTORY);
        self.previous = Some(view.clone());
        self.view = Some((range, view));
        self.scroll();
    }

    /// Shows what has become of a command.
    pub fn done(&mut self, result: Result<Value, String>) {
        self.message = Some(result.map_or_else(|error| error, |_| "done".to_owned()));
    }

    /// Acts on a key.
    pub fn key(&mut self, key: KeyEvent) -> Action {
        if key.modifiers.contains(KeyModifiers::CONTROL) && key.code == KeyCode::Char('c') {
            return Action::Interrupt;
        }
        match self.prompt.take() {
            Some(prompt) => self.answer(prompt, key.code),
            None => self.command(key.code),
        }
    }

    fn command(&mut self, key: KeyCode) -> Action {
        self.message = None;
        if std::mem::take(&mut self.helps) {
            return Action::None;
        }
        let (cell, row) = (i64::from(self.per_cell()), i64::from(self.map.0));
        let page = row * i64::from(self.map.1);
        match key {
            KeyCode::Char('q') | KeyCode::Esc => return Action::Quit,
            KeyCode::Char('?') => self.helps = true,
            KeyCode::Char('d') => self.next_device(),
            KeyCode::Char(' ') => self.frozen = !self.frozen,
            KeyCode::Char('p') => self.by_zone = !self.by_zone,
            KeyCode::Char('s') => self.prompt = Some(Prompt::Choose("scheduler", Scheduler::NAMES)),
            KeyCode::Char('w') => {
                self.prompt = Some(Prompt::Choose("zone_write", &ZoneWrite::NAMES))
            }
            KeyCode::Char('f') => self.prompt = Some(Prompt::Fault(String::new())),
            KeyCode::Char('c') => self.prompt = Some(Prompt::Confirm(words(&["fault", "clear"]))),
            KeyCode::Char('+') => self.zoom(self.per_cell().div_ceil(2)),
            KeyCode::Char('-') => self.zoom(self.per_cell().saturating_mul(2)),
            KeyCode::Left => self.step(-cell),
            KeyCode::Right => self.step(cell),
            KeyCode::Up => self.step(-cell * row),
            KeyCode::Down => self.step(cell * row),
            KeyCode::PageUp => self.step(-cell * page),
            KeyCode::PageDown => self.step(cell * page),
            KeyCode::Home => self.step(i64::MIN),
            KeyCode::End => self.step(i64::MAX),
            _ => {}
        }
        Action::None
    }

    /// Takes a key as an answer. One that is none of them ends the question.
    fn answer(&mut self, prompt: Prompt, key: KeyCode) -> Action {
        match (prompt, key) {
            (Prompt::Choose(name, values), KeyCode::Char(digit @ '1'..='9')) => {
                let value = values.get(digit as usize - '1' as usize);
                self.prompt = value.map(|value| Prompt::Confirm(words(&["set", name, value])));
            }
            (Prompt::Confirm(command), KeyCode::Char('y')) => return Action::Send(command),
            (Prompt::Fault(mut text), KeyCode::Char(c)) => {
                text.push(c);
                self.prompt = Some(Prompt::Fault(text));
            }
            (Prompt::Fault(mut text), KeyCode::Backspace) => {
                text.pop();
                self.prompt = Some(Prompt::Fault(text));
            }
            (Prompt::Fault(text), KeyCode::Enter) if !text.is_empty() => {
                return Action::Send(words(&["fault", "add", &text]));
            }
            _ => {}
        }
        Action::None
    }

    fn zoom(&mut self, per_cell: u32) {
        self.per_cell = Some(per_cell.clamp(1, self.zones().max(1)));
        self.scroll();
    }

    fn step(&mut self, zones: i64) {
        let last = i64::from(self.zones().saturating_sub(1));
        self.selected = i64::from(self.selected).saturating_add(zones).clamp(0, last) as u32;
        self.scroll();
    }

    /// Scrolls by whole rows, so that the selected zone is in the map.
    fn scroll(&mut self) {
        let row = u64::from(self.per_cell()) * u64::from(self.map.0.max(1));
        let rows = u64::from(self.map.1.max(1));
        let (first, selected) = (u64::from(self.first) / row, u64::from(self.selected) / row);
        let last = (u64::from(self.zones().saturating_sub(1)) / row).saturating_sub(rows - 1);
        let first = first.clamp(selected.saturating_sub(rows - 1), selected).min(last);
        self.first = (first * row).min(u32::MAX.into()) as u32;
    }
}

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|&word| word.to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;
    use zonal_serve::control::ZoneMap;

    fn view(millis: u64, writes: u64) -> View {
        let requests = [("writes", writes), ("sectors_written", writes * 8), ("failures", 0)];
        View {
            at: Duration::from_millis(millis),
            requests: requests.map(|(name, count)| (name.to_owned(), count)).to_vec(),
            zones: ZoneMap { zones: 1000, ..ZoneMap::default() },
            ..View::default()
        }
    }

    fn screen() -> Screen {
        let mut screen = Screen::new(false, 1);
        screen.resize(10, 5);
        screen.update(screen.range(), view(0, 0));
        screen
    }

    fn press(screen: &mut Screen, keys: &str) -> Action {
        let code = |key| match key {
            '<' => KeyCode::Home,
            '>' => KeyCode::End,
            '\n' => KeyCode::Enter,
            key => KeyCode::Char(key),
        };
        keys.chars().map(|key| screen.key(code(key).into())).last().unwrap_or(Action::None)
    }

    #[test]
    fn rates_are_of_the_time_between_two_views() {
        let mut screen = screen();
        screen.update(screen.range(), view(500, 100));
        screen.update(screen.range(), view(1500, 700));
        let rates = |of: Rates| (of.writes, of.written_bytes, of.reads);
        assert_eq!(rates(screen.rates()), (600.0, 600.0 * 4096.0, 0.0));
        assert_eq!(screen.history.len(), 2);
        press(&mut screen, " ");
        screen.update(screen.range(), view(2500, 900));
        assert_eq!(screen.history.len(), 2, "frozen");
    }

    #[test]
    fn percentiles_and_seeks_are_of_the_time_between_two_views() {
        let mut screen = screen();
        let with = |millis, latency: &[(u8, u64)], seeks, travel| View {
            latency: latency.to_vec(),
            counts: vec![("seeks".to_owned(), seeks)],
            head: Some((0.5, travel)),
            ..view(millis, 0)
        };
        screen.update(screen.range(), with(1000, &[(0, 500)], 10, 4.0));
        screen.update(screen.range(), with(3000, &[(0, 500), (8, 98), (16, 2)], 50, 14.0));
        let Rates { p50, p99, seeks, seek_distance, .. } = screen.rates();
        // 1024 ns begin a range that ends at 1280, 4096 one that ends at 5120.
        assert_eq!((p50, p99), (1152.0, 4608.0));
        assert_eq!((seeks, seek_distance), (20.0, 0.25));
        assert_eq!(percentile(&[], 0.5), 0.0);
    }

    #[test]
    fn another_device_begins_anew() {
        let mut screen = screen();
        press(&mut screen, "d");
        assert_eq!(screen.device, 1, "there is one");
        screen.update(screen.range(), View { devices: 2, ..view(500, 100) });
        press(&mut screen, "d");
        assert_eq!((screen.device, screen.view.is_some(), screen.history.len()), (2, false, 0));
        screen.update(screen.range(), View { devices: 2, ..view(500, 100) });
        press(&mut screen, "d");
        assert_eq!(screen.device, 1);
    }

    #[test]
    fn the_map_shows_all_zones_until_it_is_enlarged_and_then_the_selected_one() {
        let mut screen = screen();
        assert_eq!(screen.range(), MapRange { first: 0, per_cell: 20, cells: 50 });
        press(&mut screen, "+++++>");
        assert_eq!(screen.selected, 999);
        assert_eq!(screen.range(), MapRange { first: 950, per_cell: 1, cells: 50 });
        screen.key(KeyCode::Up.into());
        assert_eq!((screen.selected, screen.range().first), (989, 950));
        screen.key(KeyCode::PageUp.into());
        assert_eq!((screen.selected, screen.range().first), (939, 930));
        press(&mut screen, "<");
        assert_eq!((screen.selected, screen.range().first), (0, 0));
        press(&mut screen, "-----------");
        assert_eq!(screen.range().per_cell, 1000);
    }

    #[test]
    fn changes_are_sent_after_a_confirmation_only() {
        let mut screen = screen();
        assert_eq!(press(&mut screen, "s2n"), Action::None);
        let set = words(&["set", "scheduler", "mq-deadline"]);
        assert_eq!(press(&mut screen, "s2y"), Action::Send(set));
        assert_eq!(press(&mut screen, "s9y"), Action::None);
        assert_eq!(press(&mut screen, "w2y"), Action::Send(words(&["set", "zone_write", "qd1"])));
        assert_eq!(press(&mut screen, "cy"), Action::Send(words(&["fault", "clear"])));
        let fault = words(&["fault", "add", "fail=read"]);
        assert_eq!(press(&mut screen, "ffail=read\n"), Action::Send(fault));
        assert_eq!(screen.prompt, None);
        assert_eq!(press(&mut screen, "q"), Action::Quit);
    }
}
