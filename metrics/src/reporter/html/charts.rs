//! The scripts and styles that draw a [`RunHistory`](crate::RunHistory), for the report and for live pages.

/// The script of the charts, bars and tables, whose first lines document the data that it draws.
pub const SCRIPT: &str = concat!(
    include_str!("charts/elements.js"),
    include_str!("charts/curves.js"),
    include_str!("charts/overlay.js"),
    include_str!("charts/bars.js"),
    include_str!("charts/pipeline.js"),
    include_str!("charts/trouble.js"),
);

/// Their style, light and dark.
pub const STYLE: &str = include_str!("charts/charts.css");

/// [uPlot](https://github.com/leeoniya/uPlot) 1.6.32, which draws the curves.
pub const UPLOT_SCRIPT: &str = include_str!("uplot/uPlot.iife.min.js");

/// Its style.
pub const UPLOT_STYLE: &str = include_str!("uplot/uPlot.min.css");
