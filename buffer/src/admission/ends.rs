use std::time::Duration;

use crate::inqueue::{InqueueSender, PopError, receive_meanwhile};
use crate::sync::channel::{Receiver, Sender, bounded};
use crate::sync::{Arc, Mutex, MutexGuard, PoisonError};
use crate::{Closed, Meanwhile, MultiAgentBatch, ShutdownToken, Versioned, WeightCell};

/// A worker's ends of the edges: where its weights come from, and where its fragments go. A replacement of
/// the worker has a clone.
#[derive(Debug)]
pub struct WorkerEnds<W> {
    /// Where the weights of its next fragment come from.
    pub weights: WeightSource<W>,
    /// Where its fragments go.
    pub fragments: FragmentSender,
}

impl<W> WorkerEnds<W> {
    /// Free admission: the newest weights, and the inqueue of all workers.
    pub fn free(weights: WeightCell<W>, fragments: InqueueSender<MultiAgentBatch>) -> Self {
        Self { weights: WeightSource::Newest(weights), fragments: FragmentSender::Inqueue(fragments) }
    }
}

impl<W> Clone for WorkerEnds<W> {
    fn clone(&self) -> Self {
        Self { weights: self.weights.clone(), fragments: self.fragments.clone() }
    }
}

/// Where the weights of a worker's next fragment come from.
#[derive(Debug)]
pub enum WeightSource<W> {
    /// The newest, at any time.
    Newest(WeightCell<W>),
    /// Those of its turn, which it waits for.
    Granted(Permits<W>),
}

impl<W> WeightSource<W> {
    /// The turn of the next fragment: the same one until it is [`done`](Self::done). Or a mark, once, behind
    /// the last of the turns before it.
    ///
    /// *Blocks* for a permit or a mark, if these are granted, but works at `meanwhile` while there is work.
    ///
    /// # Errors
    /// [`Closed`] if the run ends or no further turn will be granted.
    pub fn wait(&self, meanwhile: &mut dyn Meanwhile) -> Result<Granted<W>, Closed> {
        match self {
            Self::Newest(cell) => Ok(Granted::Turn(Turn { weights: cell.load(), incarnation: None })),
            Self::Granted(permits) => permits.wait(meanwhile),
        }
    }

    /// Spends the turn: the fragment is complete.
    pub fn done(&self) {
        if let Self::Granted(permits) = self {
            permits.spend();
        }
    }

    /// Whether they are granted by turns.
    pub fn is_granted(&self) -> bool {
        matches!(self, Self::Granted(_))
    }
}

impl<W> Clone for WeightSource<W> {
    fn clone(&self) -> Self {
        match self {
            Self::Newest(cell) => Self::Newest(cell.clone()),
            Self::Granted(permits) => Self::Granted(permits.clone()),
        }
    }
}

/// What a worker is to do next.
#[derive(Debug)]
pub enum Granted<W> {
    /// Sample a fragment.
    Turn(Turn<W>),
    /// Post its state, for the checkpoint of this number: it is between two turns.
    Mark(u64),
}

impl<W> Granted<W> {
    /// The turn, unless it is a mark.
    pub fn turn(self) -> Option<Turn<W>> {
        match self {
            Self::Turn(turn) => Some(turn),
            Self::Mark(_) => None,
        }
    }
}

/// What a fragment is sampled with.
#[derive(Debug)]
pub struct Turn<W> {
    /// The weights.
    pub weights: Arc<Versioned<W>>,
    /// The worker's incarnation, if a recorded run is repeated.
    pub incarnation: Option<u32>,
}

/// The right to sample fragments with these weights.
#[derive(Debug)]
pub(super) struct Permit<W> {
    pub(super) weights: Arc<Versioned<W>>,
    pub(super) fragments: usize,
    pub(super) incarnation: Option<u32>,
}

impl<W> Permit<W> {
    fn turn(&self) -> Turn<W> {
        Turn { weights: Arc::clone(&self.weights), incarnation: self.incarnation }
    }
}

/// What is sent to a worker.
#[derive(Debug)]
pub(super) enum Order<W> {
    Permit(Permit<W>),
    Mark(u64),
}

/// A worker's permits. Clones share the one in use.
#[derive(Debug)]
pub struct Permits<W> {
    granted: Receiver<Order<W>>,
    in_use: Arc<Mutex<Option<Permit<W>>>>,
    token: ShutdownToken,
}

impl<W> Permits<W> {
    pub(super) fn new(granted: Receiver<Order<W>>, token: ShutdownToken) -> Self {
        Self { granted, in_use: Arc::default(), token }
    }

    fn wait(&self, meanwhile: &mut dyn Meanwhile) -> Result<Granted<W>, Closed> {
        if let Some(permit) = &*self.in_use() {
            return Ok(Granted::Turn(permit.turn()));
        }
        // The lock is not held meanwhile.
        let permit = loop {
            match receive_meanwhile(&self.granted, &self.token, Duration::MAX, meanwhile) {
                Ok(Order::Permit(permit)) => break permit,
                Ok(Order::Mark(number)) => return Ok(Granted::Mark(number)),
                Err(PopError::TimedOut) => {}
                Err(PopError::Closed) => return Err(Closed(())),
            }
        };
        let turn = permit.turn();
        *self.in_use() = Some(permit);
        Ok(Granted::Turn(turn))
    }

    fn spend(&self) {
        let mut in_use = self.in_use();
        if let Some(permit) = &mut *in_use {
            permit.fragments -= 1;
        }
        in_use.take_if(|permit| permit.fragments == 0);
    }

    #[cfg(test)]
    pub(super) fn has_turn(&self) -> bool {
        self.in_use().is_some() || !self.granted.is_empty()
    }

    fn in_use(&self) -> MutexGuard<'_, Option<Permit<W>>> {
        // Nothing that can panic runs under this lock.
        self.in_use.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<W> Clone for Permits<W> {
    fn clone(&self) -> Self {
        Self { granted: self.granted.clone(), in_use: Arc::clone(&self.in_use), token: self.token.clone() }
    }
}

/// Where a worker's fragments go.
#[derive(Clone, Debug)]
pub enum FragmentSender {
    /// The inqueue, in the order of arrival.
    Inqueue(InqueueSender<MultiAgentBatch>),
    /// The worker's own lane, which has room for a fragment of every turn.
    Lane(Sender<MultiAgentBatch>),
}

impl FragmentSender {
    /// Fragments that wait for the learner; none on a lane, where turns decide how many do.
    pub fn backlog(&self) -> usize {
        match self {
            Self::Inqueue(inqueue) => inqueue.len(),
            Self::Lane(_) => 0,
        }
    }

    /// Pushes a fragment and returns how long it blocked.
    ///
    /// *Blocks* as [`InqueueSender::push_meanwhile`]; never on a lane.
    ///
    /// # Errors
    /// [`Closed`] with the fragment, if the receiver is gone or the run has ended.
    pub fn push(
        &self,
        fragment: MultiAgentBatch,
        meanwhile: &mut dyn Meanwhile,
    ) -> Result<Duration, Closed<MultiAgentBatch>> {
        match self {
            Self::Inqueue(inqueue) => inqueue.push_meanwhile(fragment, meanwhile),
            Self::Lane(lane) => {
                lane.try_send(fragment).map(|()| Duration::ZERO).map_err(|error| Closed(error.into_inner()))
            }
        }
    }
}

/// Both ends of the workers' channels.
pub(super) struct Lanes<W> {
    pub(super) permits: Vec<Sender<Order<W>>>,
    pub(super) ends: Vec<WorkerEnds<W>>,
    pub(super) lanes: Vec<Receiver<MultiAgentBatch>>,
}

/// Makes permits and a lane for each worker, with room for so many turns of it and a mark. A permit is for a
/// fragment at least, so neither is ever full.
pub(super) fn lanes<W>(rooms: Vec<usize>, token: &ShutdownToken) -> Lanes<W> {
    let mut made = Lanes { permits: Vec::new(), ends: Vec::new(), lanes: Vec::new() };
    for turns in rooms {
        let (permit, granted) = bounded(turns + 1);
        let (fragment, lane) = bounded(turns);
        made.permits.push(permit);
        made.lanes.push(lane);
        made.ends.push(WorkerEnds {
            weights: WeightSource::Granted(Permits::new(granted, token.clone())),
            fragments: FragmentSender::Lane(fragment),
        });
    }
    made
}
