//! Device stacks and the threads that load batches into them.

mod failure;
mod loaded;
mod loader;
mod metrics;
mod thread;
mod upstream;

pub use loader::Loader;

use std::collections::VecDeque;
use std::error::Error;
use std::fmt;
use std::num::NonZeroUsize;
use std::time::Duration;

use pronk_metrics::{StateClock, TimeLedger};

use crate::saved::{CannotSave, SavedSource};
use crate::shutdown::{ShutdownGuard, ShutdownToken, shutdown};
use crate::source::{NextError, Source};
use crate::sync::Instant;
use crate::sync::channel::{Receiver, Select, TryRecvError, bounded};
use crate::sync::thread::JoinHandle;
use crate::sync::{self, Arc};

use metrics::SharedTimer;
use thread::{LoaderThread, Ready};
use upstream::Upstream;

pub use failure::{LoaderCause, LoaderError, LoaderFailure};
pub use loaded::Loaded;
pub use metrics::LoaderMetrics;
pub use thread::LoaderState;

#[cfg(test)]
mod tests;

/// How many threads load, and how they end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoaderConfig {
    /// Number of threads; more than stacks is useless. One keeps the order of the source; with several,
    /// batches come in the order in which their loading ends.
    pub num_data_load_threads: NonZeroUsize,
    /// How long closing waits, for all threads together.
    pub join_within: Duration,
}

impl Default for LoaderConfig {
    /// RLlib's 16 threads; one second.
    fn default() -> Self {
        // A constant is computed by the compiler, which would refuse 0.
        const RLLIB: NonZeroUsize = NonZeroUsize::new(16).unwrap();
        Self { num_data_load_threads: RLLIB, join_within: Duration::from_secs(1) }
    }
}

/// What loader threads work with.
#[derive(Debug)]
pub struct LoaderParts<S, T> {
    /// The source of batches.
    pub source: S,
    /// The stacks: RLlib's `num_multi_gpu_tower_stacks`.
    pub stacks: Vec<T>,
    /// Accounts for the threads' time.
    pub time: TimeLedger,
    /// Ends the threads.
    pub token: ShutdownToken,
}

/// A source of loaded stacks: threads `loader-1`, `loader-2`, … load batches ahead of the learner.
///
/// A loader takes an idle stack first, then a batch of the source, loads it, and passes the stack on. So at
/// most as many batches are ahead as there are stacks; the others wait in the source, where the backlog
/// counts them. An item is a guard: dropping it returns its stack.
///
/// If a loader fails or panics, `next` returns that error and the other loaders end. An error of the source
/// takes its place among the stacks, and the loaders continue.
///
/// *Order*: the source's with one loader, none with several.
///
/// *Blocks*: `drain`, [`join`](Self::join) and dropping wait for the threads up to `join_within`. A thread
/// ends between two batches; [`LoaderMetrics::running`] names those that miss the deadline.
///
/// ```
/// use std::error::Error;
/// use std::num::NonZeroUsize;
/// use std::time::Duration;
/// use pronk_buffer::{Gate, Loader, LoaderConfig, LoaderParts, LoaderStacks, Source, inqueue, shutdown};
/// use pronk_metrics::TimeLedger;
///
/// /// Copies numbers into a vector.
/// struct ToVec;
///
/// impl Loader<Vec<f32>> for ToVec {
///     type Stack = Vec<f32>;
///
///     fn load(&mut self, batch: Vec<f32>, stack: &mut Vec<f32>) -> Result<(), Box<dyn Error + Send + Sync>> {
///         stack.clear();
///         stack.extend(batch);
///         Ok(())
///     }
/// }
///
/// let (_guard, token) = shutdown();
/// let (sender, source) = inqueue(4, Gate::Bounded, &token)?;
/// let config = LoaderConfig { num_data_load_threads: NonZeroUsize::MIN, ..LoaderConfig::default() };
/// let parts = LoaderParts { source, stacks: vec![Vec::new(); 2], time: TimeLedger::new(), token };
/// let mut stacks = LoaderStacks::start(config, parts, |_| Ok(ToVec))?;
/// sender.push(vec![1.0, 2.0])?;
/// let loaded = stacks.next(Duration::from_secs(10))?;
/// assert_eq!(*loaded, [1.0, 2.0]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct LoaderStacks<S: Source, T> {
    upstream: Arc<Upstream<S>>,
    ready: Receiver<Ready<T>>,
    failures: Receiver<LoaderFailure>,
    idle: Receiver<T>,
    /// What was ready when a checkpoint was taken, errors of the source included.
    kept: VecDeque<Ready<T>>,
    /// Dropped to end the threads.
    open: Option<ShutdownGuard>,
    token: ShutdownToken,
    handles: Vec<JoinHandle<()>>,
    metrics: LoaderMetrics,
    join_within: Duration,
    closing_since: Option<Instant>,
}

impl<S, T> LoaderStacks<S, T>
where
    S: Source + Send + 'static,
    T: Send + 'static,
{
    /// Starts the threads. Each makes its loader by calling `make_loader` with its own number, from 1.
    ///
    /// # Errors
    /// No stacks, or the operating system refuses a thread; those already started have ended then.
    pub fn start<L, F>(config: LoaderConfig, parts: LoaderParts<S, T>, make_loader: F) -> Result<Self, LoaderError>
    where
        L: Loader<S::Item, Stack = T>,
        F: Fn(usize) -> Result<L, Box<dyn Error + Send + Sync>> + Send + Sync + 'static,
    {
        let LoaderParts { source, stacks, time, token } = parts;
        if stacks.is_empty() {
            return Err(LoaderError::NoStacks);
        }
        let (home, idle) = bounded(stacks.len());
        let (passed_on, ready) = bounded(stacks.len());
        let (failed, failures) = bounded(config.num_data_load_threads.get());
        for stack in stacks {
            // There is room for every stack.
            drop(home.try_send(stack));
        }
        let (open, closing) = shutdown();
        let metrics = LoaderMetrics {
            queue_timer: SharedTimer::default(),
            load_timer: SharedTimer::default(),
            threads: Vec::new(),
        };
        let mut adapter = Self {
            upstream: Arc::new(Upstream::new(source)),
            ready,
            failures,
            idle,
            kept: VecDeque::new(),
            open: Some(open),
            token,
            handles: Vec::new(),
            metrics,
            join_within: config.join_within,
            closing_since: None,
        };
        let make_loader = Arc::new(make_loader);
        for number in 1..=config.num_data_load_threads.get() {
            let name = format!("loader-{number}");
            let clock = StateClock::new(name.clone(), LoaderState::Starting);
            time.add(clock.reader());
            let thread = LoaderThread {
                name,
                upstream: Arc::clone(&adapter.upstream),
                idle: adapter.idle.clone(),
                home: home.clone(),
                ready: passed_on.clone(),
                failures: failed.clone(),
                tokens: [closing.clone(), adapter.token.clone()],
                queue_timer: adapter.metrics.queue_timer.clone(),
                load_timer: adapter.metrics.load_timer.clone(),
                clock,
            };
            let make_loader = Arc::clone(&make_loader);
            adapter.spawn(thread, move || make_loader(number))?;
        }
        Ok(adapter)
    }

    fn spawn<L: Loader<S::Item, Stack = T>>(
        &mut self,
        thread: LoaderThread<S, T>,
        make_loader: impl FnOnce() -> Result<L, Box<dyn Error + Send + Sync>> + Send + 'static,
    ) -> Result<(), LoaderError> {
        let name = thread.name.clone();
        let (alive, ended) = shutdown();
        let spawned = sync::thread::Builder::new().name(name.clone()).spawn(move || {
            thread.run(make_loader);
            drop(alive); // last of all: who sees it knows that the thread holds nothing any more
        });
        let handle = spawned.map_err(|source| LoaderError::NotStarted { thread: name.clone(), source })?;
        self.handles.push(handle);
        self.metrics.threads.push((name, ended));
        Ok(())
    }
}

impl<S: Source, T> LoaderStacks<S, T> {
    /// Live metrics of the threads.
    pub fn metrics(&self) -> &LoaderMetrics {
        &self.metrics
    }

    /// Closes and waits for the threads, up to `join_within`.
    ///
    /// # Errors
    /// [`LoaderError::NotJoined`] names those that miss the deadline.
    pub fn join(mut self) -> Result<(), LoaderError> {
        self.close();
        let threads = self.metrics.running();
        if threads.is_empty() { Ok(()) } else { Err(LoaderError::NotJoined { threads, waited: self.join_within }) }
    }

    /// Ends the threads and waits until a common deadline, which the first call sets.
    fn close(&mut self) {
        self.open = None;
        let began = *self.closing_since.get_or_insert_with(Instant::now);
        for (_, ended) in &self.metrics.threads {
            // Once the time is up, the other threads are only polled.
            let _ = ended.sleep(self.join_within.saturating_sub(began.elapsed()));
        }
        if self.metrics.running().is_empty() {
            // Waits for the threads' last instructions only.
            self.handles.drain(..).for_each(|handle| drop(handle.join()));
        }
    }

    /// A stack that is ready now; a timeout if there is none.
    fn next_now(&mut self) -> Result<Loaded<T>, NextError> {
        if let Some(failure) = self.failure() {
            return Err(failure);
        }
        if self.open.is_none() || self.token.is_shut_down() {
            return Err(NextError::Closed);
        }
        match self.kept.pop_front().map_or_else(|| self.ready.try_recv(), Ok) {
            Ok((stack, Ok(()))) => Ok(stack),
            Ok((_, Err(error))) => Err(NextError::Failed(error)),
            Err(TryRecvError::Empty) => Err(NextError::TimedOut),
            // A thread sends its failure before its end of the queue closes, maybe after the check above.
            Err(TryRecvError::Disconnected) => Err(self.failure().unwrap_or(NextError::Closed)),
        }
    }

    /// The failure of a thread; the others end when there is one.
    fn failure(&mut self) -> Option<NextError> {
        let failure = self.failures.try_recv().ok()?;
        self.open = None;
        Some(NextError::Failed(failure.into()))
    }
}

impl<S: Source, T> Source for LoaderStacks<S, T> {
    type Item = Loaded<T>;

    /// # Errors
    /// Those of the source, and [`NextError::Failed`] with a [`LoaderFailure`] if a loader failed; `Closed`
    /// follows.
    fn next(&mut self, timeout: Duration) -> Result<Loaded<T>, NextError> {
        let began = Instant::now();
        loop {
            match self.next_now() {
                Err(NextError::TimedOut) => {}
                next => return next,
            }
            let mut wait = Select::new();
            wait.recv(&self.ready);
            wait.recv(&self.failures);
            wait.recv(self.token.ended());
            if wait.ready_timeout(timeout.saturating_sub(began.elapsed())).is_err() {
                return Err(NextError::TimedOut);
            }
        }
    }

    /// Stacks that are ready, and the source's backlog.
    fn backlog(&self) -> usize {
        self.kept.len() + self.ready.len() + self.upstream.backlog()
    }

    /// Ends the threads and returns the stacks that are ready. The source's other batches are dropped, and
    /// their tickets count them.
    fn drain(&mut self) -> Vec<Loaded<T>> {
        self.close();
        drop(self.upstream.drain());
        let ready = self.kept.drain(..).chain(self.ready.try_iter());
        ready.filter_map(|(stack, outcome)| outcome.is_ok().then_some(stack)).collect()
    }

    /// Waits until no thread loads, which takes a copy at most.
    fn save(&mut self, saved: &mut SavedSource, ahead: &mut dyn FnMut(&Self::Item)) -> Result<(), CannotSave> {
        let Self { upstream, ready, kept, .. } = self;
        upstream.at_rest(|source| {
            kept.extend(ready.try_iter());
            if let Some(error) = kept.iter().find_map(|(_, outcome)| outcome.as_ref().err()) {
                return Err(CannotSave::because(error));
            }
            // Its items are batches that no thread has loaded; it has none at hand.
            source.save(saved, &mut |_| {})
        })?;
        kept.iter().map(|(stack, _)| stack).for_each(ahead);
        Ok(())
    }
}

impl<S: Source, T> Drop for LoaderStacks<S, T> {
    fn drop(&mut self) {
        self.close();
        // A channel keeps its items until the last sender is gone, and guards in use are senders.
        self.kept.clear();
        self.ready.try_iter().for_each(drop);
        self.idle.try_iter().for_each(drop);
    }
}

impl<S: Source, T> fmt::Debug for LoaderStacks<S, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LoaderStacks").field("metrics", &self.metrics).finish_non_exhaustive()
    }
}
