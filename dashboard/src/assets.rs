//! The files of the page, which are part of the program.

use pronk::metrics::charts;

/// A file of the page.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asset {
    pub(crate) name: &'static str,
    pub(crate) content_type: &'static str,
    pub(crate) text: &'static str,
}

/// The page itself.
pub(crate) const INDEX: &str = include_str!("page/index.html");

/// What asks for the token.
pub(crate) const LOGIN: &str = include_str!("login.html");

const SCRIPT: &str = "text/javascript; charset=utf-8";
const STYLE: &str = "text/css; charset=utf-8";

/// A file in `page/`.
macro_rules! page {
    ($name:literal, $content_type:expr) => {
        Asset { name: $name, content_type: $content_type, text: include_str!(concat!("page/", $name)) }
    };
}

/// What the page loads from `/assets/NAME`.
pub(crate) const ASSETS: &[Asset] = &[
    Asset { name: "uplot.js", content_type: SCRIPT, text: charts::UPLOT_SCRIPT },
    Asset { name: "uplot.css", content_type: STYLE, text: charts::UPLOT_STYLE },
    Asset { name: "charts.js", content_type: SCRIPT, text: charts::SCRIPT },
    Asset { name: "charts.css", content_type: STYLE, text: charts::STYLE },
    page!("icon.svg", "image/svg+xml"),
    page!("page.css", STYLE),
    page!("page.js", SCRIPT),
    page!("data.js", SCRIPT),
    page!("widgets.js", SCRIPT),
    page!("curves.js", SCRIPT),
    page!("runs.js", SCRIPT),
    page!("run.js", SCRIPT),
    page!("compare.js", SCRIPT),
    page!("parallel.js", SCRIPT),
    page!("sweep.js", SCRIPT),
];
