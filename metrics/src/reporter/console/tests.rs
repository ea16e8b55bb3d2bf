use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use indicatif::{InMemoryTerm, TermLike};

use super::*;

/// A console on a screen of 20 lines.
fn on_screen(screen: &InMemoryTerm) -> Console<Vec<u8>> {
    Console { view: View::Bar(Box::new(Bar::new(screen.clone()))) }
}

fn halfway(iteration: u32) -> ResultDict {
    let mut result = ResultDict::new();
    result.set("training_iteration", iteration);
    result.set("progress", 0.5);
    result.set("time_total_s", 12);
    result.set("ledger.time_this_iter.learner.learning", 0.61);
    result
}

/// A terminal that goes away.
#[derive(Clone, Debug)]
struct Leaving {
    screen: InMemoryTerm,
    is_gone: Arc<AtomicBool>,
}

impl Leaving {
    fn there(&self) -> io::Result<()> {
        if self.is_gone.load(Ordering::Relaxed) { Err(io::ErrorKind::BrokenPipe.into()) } else { Ok(()) }
    }
}

impl TermLike for Leaving {
    fn width(&self) -> u16 {
        0
    }

    fn move_cursor_up(&self, n: usize) -> io::Result<()> {
        self.there().and_then(|()| self.screen.move_cursor_up(n))
    }

    fn move_cursor_down(&self, n: usize) -> io::Result<()> {
        self.there().and_then(|()| self.screen.move_cursor_down(n))
    }

    fn move_cursor_right(&self, n: usize) -> io::Result<()> {
        self.there().and_then(|()| self.screen.move_cursor_right(n))
    }

    fn move_cursor_left(&self, n: usize) -> io::Result<()> {
        self.there().and_then(|()| self.screen.move_cursor_left(n))
    }

    fn write_line(&self, text: &str) -> io::Result<()> {
        self.there().and_then(|()| self.screen.write_line(text))
    }

    fn write_str(&self, text: &str) -> io::Result<()> {
        self.there().and_then(|()| self.screen.write_str(text))
    }

    fn clear_line(&self) -> io::Result<()> {
        self.there().and_then(|()| self.screen.clear_line())
    }

    fn flush(&self) -> io::Result<()> {
        self.there().and_then(|()| self.screen.flush())
    }
}

#[test]
fn a_terminal_shows_the_newest_result_in_one_place() {
    let screen = InMemoryTerm::new(20, 140);
    let mut console = on_screen(&screen);
    for iteration in 1..=3 {
        console.report(&halfway(iteration)).unwrap();
        let shown = screen.contents();
        assert_eq!(shown.lines().count(), 1, "{shown}");
        assert!(shown.starts_with("######>----- "), "{shown}");
        assert!(shown.ends_with(&line::of(&halfway(iteration))), "{shown}");
    }
}

#[test]
fn without_progress_there_is_a_spinner() {
    let screen = InMemoryTerm::new(20, 140);
    let mut console = on_screen(&screen);
    let mut result = ResultDict::new();
    let mut frames = Vec::new();
    for iteration in 1..=2 {
        result.set("training_iteration", iteration);
        console.report(&result).unwrap();
        let shown = screen.contents();
        assert!(shown.ends_with(&line::of(&result)), "{shown}");
        frames.push(shown.chars().next());
    }
    assert_ne!(frames[0], frames[1]);
    console.report(&halfway(3)).unwrap();
    assert!(screen.contents().starts_with('#'), "{}", screen.contents());
}

#[test]
fn the_bottlenecks_sentence_is_a_line_of_its_own() {
    let screen = InMemoryTerm::new(20, 140);
    let mut console = on_screen(&screen);
    let mut result = halfway(1);
    result.set("bottleneck.sentence", "The learner\nis busy.");
    console.report(&result).unwrap();
    let shown = screen.contents();
    assert_eq!(shown.lines().nth(1), Some("The learner is busy."), "{shown}");
    console.report(&halfway(2)).unwrap();
    assert_eq!(screen.contents().lines().count(), 1, "{}", screen.contents());
}

#[test]
fn a_narrow_terminal_shows_what_fits_in_one_line() {
    let screen = InMemoryTerm::new(20, 40);
    let mut console = on_screen(&screen);
    console.report(&halfway(1)).unwrap();
    console.report(&halfway(2)).unwrap();
    let shown = screen.contents();
    assert_eq!(shown.lines().count(), 1, "{shown}");
    assert!(shown.contains("iter     2   50%"), "{shown}");
}

#[test]
fn the_last_result_stays_as_a_whole_line() {
    let screen = InMemoryTerm::new(20, 120);
    let mut console = on_screen(&screen);
    let mut result = halfway(1);
    result.set("bottleneck.sentence", "The learner is busy.");
    console.report(&result).unwrap();
    console.finish().unwrap();
    drop(console);
    screen.write_line("after").unwrap();
    assert_eq!(screen.contents(), format!("{}\nThe learner is busy.\nafter", line::of(&result)));
}

#[test]
fn a_run_without_results_leaves_the_terminal_empty() {
    let screen = InMemoryTerm::new(20, 120);
    on_screen(&screen).finish().unwrap();
    assert_eq!(screen.contents(), "");
}

#[test]
fn a_terminal_that_goes_away_is_an_error_and_no_panic() {
    let term = Leaving { screen: InMemoryTerm::new(20, 80), is_gone: Arc::default() };
    let mut console: Console<Vec<u8>> = Console { view: View::Bar(Box::new(Bar::new(term.clone()))) };
    console.report(&halfway(1)).unwrap();
    term.is_gone.store(true, Ordering::Relaxed);
    let error = console.report(&halfway(2)).unwrap_err();
    let cause = error.source().unwrap().downcast_ref::<io::Error>().unwrap();
    assert_eq!(cause.kind(), io::ErrorKind::BrokenPipe);
    assert!(console.finish().is_err());
    term.is_gone.store(false, Ordering::Relaxed);
    console.report(&halfway(3)).unwrap();
}

#[test]
fn a_job_of_a_ci_gets_plain_lines() {
    for (variable, is_job) in [(None, false), (Some(""), false), (Some("false"), false), (Some("true"), true)] {
        assert_eq!(is_ci(variable.map(OsStr::new)), is_job, "{variable:?}");
    }
}

#[test]
fn a_closed_pipe_is_an_error_and_no_panic() {
    let (reader, writer) = io::pipe().unwrap();
    let mut console = Console::new(writer);
    console.report(&ResultDict::new()).unwrap();
    drop(reader);
    let error = console.report(&ResultDict::new()).unwrap_err();
    assert_eq!(error.reporter, "console");
    let cause = error.source().unwrap().downcast_ref::<io::Error>().unwrap();
    assert_eq!(cause.kind(), io::ErrorKind::BrokenPipe);
}
