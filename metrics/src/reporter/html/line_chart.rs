//! A curve with its range, drawn so that text keeps its size however wide the page is.
//!
//! The outer `svg` is just the plot; everything in it stands at percentages, and what is written beside the axes hangs
//! over its edge into the margin of the frame. Only the curve itself is stretched.

use std::fmt::Write;

use super::axis::Axis;
use super::series::{Point, Series};
use super::text::{escape, figure};

/// How a curve is to be shown.
pub(super) struct LineChart<'a> {
    pub(super) title: &'a str,
    /// What stands behind the title: the unit, what the band is, or the newest figure.
    pub(super) note: &'a str,
    /// What the horizontal axis counts.
    pub(super) x_name: &'a str,
    /// How its values are called in the description: `1,000 env-steps`.
    pub(super) x_value: fn(f64) -> String,
    pub(super) size: Size,
    pub(super) begin: Begin,
    /// What is said instead when there is no point.
    pub(super) if_empty: &'a str,
    /// What the curve does not show.
    pub(super) warning: Option<String>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Size {
    /// As wide as the page.
    Large,
    /// One of many side by side.
    Small,
}

/// Where the vertical axis begins.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Begin {
    /// At zero: half as high is half as much.
    AtZero,
    /// Near the least value, and at zero only when that is near too.
    NearLeast,
}

impl LineChart<'_> {
    pub(super) fn draw(&self, series: &Series, out: &mut String) {
        let class = if self.size == Size::Large { "chart" } else { "chart small" };
        let (title, note) = (escape(self.title), escape(self.note));
        let _ = writeln!(out, "<figure class=\"{class}\"><figcaption><b>{title}</b> <span>{note}</span></figcaption>");
        let points: Vec<Point> = series.points().collect();
        if points.is_empty() {
            let _ = write!(out, "<p class=\"none\">{}</p>", escape(self.if_empty));
        } else {
            self.plot(&points, out);
            let _ = write!(out, "<p class=\"axis\">{}</p>", escape(self.x_name));
        }
        if let Some(warning) = self.warning.as_ref().filter(|_| !points.is_empty()) {
            let _ = write!(out, "<p class=\"bad\">{}</p>", escape(warning));
        }
        out.push_str("</figure>\n");
    }

    fn plot(&self, points: &[Point], out: &mut String) {
        let fold = |start: f64, pick: fn(f64, f64) -> f64, value: fn(&Point) -> f64| {
            points.iter().map(value).fold(start, pick)
        };
        let (low, high) = (fold(f64::INFINITY, f64::min, |p| p.min), fold(f64::NEG_INFINITY, f64::max, |p| p.max));
        let (begin, end) = (fold(f64::INFINITY, f64::min, |p| p.x), fold(f64::NEG_INFINITY, f64::max, |p| p.x));
        let (n_x, n_y) = if self.size == Size::Large { (4, 4) } else { (2, 2) };
        // Zero is on an axis that does not have to shrink much for it.
        let with_zero = |low: f64, high: f64| {
            if low > 0.0 && low < 0.35 * high {
                (0.0, high)
            } else if high < 0.0 && high > 0.35 * low {
                (low, 0.0)
            } else {
                (low, high)
            }
        };
        let (low, high) = match self.begin {
            Begin::AtZero => (low.min(0.0), high.max(0.0)),
            Begin::NearLeast => with_zero(low, high),
        };
        let y = Axis::rounded_out(low, high, n_y);
        let (begin, end) = with_zero(begin, end);
        let x = Axis::exact(begin, end, n_x);

        let _ = write!(
            out,
            "<div class=\"frame\"><svg class=\"plot\" role=\"img\"><title>{}</title><desc>{}</desc>",
            escape(self.title),
            escape(&self.describe(points))
        );
        for tick in y.ticks() {
            let at = 100.0 * (1.0 - y.place(*tick));
            let label = y.label(*tick);
            let _ = write!(
                out,
                "<line class=\"grid\" x1=\"0\" x2=\"100%\" y1=\"{at:.2}%\" y2=\"{at:.2}%\"/>\
                 <text class=\"y\" x=\"-7\" y=\"{at:.2}%\" dy=\"0.32em\">{label}</text>"
            );
        }
        for tick in x.ticks() {
            let at = 100.0 * x.place(*tick);
            let label = x.label(*tick);
            let _ = write!(
                out,
                "<line class=\"tick\" x1=\"{at:.2}%\" x2=\"{at:.2}%\" y1=\"100%\" y2=\"100%\"/>\
                 <text class=\"x\" x=\"{at:.2}%\" y=\"100%\" dy=\"17\">{label}</text>"
            );
        }
        curve(points, &x, &y, out);
        out.push_str("</svg></div>");
    }

    fn describe(&self, points: &[Point]) -> String {
        let (first, last) = (points[0], points[points.len() - 1]);
        let value = self.x_value;
        if points.len() == 1 {
            return format!("{} at {}.", figure(first.mean), value(first.x));
        }
        let low = points.iter().map(|point| point.min).fold(f64::INFINITY, f64::min);
        let high = points.iter().map(|point| point.max).fold(f64::NEG_INFINITY, f64::max);
        format!(
            "From {} at {} to {} at {}; never below {} nor above {}.",
            figure(first.mean),
            value(first.x),
            figure(last.mean),
            value(last.x),
            figure(low),
            figure(high)
        )
    }
}

/// Band, line, and with few points also the points themselves.
fn curve(points: &[Point], x: &Axis, y: &Axis, out: &mut String) {
    /// So many points stand apart enough to be shown one by one.
    const FEW: usize = 32;
    const WIDTH: f64 = 2000.0;
    const HEIGHT: f64 = 1000.0;
    let at = |at_x: f64, at_y: f64| ((WIDTH * x.place(at_x)).round(), (HEIGHT * (1.0 - y.place(at_y))).round());
    let path = |path: &mut String, (x, y): (f64, f64)| {
        let step = if path.is_empty() { 'M' } else { 'L' };
        let _ = write!(path, "{step}{x} {y}");
    };
    let _ = write!(
        out,
        "<svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" preserveAspectRatio=\"none\" width=\"100%\" height=\"100%\" overflow=\"visible\">"
    );
    if points.iter().any(|point| point.min < point.max) {
        let mut band = String::new();
        points.iter().for_each(|point| path(&mut band, at(point.x, point.max)));
        points.iter().rev().for_each(|point| path(&mut band, at(point.x, point.min)));
        let _ = write!(out, "<path class=\"band\" d=\"{band}Z\"/>");
    }
    let mut line = String::new();
    points.iter().for_each(|point| path(&mut line, at(point.x, point.mean)));
    let _ = write!(out, "<path class=\"line\" d=\"{line}\"/></svg>");
    if points.len() <= FEW {
        for point in points {
            let (cx, cy) = (100.0 * x.place(point.x), 100.0 * (1.0 - y.place(point.mean)));
            let _ = write!(out, "<circle class=\"dot\" cx=\"{cx:.2}%\" cy=\"{cy:.2}%\" r=\"2.5\"/>");
        }
    }
}
