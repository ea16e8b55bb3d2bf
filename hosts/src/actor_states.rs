//! The states of an actor's threads, which the learner knows by name.

use pronk_metrics::thread_states;

thread_states! {
    /// What a courier is doing.
    pub enum CourierState {
        /// Waiting for a fragment of the workers.
        Waiting = "waiting",
        /// Encoding one.
        Packing = "packing",
        /// Between sending one and the reply, but for [`Held`](Self::Held).
        Network = "network",
        /// The part of it that the learner says it held the fragment before its inqueue took it, and time in
        /// which a courier stands back because the learner holds those of others.
        Held = "held",
        /// Pausing before it asks again.
        BackingOff = "backing_off",
    }
}

thread_states! {
    /// What the thread that reports is doing.
    pub enum BeatState {
        /// Waiting for the learner's news.
        Listening = "listening",
        /// Collecting what is reported.
        Reporting = "reporting",
        /// Pausing before it asks again.
        BackingOff = "backing_off",
    }
}

thread_states! {
    /// What the thread that fetches weights is doing.
    pub enum FetchState {
        /// Waiting for a newer version.
        Waiting = "waiting",
        /// Receiving one.
        Fetching = "fetching",
        /// Pausing before it asks again.
        BackingOff = "backing_off",
    }
}
