//! [`Window`]: how many fragments of a host are on their way.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

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
    /// Notes whether the fragment found the learner's inqueue full.
    pub(super) fn found_full(&self, is_full: bool) {
        let mut state = self.window.lock();
        state.most = if is_full { state.most - 1 } else { state.most + 1 }.clamp(1, self.window.credits);
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

    /// How many fragments may be on their way after acknowledgements that found the inqueue full or not.
    fn most(window: &Window, acknowledged: &[bool]) -> u32 {
        acknowledged.iter().for_each(|is_full| window.enter().found_full(*is_full));
        window.lock().most
    }

    #[test]
    fn it_opens_up_to_the_credits_and_closes_down_to_one() {
        let window = Window::new(3);
        assert_eq!([most(&window, &[]), most(&window, &[false]), most(&window, &[false; 5])], [1, 2, 3]);
        assert_eq!([most(&window, &[true]), most(&window, &[false, true]), most(&window, &[true; 5])], [2, 2, 1]);
    }

    #[test]
    fn who_waits_goes_on_when_another_fragment_has_arrived() {
        let window = Window::new(2);
        let first = window.enter();
        std::thread::scope(|scope| {
            let second = scope.spawn(|| drop(window.enter()));
            first.found_full(true);
            assert_eq!(window.lock().under_way, 1);
            drop(first);
            second.join().unwrap_or_else(|_| panic!("it waits"));
        });
        assert_eq!(window.lock().under_way, 0);
    }
}
