//! Charts as SVG, drawn by `plotters`.
//!
//! A chart is readable on light and on dark pages: series have colours that contrast with both, and
//! everything else has the colour of the surrounding text. Lines have their names at their ends where
//! there is room; the legend above the plot has the others. Each chart is drawn twice, for wide and for
//! narrow pages.
use crate::page;
use crate::table::Table;
use anyhow::{Context, Result, anyhow};
use plotters::coord::Shift;
use plotters::coord::ranged1d::{DefaultFormatting, KeyPointHint};
use plotters::coord::types::RangedCoordf64;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

const TITLE_HEIGHT: i32 = 30;
/// Height of a line of the legend, and least distance of names at the ends of lines.
const LINE_HEIGHT: i32 = 20;
/// Names at the ends of lines, at most, and their characters.
const NAMES: usize = 10;
const NAME_LENGTH: usize = 26;
/// Placeholder for the colour of the text; nothing else may have it.
const INK: RGBColor = RGBColor(1, 2, 3);
const INK_HEX: &str = "#010203";
/// Attributes that say what holds without them; a plot with many dots is half as long without.
const DEFAULTS: [&str; 2] = [" opacity=\"1\"", " stroke=\"none\" stroke-width=\"1\""];
/// Colours of series, each with a contrast of at least 3:1 with light and with dark pages.
const COLOURS: [RGBColor; 8] = [
    RGBColor(0x2B, 0x83, 0xC4),
    RGBColor(0xD0, 0x6A, 0x14),
    RGBColor(0x1F, 0x93, 0x68),
    RGBColor(0xA8, 0x5C, 0xB8),
    RGBColor(0x8A, 0x7A, 0x1E),
    RGBColor(0xC9, 0x4A, 0x5A),
    RGBColor(0x63, 0x74, 0xD6),
    RGBColor(0x7F, 0x7F, 0x7F),
];

/// How a chart is laid out. Lengths are pixels.
struct Layout {
    /// Of the whole chart.
    size: (u32, u32),
    /// Of the title, of the axes' descriptions and of all else.
    text: [u32; 3],
    /// Width of a character of a label, on average.
    character: i32,
    /// Width of the labels of the axis of values.
    y_labels: u32,
    /// Entries of the legend in a line.
    columns: usize,
    /// Labels of an axis of numbers, at most.
    numbers: usize,
    /// There is room for names at the ends of lines.
    has_names: bool,
}

/// For pages as wide as a computer's screen, and for files.
const WIDE: Layout = Layout {
    size: (760, 440),
    text: [20, 17, 16],
    character: 8,
    y_labels: 70,
    columns: 2,
    numbers: 10,
    has_names: true,
};
/// For a telephone.
const NARROW: Layout = Layout {
    size: (360, 340),
    text: [18, 16, 15],
    character: 7,
    y_labels: 60,
    columns: 1,
    numbers: 5,
    has_names: false,
};
/// The part of the distance between two groups that bars fill.
const GROUP: f64 = 0.8;

/// A chart.
pub struct Chart {
    /// The title, above the plot.
    pub title: String,
    /// The horizontal axis.
    pub x: Axis,
    /// The name of the values, with their unit.
    pub y_label: String,
    /// The scale of the values.
    pub scale: Scale,
    /// The series, in the order in which they are drawn.
    pub series: Vec<Series>,
}

/// A horizontal axis.
pub struct Axis {
    /// The quantity that it shows, with its unit if it has one.
    pub label: String,
    /// Names of steps at 0, 1 and so on; `None` for an axis of numbers.
    pub steps: Option<Vec<String>>,
    /// The scale of an axis of numbers.
    pub scale: Scale,
}

/// The scale of an axis of values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scale {
    /// From 0, or from the lowest value if that is negative.
    Linear,
    /// By powers of ten; values must be above 0.
    Logarithmic,
}

/// How a series is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Marks {
    /// A line.
    Line {
        /// With gaps.
        dashed: bool,
        /// With its points, unless it has gaps.
        points: bool,
    },
    /// Rings at the points.
    Rings,
    /// Small dots at the points, of which there may be many.
    Dots,
    /// Bars, beside those of other series.
    Bars,
    /// Rings where the bars of the same slot are.
    RingsOnBars,
    /// Error bars, each from one point to the next; not in the legend.
    Intervals,
}

/// Points that belong together.
pub struct Series {
    /// Its name in the legend.
    pub name: String,
    /// The index of its colour.
    pub colour: usize,
    /// The index of its bar in a group, and the number of bars.
    pub slot: (usize, usize),
    /// How it is drawn.
    pub marks: Marks,
    /// Position on the horizontal axis, and value.
    pub points: Vec<(f64, f64)>,
}

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
type Plane<'a, 'b> = ChartContext<'a, SVGBackend<'b>, Cartesian2d<Along, Along>>;

/// An axis whose labels and lines are at its ticks.
struct Along {
    places: RangedCoordf64,
    ticks: Vec<f64>,
}

impl Ranged for Along {
    type FormatOption = DefaultFormatting;
    type ValueType = f64;

    fn map(&self, value: &f64, limit: (i32, i32)) -> i32 {
        self.places.map(value, limit)
    }

    fn key_points<Hint: KeyPointHint>(&self, _: Hint) -> Vec<f64> {
        self.ticks.clone()
    }

    fn range(&self) -> std::ops::Range<f64> {
        self.places.range()
    }
}

/// A chart with a name.
pub struct Plot {
    /// Its name, unique among the plots of all tables: a file name without its extension.
    pub name: String,
    /// The chart.
    pub chart: Chart,
}

impl Plot {
    /// The SVG as a file of its own, with colours for light and dark backgrounds.
    ///
    /// # Errors
    /// It cannot be drawn.
    pub fn standalone(&self) -> Result<String> {
        let svg = self.chart.draw().with_context(|| format!("plot {}", self.name))?;
        let style = "<style>svg{color:#222;background:#fff}\
                     @media(prefers-color-scheme:dark){svg{color:#ddd;background:#161616}}</style>\n";
        Ok(svg.replacen(">\n", &format!(">\n{style}"), 1))
    }
}

/// Errors of `plotters` refer to the drawing area.
fn failed(error: impl std::fmt::Display) -> anyhow::Error {
    anyhow!("{error}")
}

/// A number with four digits.
fn exact(value: f64) -> String {
    let decimals = (3.0 - value.abs().max(1e-9).log10().floor()).clamp(0.0, 6.0);
    format!("{value:.*}", decimals as usize)
}

fn text(size: u32) -> TextStyle<'static> {
    ("sans-serif", size).into_font().color(&INK)
}

/// Rows of the table after a chart.
const MAX_ROWS: usize = 200;

impl Chart {
    /// The figures of a model against the measured ones, by kind; `None` without any.
    pub fn scatter<'a>(
        title: &str,
        unit: &str,
        kinds: impl IntoIterator<Item = (&'a str, Vec<(f64, f64)>)>,
    ) -> Option<Self> {
        let mut series = Vec::new();
        for (colour, (kind, points)) in kinds.into_iter().enumerate() {
            let (name, slot, marks) = (kind.to_owned(), (0, 1), Marks::Dots);
            series.push(Series { name, colour, slot, marks, points });
        }
        series.retain(|series| !series.points.is_empty());
        let all = || series.iter().flat_map(|series| &series.points).flat_map(|&(x, y)| [x, y]);
        let (low, high) = (all().reduce(f64::min)?, all().reduce(f64::max)?);
        series.push(Series {
            name: "model = measured".to_owned(),
            colour: COLOURS.len() - 1,
            slot: (0, 1),
            marks: Marks::Line { dashed: true, points: false },
            points: vec![(low, low), (high, high)],
        });
        Some(Chart {
            title: title.to_owned(),
            x: Axis { label: format!("measured, {unit}"), steps: None, scale: Scale::Logarithmic },
            y_label: format!("model, {unit}"),
            scale: Scale::Logarithmic,
            series,
        })
    }

    /// Its data as a table: positions, and the value of each series there.
    pub fn data(&self) -> String {
        let series: Vec<&Series> = self.legend().collect();
        let mut places: Vec<f64> = series.iter().flat_map(|s| &s.points).map(|p| p.0).collect();
        places.sort_by(f64::total_cmp);
        places.dedup();
        let headings = series.iter().map(|series| format!("{}, {}", series.name, self.y_label));
        let headings = std::iter::once(self.x.label.clone()).chain(headings);
        let row = |&x: &f64| {
            let step = self.x.steps.as_ref().map(|_| self.x.show(x, 1));
            let value = |series: &&Series| {
                let here = series.points.iter().filter(|point| point.0.total_cmp(&x).is_eq());
                here.map(|&(_, y)| exact(y)).collect::<Vec<_>>().join(", ")
            };
            let first = step.unwrap_or_else(|| exact(x));
            std::iter::once(first).chain(series.iter().map(value)).collect()
        };
        let mut out = String::new();
        Table::new(headings, places.iter().take(MAX_ROWS).map(row)).html(&mut out, 1);
        if places.len() > MAX_ROWS {
            out += &format!("<p>and {} more</p>\n", places.len() - MAX_ROWS);
        }
        out
    }

    /// Appends it to a page, for wide and for narrow ones, with its data as a table after it.
    ///
    /// # Errors
    /// It cannot be drawn.
    pub fn html(&self, out: &mut String) -> Result<()> {
        let (wide, narrow) = (self.draw()?, self.draw_narrow()?);
        *out += &format!(
            "<figure class=\"chart\">\n<div class=\"wide\">\n{wide}</div>\n<div class=\"narrow\">\n{narrow}</div>\n"
        );
        page::end_figure(out, &self.data());
        Ok(())
    }

    /// Draws the chart as SVG, for wide pages.
    ///
    /// # Errors
    /// `plotters` cannot draw it.
    pub fn draw(&self) -> Result<String> {
        self.draw_as(&WIDE)
    }

    /// Draws the chart as SVG, for narrow pages.
    ///
    /// # Errors
    /// `plotters` cannot draw it.
    pub fn draw_narrow(&self) -> Result<String> {
        self.draw_as(&NARROW)
    }

    fn draw_as(&self, layout: &Layout) -> Result<String> {
        let mut svg = String::new();
        let named = self.named(layout);
        let keys: Vec<&Series> =
            self.legend().filter(|series| !(named && series.has_name())).collect();
        let lines = i32::try_from(keys.len().div_ceil(layout.columns))?;
        let head = TITLE_HEIGHT + lines * LINE_HEIGHT;
        // A long legend makes the chart higher.
        let (width, height) = layout.size;
        let size = (width, height.max(u32::try_from(head)? + height / 2));
        {
            let root = SVGBackend::with_string(&mut svg, size).into_drawing_area();
            let (above, below) = root.split_vertically(head);
            self.draw_head(&above, layout, &keys)?;
            self.draw_plot(&below, layout, named)?;
            root.present().map_err(failed)?;
        }
        Ok(DEFAULTS
            .iter()
            .fold(svg.replace(INK_HEX, "currentColor"), |svg, default| svg.replace(default, "")))
    }

    fn draw_head(&self, area: &Area<'_>, layout: &Layout, keys: &[&Series]) -> Result<()> {
        let [title, _, label] = layout.text;
        // A character is about half as wide as it is high.
        let fits = 2 * layout.size.0 / u32::try_from(self.title.chars().count().max(1))?;
        let centred = text(title.min(fits)).pos(Pos::new(HPos::Center, VPos::Center));
        let width = i32::try_from(layout.size.0)?;
        area.draw(&Text::new(self.title.clone(), (width / 2, TITLE_HEIGHT / 2), centred))
            .map_err(failed)?;
        let left = i32::try_from(layout.y_labels)?;
        let width = (width - left - 10) / i32::try_from(layout.columns)?;
        for (nr, series) in keys.iter().enumerate() {
            let (line, column) = (nr / layout.columns, nr % layout.columns);
            let x = left + i32::try_from(column)? * width;
            let y = TITLE_HEIGHT + i32::try_from(line)? * LINE_HEIGHT + LINE_HEIGHT / 2;
            series.draw_key(area, (x, y))?;
            let style = text(label).pos(Pos::new(HPos::Left, VPos::Center));
            area.draw(&Text::new(series.name.clone(), (x + 32, y), style)).map_err(failed)?;
        }
        Ok(())
    }

    /// Whether lines have their names at their ends: few short ones, at the right end of the plot.
    fn named(&self, layout: &Layout) -> bool {
        let lines: Vec<&Series> = self.series.iter().filter(|series| series.has_name()).collect();
        let end = |series: &Series| self.x.scale.place(series.points[series.points.len() - 1].0);
        let last = lines.iter().map(|line| end(line)).fold(f64::NEG_INFINITY, f64::max);
        let right = match &self.x.steps {
            Some(steps) => steps.len() as f64 - 1.0,
            None => self.across().end,
        };
        let fits = |line: &&Series| {
            line.name.chars().count() <= NAME_LENGTH && end(line).total_cmp(&last).is_eq()
        };
        layout.has_names
            && (1..=NAMES).contains(&lines.len())
            && last.total_cmp(&right).is_eq()
            && lines.iter().all(fits)
    }

    /// The names of lines at their ends, apart from one another: `ends` are where the lines end.
    fn draw_names(
        area: &Area<'_>,
        layout: &Layout,
        mut ends: Vec<(&Series, (i32, i32))>,
    ) -> Result<()> {
        ends.sort_by_key(|(_, (_, y))| *y);
        let places: Vec<i32> = ends.iter().map(|(_, (_, y))| *y).collect();
        let bottom = i32::try_from(area.dim_in_pixel().1)? - LINE_HEIGHT;
        for ((series, (x, _)), y) in ends.into_iter().zip(apart(&places, LINE_HEIGHT, bottom)) {
            let dash = [(x + 8, y), (x + 18, y)];
            area.draw(&PathElement::new(dash, series.colour().stroke_width(3))).map_err(failed)?;
            let style = text(layout.text[2]).pos(Pos::new(HPos::Left, VPos::Center));
            area.draw(&Text::new(series.name.clone(), (x + 22, y), style)).map_err(failed)?;
        }
        Ok(())
    }

    /// The series that the legend names.
    fn legend(&self) -> impl Iterator<Item = &Series> {
        self.series.iter().filter(|series| series.marks != Marks::Intervals)
    }

    fn draw_plot(&self, area: &Area<'_>, layout: &Layout, named: bool) -> Result<()> {
        let (low, high) = self.range();
        let [_, description, label] = layout.text;
        let names = self.series.iter().filter(|series| named && series.has_name());
        let longest = names.clone().map(|series| series.name.chars().count()).max();
        let room = longest.map_or(0, |longest| 24 + longest as i32 * layout.character);
        let width = i32::try_from(layout.size.0 - layout.y_labels)? - 28 - room;
        let mut chart = ChartBuilder::on(area)
            .margin_left(8)
            .margin_right(20 + room)
            .margin_top(8)
            .x_label_area_size(46)
            .y_label_area_size(layout.y_labels)
            .build_cartesian_2d(
                Along {
                    ticks: self.x.ticks(self.across(), layout.numbers),
                    places: self.across().into(),
                },
                Along {
                    ticks: self.scale.ticks(low, high, layout.numbers),
                    places: (low..high).into(),
                },
            )
            .map_err(failed)?;
        let every = self.x.labelled(width, layout.character);
        chart
            .configure_mesh()
            .disable_x_mesh()
            .bold_line_style(INK.mix(0.25))
            .light_line_style(TRANSPARENT)
            .axis_style(INK)
            .x_label_formatter(&|x| self.x.show(*x, every))
            .y_label_formatter(&|y| self.scale.show(*y))
            .label_style(text(label))
            .axis_desc_style(text(description))
            .x_desc(self.x.label.clone())
            .y_desc(self.y_label.clone())
            .draw()
            .map_err(failed)?;
        for (at, series) in self.series.iter().enumerate() {
            let on_top = self.series[at + 1..].iter().filter(|later| later.coincides(series));
            self.draw_series(&mut chart, series, low, 2 + 4 * u32::try_from(on_top.count())?)?;
        }
        let (left, top) = area.get_base_pixel();
        let mut ends = Vec::new();
        for series in names {
            let (x, y) = series.points[series.points.len() - 1];
            let (x, y) = chart.backend_coord(&(self.x.scale.place(x), self.scale.place(y)));
            ends.push((series, (x - left, y - top)));
        }
        Self::draw_names(area, layout, ends)
    }

    /// Draws one of the series; bars begin at `low`, and lines have a width, in pixels.
    fn draw_series(
        &self,
        chart: &mut Plane<'_, '_>,
        series: &Series,
        low: f64,
        width: u32,
    ) -> Result<()> {
        let own =
            |&(x, y): &(f64, f64)| (self.x.scale.place(x) + series.offset(), self.scale.place(y));
        let points: Vec<(f64, f64)> = series.points.iter().map(own).collect();
        let colour = series.colour();
        match series.marks {
            Marks::Intervals => {
                let bar =
                    |ends: &[(f64, f64)]| PathElement::new(ends.to_vec(), colour.stroke_width(1));
                chart.draw_series(points.chunks(2).map(bar)).map_err(failed)?;
                let cap = |&end| Circle::new(end, 2, colour.filled());
                chart.draw_series(points.iter().map(cap)).map_err(failed)?;
            }
            Marks::Line { dashed: false, points: dots } => {
                let line = LineSeries::new(points.clone(), colour.stroke_width(width));
                chart.draw_series(line).map_err(failed)?;
                let ring = |&point| Circle::new(point, 3, colour.stroke_width(2));
                let ends = points.iter().filter(|_| dots).map(ring);
                chart.draw_series(ends).map_err(failed)?;
            }
            Marks::Line { dashed: true, .. } => {
                let line = DashedLineSeries::new(points, 6, 4, colour.stroke_width(width));
                chart.draw_series(line).map_err(failed)?;
            }
            Marks::Rings | Marks::RingsOnBars => {
                let ring = |&point| Circle::new(point, 6, INK.stroke_width(2));
                chart.draw_series(points.iter().map(ring)).map_err(failed)?;
                let inside = |&point| Circle::new(point, 4, colour.filled());
                chart.draw_series(points.iter().map(inside)).map_err(failed)?;
            }
            Marks::Dots => {
                let dot = |&point| Circle::new(point, 3, colour.filled());
                chart.draw_series(points.iter().map(dot)).map_err(failed)?;
            }
            Marks::Bars => {
                let half = GROUP / series.slot.1 as f64 / 2.0;
                let bar =
                    |(x, y)| Rectangle::new([(x - half, low), (x + half, y)], colour.filled());
                chart.draw_series(points.into_iter().map(bar)).map_err(failed)?;
            }
        }
        Ok(())
    }

    /// The range of the horizontal axis: half a step beyond the steps, or that of the points.
    fn across(&self) -> std::ops::Range<f64> {
        if let Some(steps) = &self.x.steps {
            return -0.5..steps.len() as f64 - 0.5;
        }
        let points = self.series.iter().flat_map(|series| &series.points);
        let places = points.map(|&(x, _)| self.x.scale.place(x));
        let (low, high) = places
            .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), x| (low.min(x), high.max(x)));
        if low < high { low..high } else { 0.0..1.0 }
    }

    /// The lowest and the highest position on the axis of values.
    fn range(&self) -> (f64, f64) {
        let points = self.series.iter().flat_map(|series| &series.points);
        let places: Vec<f64> = points.map(|&(_, y)| self.scale.place(y)).collect();
        let high = places.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let low = places.iter().copied().fold(f64::INFINITY, f64::min);
        match self.scale {
            Scale::Linear if low < 0.0 && high > low => (low, high),
            Scale::Linear if high > 0.0 => (0.0, high * 1.08),
            Scale::Logarithmic if high.is_finite() => (low - 0.1, high + 0.1),
            Scale::Linear | Scale::Logarithmic => (0.0, 1.0),
        }
    }
}

impl Axis {
    /// The number of steps of which one is labelled, so that the labels have room in a width.
    fn labelled(&self, width: i32, character: i32) -> usize {
        let Some(steps) = &self.steps else { return 1 };
        let longest = steps.iter().map(|step| step.chars().count()).max().unwrap_or(0);
        let needed = (longest + 1) * steps.len() * character as usize;
        needed.div_ceil(width.max(1) as usize).max(1)
    }

    /// The positions that may have labels: all steps, or at most about this many round numbers.
    fn ticks(&self, range: std::ops::Range<f64>, most: usize) -> Vec<f64> {
        match &self.steps {
            Some(steps) => (0..steps.len()).map(|step| step as f64).collect(),
            None => self.scale.ticks(range.start, range.end, most),
        }
    }

    /// The label of a position; of steps, one in `every` has one.
    fn show(&self, x: f64, every: usize) -> String {
        let Some(steps) = &self.steps else { return self.scale.show(x) };
        let at = x.round();
        let is_step = (x - at).abs() < 1e-6 && at >= 0.0 && (at as usize).is_multiple_of(every);
        is_step.then(|| steps.get(at as usize)).flatten().cloned().unwrap_or_default()
    }
}

impl Scale {
    /// The position of a value on the axis.
    fn place(self, value: f64) -> f64 {
        match self {
            Scale::Linear => value,
            Scale::Logarithmic => value.max(f64::MIN_POSITIVE).log10(),
        }
    }

    /// The label of a position on the axis.
    fn show(self, place: f64) -> String {
        let value = match self {
            Scale::Linear => place,
            Scale::Logarithmic => 10_f64.powf(place),
        };
        // Four digits, without zeros at the end.
        let text = exact(value);
        match text.contains('.') {
            true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
            false => text,
        }
    }

    /// Positions of round values between two positions, about as many as `most`: 1, 2 and 5 times a power
    /// of ten, or powers of ten alone.
    fn ticks(self, low: f64, high: f64, most: usize) -> Vec<f64> {
        if self == Scale::Linear {
            return round_numbers(low, high, most);
        }
        let decades = low.floor() as i32..=high.ceil() as i32;
        let within = |place: &f64| (low..=high).contains(place);
        let of = |digits: &'static [f64]| -> Vec<f64> {
            let places = decades
                .clone()
                .flat_map(|power| digits.iter().map(move |digit| f64::from(power) + digit.log10()));
            places.filter(within).collect()
        };
        let (fine, coarse) = (of(&[1.0, 2.0, 5.0]), of(&[1.0]));
        match (fine.len(), coarse.len()) {
            (..=1, _) => {
                let values = round_numbers(10_f64.powf(low), 10_f64.powf(high), most);
                values.into_iter().map(|value| self.place(value)).filter(within).collect()
            }
            (count, _) if count <= most => fine,
            (_, count) => coarse.into_iter().step_by(count.div_ceil(most)).collect(),
        }
    }
}

/// Multiples of 1, 2 or 5 times a power of ten in a range, at most about `most`.
fn round_numbers(low: f64, high: f64, most: usize) -> Vec<f64> {
    let raw = (high - low) / most.max(1) as f64;
    let power = 10_f64.powf(raw.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0].map(|digit| digit * power).into_iter().find(|&it| it >= raw);
    let step = step.unwrap_or(raw);
    let first = (low / step).ceil() as i64;
    let last = (high / step).floor() as i64;
    (first..=last).map(|number| number as f64 * step).collect()
}

/// Places in order, moved to be at least `distance` apart, and as far up as it takes for the last to be
/// at `end` at most.
fn apart(places: &[i32], distance: i32, end: i32) -> Vec<i32> {
    let mut moved: Vec<i32> = Vec::with_capacity(places.len());
    for &place in places {
        moved.push(moved.last().map_or(place, |last| place.max(last + distance)));
    }
    let mut limit = end;
    for place in moved.iter_mut().rev() {
        *place = (*place).min(limit);
        limit = *place - distance;
    }
    moved
}

impl Series {
    /// Whether it is a line that can have its name at its end.
    fn has_name(&self) -> bool {
        matches!(self.marks, Marks::Line { points: true, .. }) && !self.points.is_empty()
    }

    /// Whether both are lines through the same points.
    fn coincides(&self, other: &Series) -> bool {
        let are_lines = [self, other].iter().all(|it| matches!(it.marks, Marks::Line { .. }));
        are_lines && self.points == other.points
    }

    fn colour(&self) -> RGBColor {
        COLOURS[self.colour % COLOURS.len()]
    }

    /// The offset from its steps at which it is drawn.
    fn offset(&self) -> f64 {
        match self.marks {
            Marks::Line { .. } | Marks::Rings | Marks::Dots | Marks::Intervals => 0.0,
            Marks::Bars | Marks::RingsOnBars => {
                let (slot, slots) = self.slot;
                ((slot as f64 + 0.5) / slots as f64 - 0.5) * GROUP
            }
        }
    }

    /// Draws its mark in the legend, to the right of `(x, y)`.
    fn draw_key(&self, area: &Area<'_>, (x, y): (i32, i32)) -> Result<()> {
        let colour = self.colour();
        let line = |from: i32, to: i32| {
            PathElement::new([(x + from, y), (x + to, y)], colour.stroke_width(2))
        };
        match self.marks {
            Marks::Intervals => Ok(()),
            Marks::Line { dashed: false, .. } => area.draw(&line(0, 24)),
            Marks::Line { dashed: true, .. } => area
                .draw(&line(0, 6))
                .and_then(|()| area.draw(&line(10, 16)))
                .and_then(|()| area.draw(&line(20, 24))),
            Marks::Bars => {
                area.draw(&Rectangle::new([(x + 6, y - 6), (x + 18, y + 6)], colour.filled()))
            }
            Marks::Dots => area.draw(&Circle::new((x + 12, y), 4, colour.filled())),
            Marks::Rings | Marks::RingsOnBars => area
                .draw(&Circle::new((x + 12, y), 6, INK.stroke_width(2)))
                .and_then(|()| area.draw(&Circle::new((x + 12, y), 4, colour.filled()))),
        }
        .map_err(failed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Relative luminance, as WCAG 2 defines it.
    fn luminance(RGBColor(r, g, b): RGBColor) -> f64 {
        let linear = |channel: u8| {
            let share = f64::from(channel) / 255.0;
            if share <= 0.04045 { share / 12.92 } else { ((share + 0.055) / 1.055).powf(2.4) }
        };
        0.2126 * linear(r) + 0.7152 * linear(g) + 0.0722 * linear(b)
    }

    #[test]
    fn colours_contrast_with_light_and_dark_pages() {
        let (light, dark) = (RGBColor(0xff, 0xff, 0xff), RGBColor(0x16, 0x16, 0x16));
        for colour in COLOURS {
            let own = luminance(colour);
            assert!((luminance(light) + 0.05) / (own + 0.05) >= 3.0, "{colour:?} on light");
            assert!((own + 0.05) / (luminance(dark) + 0.05) >= 3.0, "{colour:?} on dark");
        }
    }

    #[test]
    fn names_at_the_ends_of_lines_are_apart() {
        assert_eq!(apart(&[10, 12, 80], 20, 200), [10, 30, 80]);
        assert_eq!(apart(&[10, 190, 195], 20, 200), [10, 180, 200]);
        assert_eq!(apart(&[], 20, 200), [0; 0]);
    }

    #[test]
    fn lines_are_named_at_their_ends_if_all_end_at_the_right() {
        let line = |name: &str, last: f64| Series {
            name: name.to_owned(),
            colour: 0,
            slot: (0, 1),
            marks: Marks::Line { dashed: false, points: true },
            points: vec![(0.0, 1.0), (last, 2.0)],
        };
        let chart = |series| Chart {
            title: "title".to_owned(),
            x: Axis {
                label: "x".to_owned(),
                steps: Some(["one", "two", "three"].map(str::to_owned).to_vec()),
                scale: Scale::Linear,
            },
            y_label: "y".to_owned(),
            scale: Scale::Linear,
            series,
        };
        let both = chart(vec![line("short", 2.0), line("other", 2.0)]);
        assert!(both.named(&WIDE) && !both.named(&NARROW));
        assert!(!chart(vec![line("short", 2.0), line("other", 1.0)]).named(&WIDE));
        assert!(!chart(vec![line(&"long ".repeat(9), 2.0)]).named(&WIDE));
        for svg in [both.draw().unwrap(), both.draw_narrow().unwrap()] {
            assert_eq!(svg.matches("other").count(), 1, "{svg}");
        }
    }

    #[test]
    fn axes_have_round_numbers() {
        let shown = |scale: Scale, low: f64, high: f64, most| -> Vec<String> {
            let ticks = scale.ticks(scale.place(low), scale.place(high), most);
            ticks.into_iter().map(|tick| scale.show(tick)).collect()
        };
        let (linear, log) = (Scale::Linear, Scale::Logarithmic);
        assert_eq!(shown(linear, 0.0, 265.0, 10), ["0", "50", "100", "150", "200", "250"]);
        assert_eq!(shown(linear, 0.1, 0.42, 5), ["0.1", "0.2", "0.3", "0.4"]);
        assert_eq!(shown(linear, -3.0, 4.0, 5), ["-2", "0", "2", "4"]);
        assert_eq!(shown(log, 13.0, 480.0, 10), ["20", "50", "100", "200"]);
        assert_eq!(shown(log, 0.5, 2e6, 5), ["1", "100", "10000", "1000000"]);
        assert_eq!(shown(log, 210.0, 390.0, 5), ["250", "300", "350"]);
    }

    #[test]
    fn lines_through_the_same_points_are_all_seen() {
        let line = |name: &str, last: f64| Series {
            name: name.to_owned(),
            colour: 0,
            slot: (0, 1),
            marks: Marks::Line { dashed: false, points: true },
            points: vec![(0.0, 1.0), (1.0, last)],
        };
        let widths = |lasts: [f64; 3]| {
            let chart = Chart {
                title: "title".to_owned(),
                x: Axis { label: "x".to_owned(), steps: None, scale: Scale::Linear },
                y_label: "y".to_owned(),
                scale: Scale::Linear,
                series: lasts.map(|last| line("line", last)).into(),
            };
            let svg = chart.draw().expect("a chart");
            ["10", "6"].map(|width| svg.matches(&format!("stroke-width=\"{width}\"")).count())
        };
        assert_eq!(widths([2.0, 2.0, 2.0]), [1, 1]);
        assert_eq!(widths([2.0, 3.0, 2.0]), [0, 1]);
        assert_eq!(widths([2.0, 3.0, 4.0]), [0, 0]);
    }

    #[test]
    fn legend_of_many_series_leaves_room_for_the_plot() {
        let height = |series: usize| -> u32 {
            let kinds = (0..series).map(|_| ("kind", vec![(1.0, 2.0)]));
            let chart = Chart::scatter("iops", "1/s", kinds).expect("there are points");
            let svg = chart.draw().expect("a chart");
            let height = svg.split("height=\"").nth(1).and_then(|rest| rest.split('"').next());
            height.expect("the chart has one").parse().expect("a number")
        };
        assert_eq!([1, 16, 50, 99].map(height), [440, 440, 770, 1250]);
    }

    #[test]
    fn labels_of_steps_are_left_out_where_they_have_no_room() {
        let axis = Axis {
            label: String::new(),
            steps: Some((0..8).map(|step| format!("step {step}")).collect()),
            scale: Scale::Linear,
        };
        assert_eq!((axis.labelled(700, 8), axis.labelled(300, 7)), (1, 2));
        assert_eq!((axis.show(2.0, 2), axis.show(3.0, 2)), ("step 2".to_owned(), String::new()));
    }

    #[test]
    fn values_along_a_logarithmic_axis_are_shown_as_they_are() {
        let scale = Scale::Logarithmic;
        assert_eq!(scale.show(scale.place(1000.0)), "1000");
        assert_eq!(scale.show(scale.place(2.5)), "2.5");
        assert_eq!(scale.show(scale.place(0.04)), "0.04");
        assert_eq!(Scale::Linear.show(0.0), "0");
    }
}
