//! What does a thread report about itself?
//!
//! Timers and windows measure; the time ledger ([`StateClock`], [`TimeLedger`]) accounts for each thread's
//! time, the step ledger ([`StepLedger`]) for every step; [`LearnerInfo`] holds the statistics of an update;
//! a [`Reporter`] shows the [`ResultDict`] of an iteration. [`Timers`] and [`Timeline`] read `tracing` spans.

mod catch;
mod ids;
mod moments;
mod numbers;
mod sync;
mod whole_file;

mod timer;
mod window;

mod clock;
mod steps;

mod info;

mod result;

mod history;

mod reporter;

mod spans;
mod timer_tree;

pub use catch::{catch, panic_text};
pub use ids::{ByPolicy, DEFAULT_POLICY, PolicyId, default_policy};
pub use moments::{NormalizerMoments, RunningMoments};
pub use numbers::{format_return, round_half_even};
pub use whole_file::write_whole;

pub use timer::TimerStat;
pub use window::WindowStat;

pub use clock::{
    ClockReader, ProcessorClock, StateClock, ThreadState, ThreadTime, TimeLedger, shares, write_shares,
    write_thread_times,
};
pub use steps::{StepLedger, StepTicket, StepTotals, Steps};

pub use info::{Info, InfoError, InfoTree, Leaf, LeafValue, LearnerInfo, LearnerInfoBuilder, Reduction, learner_stats};

pub use result::ResultDict;

pub use history::{RunHistory, settings};

pub use reporter::{
    Console, Csv, FileMark, HtmlReport, JsonLines, ReportError, Reporter, ReporterFn, TensorBoard, charts, reporter_fn,
};

pub use spans::{Timeline, TimelineLayer, Timers, TimersFile, TimersLayer};
pub use timer_tree::{Gauge, RootTime, ScopeId, SystemClock, TimerTree, TreeClock, TreeScope, Work};
