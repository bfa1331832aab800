//! Charts as SVG, drawn by `plotters`.
//!
//! A chart is readable on light and on dark pages: series have colours that contrast with both, and
//! everything else has the colour of the surrounding text. The legend is above the plot.
use anyhow::{Result, anyhow};
use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

/// Size of the whole chart, in pixels.
const SIZE: (u32, u32) = (760, 440);
const TITLE_HEIGHT: i32 = 30;
/// Height of a line of the legend, and its number of entries.
const LEGEND_HEIGHT: i32 = 20;
const LEGEND_COLUMNS: usize = 2;
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
/// Labels of an axis of numbers, at most.
const NUMBERS: usize = 10;
/// The part of the distance between two groups that bars fill.
const GROUP: f64 = 0.8;

/// A chart.
pub struct Chart {
    /// The title, above the plot.
    pub title: String,
    /// The horizontal axis.
    pub x: Axis,
    /// What the values are, with their unit.
    pub y_label: String,
    /// The scale of the values.
    pub scale: Scale,
    /// What is drawn, in this order.
    pub series: Vec<Series>,
}

/// A horizontal axis.
pub struct Axis {
    /// What it shows, with its unit if it has one.
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

/// A chart as a file of its own, with colours for light and dark backgrounds.
pub fn standalone(svg: &str) -> String {
    let style = "<style>svg{color:#222;background:#fff}\
                 @media(prefers-color-scheme:dark){svg{color:#ddd;background:#161616}}</style>\n";
    match svg.split_once(">\n") {
        Some((tag, rest)) => format!("{tag}>\n{style}{rest}"),
        None => svg.to_owned(),
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

/// Rows of the table behind a chart.
const MAX_ROWS: usize = 200;

impl Chart {
    /// What it shows as a table: positions, and the value of each series there.
    pub fn data(&self) -> String {
        let series: Vec<&Series> = self.legend().collect();
        let mut places: Vec<f64> = series.iter().flat_map(|s| &s.points).map(|p| p.0).collect();
        places.sort_by(f64::total_cmp);
        places.dedup();
        let headings = series.iter().map(|series| format!("{}, {}", series.name, self.y_label));
        let headings: Vec<String> = std::iter::once(self.x.label.clone()).chain(headings).collect();
        let row = |&x: &f64| {
            let step = self.x.steps.as_ref().map(|_| self.x.show(x));
            let value = |series: &&Series| {
                let here = series.points.iter().filter(|point| point.0.total_cmp(&x).is_eq());
                here.map(|&(_, y)| exact(y)).collect::<Vec<_>>().join(", ")
            };
            let first = step.unwrap_or_else(|| exact(x));
            std::iter::once(first).chain(series.iter().map(value)).collect()
        };
        let mut out = String::new();
        crate::page::table(&mut out, &headings, 1, places.iter().take(MAX_ROWS).map(row));
        if places.len() > MAX_ROWS {
            out += &format!("<p>and {} more</p>\n", places.len() - MAX_ROWS);
        }
        out
    }

    /// Draws the chart as SVG.
    ///
    /// # Errors
    /// `plotters` cannot draw it.
    pub fn draw(&self) -> Result<String> {
        let mut svg = String::new();
        {
            let root = SVGBackend::with_string(&mut svg, SIZE).into_drawing_area();
            let lines = i32::try_from(self.legend().count().div_ceil(LEGEND_COLUMNS))?;
            let head = TITLE_HEIGHT + lines * LEGEND_HEIGHT;
            let (above, below) = root.split_vertically(head);
            self.draw_head(&above)?;
            self.draw_plot(&below)?;
            root.present().map_err(failed)?;
        }
        Ok(DEFAULTS
            .iter()
            .fold(svg.replace(INK_HEX, "currentColor"), |svg, default| svg.replace(default, "")))
    }

    fn draw_head(&self, area: &Area<'_>) -> Result<()> {
        let centred = text(20).pos(Pos::new(HPos::Center, VPos::Center));
        let middle = i32::try_from(SIZE.0 / 2)?;
        area.draw(&Text::new(self.title.clone(), (middle, TITLE_HEIGHT / 2), centred))
            .map_err(failed)?;
        let width = (i32::try_from(SIZE.0)? - 80) / i32::try_from(LEGEND_COLUMNS)?;
        for (nr, series) in self.legend().enumerate() {
            let (line, column) = (nr / LEGEND_COLUMNS, nr % LEGEND_COLUMNS);
            let x = 70 + i32::try_from(column)? * width;
            let y = TITLE_HEIGHT + i32::try_from(line)? * LEGEND_HEIGHT + LEGEND_HEIGHT / 2;
            series.draw_key(area, (x, y))?;
            let style = text(16).pos(Pos::new(HPos::Left, VPos::Center));
            area.draw(&Text::new(series.name.clone(), (x + 32, y), style)).map_err(failed)?;
        }
        Ok(())
    }

    /// The series that the legend names.
    fn legend(&self) -> impl Iterator<Item = &Series> {
        self.series.iter().filter(|series| series.marks != Marks::Intervals)
    }

    fn draw_plot(&self, area: &Area<'_>) -> Result<()> {
        let (low, high) = self.range();
        let across = self.across();
        let mut chart = ChartBuilder::on(area)
            .margin_left(8)
            .margin_right(20)
            .margin_top(8)
            .x_label_area_size(46)
            .y_label_area_size(70)
            .build_cartesian_2d(across, low..high)
            .map_err(failed)?;
        chart
            .configure_mesh()
            .disable_x_mesh()
            .bold_line_style(INK.mix(0.25))
            .light_line_style(TRANSPARENT)
            .axis_style(INK)
            .x_labels(self.x.steps.as_ref().map_or(NUMBERS, Vec::len))
            .x_label_formatter(&|x| self.x.show(*x))
            .y_label_formatter(&|y| self.scale.show(*y))
            .label_style(text(16))
            .axis_desc_style(text(17))
            .x_desc(self.x.label.clone())
            .y_desc(self.y_label.clone())
            .draw()
            .map_err(failed)?;
        for series in &self.series {
            let own = |&(x, y): &(f64, f64)| {
                (self.x.scale.place(x) + series.offset(), self.scale.place(y))
            };
            let points: Vec<(f64, f64)> = series.points.iter().map(own).collect();
            let colour = series.colour();
            match series.marks {
                Marks::Intervals => {
                    let bar = |ends: &[(f64, f64)]| {
                        PathElement::new(ends.to_vec(), colour.stroke_width(1))
                    };
                    chart.draw_series(points.chunks(2).map(bar)).map_err(failed)?;
                    let cap = |&end| Circle::new(end, 2, colour.filled());
                    chart.draw_series(points.iter().map(cap)).map_err(failed)?;
                }
                Marks::Line { dashed: false, points: dots } => {
                    let size = if dots { 3 } else { 0 };
                    let line = LineSeries::new(points, colour.stroke_width(2)).point_size(size);
                    chart.draw_series(line).map_err(failed)?;
                }
                Marks::Line { dashed: true, .. } => {
                    let line = DashedLineSeries::new(points, 6, 4, colour.stroke_width(2));
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
    /// The label of a position.
    fn show(&self, x: f64) -> String {
        let Some(steps) = &self.steps else {
            return match self.scale {
                Scale::Linear => format!("{x:.0}"),
                Scale::Logarithmic => self.scale.show(x),
            };
        };
        let at = x.round();
        let is_step = (x - at).abs() < 1e-6 && at >= 0.0;
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
        let decimals = match value.abs() {
            v if v >= 10.0 || v == 0.0 => 0,
            v if v >= 1.0 => 1,
            _ => 3,
        };
        format!("{value:.decimals$}")
    }
}

impl Series {
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
    fn values_along_a_logarithmic_axis_are_shown_as_they_are() {
        let scale = Scale::Logarithmic;
        assert_eq!(scale.show(scale.place(1000.0)), "1000");
        assert_eq!(scale.show(scale.place(2.5)), "2.5");
        assert_eq!(scale.show(scale.place(0.04)), "0.040");
        assert_eq!(Scale::Linear.show(0.0), "0");
    }
}
