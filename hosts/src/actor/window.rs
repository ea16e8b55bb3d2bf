//! [`Window`]: how many fragments of a host are on their way.

use crate::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// How many fragments are on their way at once: as many as credits allow while the learner's inqueue has
/// room for them, and fewer while it has none, down to one. A learner that has enough gets no faster by
/// fragments that wait for it; they only grow old.
#[derive(Debug)]
pub(super) struct Window {
    credits: u32,
    state: Mutex<State>,
    less: Condvar,
}

#[derive(Debug)]
struct State {
    under_way: u32,
    most: u32,
}

impl Window {
    /// It opens with acknowledgements, as many hosts may join at once.
    pub(super) fn new(credits: u32) -> Self {
        Self { credits, state: Mutex::new(State { under_way: 0, most: 1 }), less: Condvar::new() }
    }

    /// Waits until another fragment may be on its way, which ends when the place is dropped.
    pub(super) fn enter(&self) -> Place<'_> {
        let is_full = |state: &mut State| state.under_way >= state.most;
        let mut state = self.less.wait_while(self.lock(), is_full).unwrap_or_else(PoisonError::into_inner);
        state.under_way += 1;
        Place { window: self }
    }

    /// How many fragments may be on their way now.
    #[cfg(test)]
    pub(super) fn most(&self) -> u32 {
        self.lock().most
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The place of one fragment that is on its way.
#[derive(Debug)]
pub(super) struct Place<'a> {
    window: &'a Window,
}

impl Place<'_> {
    /// Notes that the fragment has arrived: how long it travelled, and how long it waited for room in the
    /// learner's inqueue. One that waited for longer than it travelled might have been sent later.
    pub(super) fn arrived(&self, network_secs: f64, blocked_secs: f64) {
        let mut state = self.window.lock();
        let most = match blocked_secs {
            0.0 => state.most + 1,
            _ if blocked_secs > network_secs => state.most - 1,
            _ => state.most,
        };
        state.most = most.clamp(1, self.window.credits);
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.window.lock().under_way -= 1;
        // A window that has become wider may have room for two.
        self.window.less.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How many fragments may be on their way after some that waited for room so long, and travelled for 1 s.
    fn most(window: &Window, blocked_secs: &[f64]) -> u32 {
        blocked_secs.iter().for_each(|blocked_secs| window.enter().arrived(1.0, *blocked_secs));
        window.most()
    }

    #[test]
    fn it_opens_up_to_the_credits_and_closes_down_to_one() {
        let window = Window::new(3);
        assert_eq!([most(&window, &[]), most(&window, &[0.0]), most(&window, &[0.0; 5])], [1, 2, 3]);
        assert_eq!([most(&window, &[1.5]), most(&window, &[0.0, 2.0]), most(&window, &[2.0; 5])], [2, 2, 1]);
        // As soon as there was room: another might have come too late.
        assert_eq!([most(&window, &[0.5]), most(&window, &[0.0, 0.5])], [1, 2]);
    }

    #[test]
    fn who_waits_goes_on_when_another_fragment_has_arrived() {
        let window = Window::new(2);
        let first = window.enter();
        std::thread::scope(|scope| {
            let second = scope.spawn(|| drop(window.enter()));
            first.arrived(0.0, 1.0);
            assert_eq!(window.lock().under_way, 1);
            drop(first);
            second.join().unwrap_or_else(|_| panic!("it waits"));
        });
        assert_eq!(window.lock().under_way, 0);
    }
}
