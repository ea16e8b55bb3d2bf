//! A drawing of an environment.

use tiny_skia::{FillRule, LineCap, LineJoin, Paint, PathBuilder, Pixmap, Stroke, Transform};

use crate::env::{EnvError, Frame};

/// A point in pixels, from the bottom left corner upwards.
pub(super) type Point = [f64; 2];

/// Red, green and blue.
pub(super) type Rgb = [u8; 3];

pub(super) const BLACK: Rgb = [0, 0, 0];
pub(super) const GREY: Rgb = [128, 128, 128];
pub(super) const YELLOW: Rgb = [204, 204, 0];

/// A white picture that shapes are drawn onto, one over the other, with smooth edges.
pub(super) struct Canvas(Pixmap);

impl Canvas {
    pub(super) fn new(width: u32, height: u32) -> Result<Self, EnvError> {
        let pixmap = Pixmap::new(width, height);
        let mut pixmap = pixmap.ok_or_else(|| EnvError::new(format!("no picture has {width} × {height} pixels")))?;
        pixmap.fill(tiny_skia::Color::WHITE);
        Ok(Self(pixmap))
    }

    /// Fills a polygon.
    pub(super) fn polygon(&mut self, corners: &[Point], color: Rgb) {
        let mut path = path(corners);
        path.close();
        if let Some(path) = path.finish() {
            let to_pixels = self.to_pixels();
            self.0.fill_path(&path, &paint(color), FillRule::Winding, to_pixels, None);
        }
    }

    /// Fills a disc.
    pub(super) fn disc(&mut self, [x, y]: Point, radius: f64, color: Rgb) {
        if let Some(path) = PathBuilder::from_circle(x as f32, y as f32, radius as f32) {
            let to_pixels = self.to_pixels();
            self.0.fill_path(&path, &paint(color), FillRule::Winding, to_pixels, None);
        }
    }

    /// Draws the lines between `n` × `n` cells of `side` pixels, from the bottom left corner on.
    pub(super) fn grid(&mut self, n: u32, side: f64) {
        let end = f64::from(n) * side;
        for at in (1..n).map(|at| f64::from(at) * side + 0.5) {
            self.line(&[[0.0, at], [end, at]], 1.0, GREY);
            self.line(&[[at, 0.0], [at, end]], 1.0, GREY);
        }
    }

    /// Draws a line through points. A width of one pixel is sharp in the middle of a row or column, as at
    /// 100.5.
    pub(super) fn line(&mut self, points: &[Point], width: f32, color: Rgb) {
        if let Some(path) = path(points).finish() {
            let stroke = Stroke { width, line_cap: LineCap::Butt, line_join: LineJoin::Round, ..Stroke::default() };
            let to_pixels = self.to_pixels();
            self.0.stroke_path(&path, &paint(color), &stroke, to_pixels, None);
        }
    }

    /// The picture.
    pub(super) fn frame(self) -> Result<Frame, EnvError> {
        let (width, height) = (self.0.width(), self.0.height());
        // Nothing is transparent, on a white ground.
        let rgb = self.0.data().chunks_exact(4).flat_map(|rgba| [rgba[0], rgba[1], rgba[2]]).collect();
        Frame::new(width, height, rgb)
    }

    /// Rows of pixels go downwards.
    fn to_pixels(&self) -> Transform {
        Transform::from_row(1.0, 0.0, 0.0, -1.0, 0.0, self.0.height() as f32)
    }
}

/// A rectangle from `left` to `right` and from `bottom` to `top`, turned counterclockwise around its origin,
/// which is then moved to `to`.
pub(super) fn rectangle([left, right, bottom, top]: [f64; 4], turn: f64, to: Point) -> [Point; 4] {
    [[left, bottom], [left, top], [right, top], [right, bottom]].map(|corner| turned(corner, turn, to))
}

/// A point turned counterclockwise around the origin, which is then moved to `to`.
pub(super) fn turned([x, y]: Point, turn: f64, to: Point) -> Point {
    let (sin, cos) = turn.sin_cos();
    [x * cos - y * sin + to[0], x * sin + y * cos + to[1]]
}

fn path(points: &[Point]) -> PathBuilder {
    let mut path = PathBuilder::new();
    for (index, &[x, y]) in points.iter().enumerate() {
        let (x, y) = (x as f32, y as f32);
        if index == 0 { path.move_to(x, y) } else { path.line_to(x, y) }
    }
    path
}

fn paint([red, green, blue]: Rgb) -> Paint<'static> {
    let mut paint = Paint { anti_alias: true, ..Paint::default() };
    paint.set_color_rgba8(red, green, blue, 255);
    paint
}
