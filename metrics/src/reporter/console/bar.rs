//! A line that is redrawn in place.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle, TermLike};

use super::line;
use crate::result::ResultDict;

/// A line on a terminal with a sentence below.
#[derive(Debug)]
pub(super) struct Bar {
    bar: ProgressBar,
    term: Watched,
    looks: Option<Looks>,
    /// The newest result's text, which stays at the end.
    newest: Option<(String, String)>,
}

/// The start of the line, and whether a sentence follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Looks {
    has_progress: bool,
    has_room: bool,
    has_sentence: bool,
}

/// Columns of a terminal on which the bar leaves room for the return and the lag.
const WIDE: u16 = 100;

/// Positions of the bar.
const LENGTH: u64 = 1000;

impl Bar {
    pub(super) fn new(term: impl TermLike + 'static) -> Bar {
        let term = Watched { term: Arc::new(term), error: Arc::default() };
        let target = ProgressDrawTarget::term_like_with_hz(Box::new(term.clone()), 20);
        let bar = ProgressBar::with_draw_target(Some(LENGTH), target);
        Bar { bar, term, looks: None, newest: None }
    }

    /// Redraws the line.
    pub(super) fn show(&mut self, result: &ResultDict) -> io::Result<()> {
        let progress = result.number("progress");
        let sentence = sentence_of(result);
        let has_room = self.term.width() >= WIDE;
        let looks = Looks { has_progress: progress.is_some(), has_room, has_sentence: !sentence.is_empty() };
        if self.looks != Some(looks) {
            self.bar.set_style(looks.style());
            self.looks = Some(looks);
        }
        let text = line::of(result);
        let position = (progress.unwrap_or(0.0).clamp(0.0, 1.0) * LENGTH as f64).round();
        // Unlike the setters these do not draw; the tick does, once.
        let bar = self.bar.clone().with_position(position as u64).with_prefix(sentence.clone());
        bar.with_message(text.clone()).tick();
        self.newest = Some((text, sentence));
        self.term.take_error()
    }

    /// Leaves the newest result on the terminal as a whole line.
    pub(super) fn finish(&mut self) -> io::Result<()> {
        self.bar.finish_and_clear();
        self.term.take_error()?;
        let (text, sentence) = self.newest.take().unwrap_or_default();
        for line in [text, sentence].iter().filter(|line| !line.is_empty()) {
            self.term.write_line(line)?;
        }
        self.term.flush()
    }
}

impl Looks {
    fn style(self) -> ProgressStyle {
        let begin = match (self.has_progress, self.has_room) {
            (true, true) => "{bar:12} ",
            // The line has the share in percent, too.
            (true, false) => "",
            (false, _) => "{spinner} ",
        };
        let end = if self.has_sentence { "\n{prefix}" } else { "" };
        // All of them are well formed, as tests check; else indicatif's default would do.
        let style = ProgressStyle::with_template(&format!("{begin}{{wide_msg}}{end}"))
            .unwrap_or_else(|_| ProgressStyle::default_bar());
        style.progress_chars("#>-").tick_chars("|/-\\ ")
    }
}

/// The bottleneck's sentence on one line, or empty.
fn sentence_of(result: &ResultDict) -> String {
    let sentence = result.get("bottleneck.sentence").and_then(|sentence| sentence.as_str()).unwrap_or_default();
    sentence.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

/// A terminal that keeps the first drawing error, which indicatif does not return.
#[derive(Clone, Debug)]
struct Watched {
    term: Arc<dyn TermLike>,
    error: Arc<Mutex<Option<io::Error>>>,
}

impl Watched {
    /// The error since the last call, if there was one.
    fn take_error(&self) -> io::Result<()> {
        self.error.lock().unwrap_or_else(PoisonError::into_inner).take().map_or(Ok(()), Err)
    }

    /// indicatif gets the kind alone, because the error cannot be cloned.
    fn kept(&self, done: io::Result<()>) -> io::Result<()> {
        done.map_err(|error| {
            let kind = error.kind();
            self.error.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
            kind.into()
        })
    }
}

impl TermLike for Watched {
    fn width(&self) -> u16 {
        // indicatif divides by the size, which some terminals do not know.
        match self.term.width() {
            0 => 80,
            width => width,
        }
    }

    fn height(&self) -> u16 {
        match self.term.height() {
            0 => 24,
            height => height,
        }
    }

    fn move_cursor_up(&self, n: usize) -> io::Result<()> {
        self.kept(self.term.move_cursor_up(n))
    }

    fn move_cursor_down(&self, n: usize) -> io::Result<()> {
        self.kept(self.term.move_cursor_down(n))
    }

    fn move_cursor_right(&self, n: usize) -> io::Result<()> {
        self.kept(self.term.move_cursor_right(n))
    }

    fn move_cursor_left(&self, n: usize) -> io::Result<()> {
        self.kept(self.term.move_cursor_left(n))
    }

    fn write_line(&self, text: &str) -> io::Result<()> {
        self.kept(self.term.write_line(text))
    }

    fn write_str(&self, text: &str) -> io::Result<()> {
        self.kept(self.term.write_str(text))
    }

    fn clear_line(&self) -> io::Result<()> {
        self.kept(self.term.clear_line())
    }

    fn flush(&self) -> io::Result<()> {
        self.kept(self.term.flush())
    }
}
