use std::fmt;
use std::ops::{Deref, DerefMut};

use crate::sync::channel::Sender;

/// A loaded stack; dropping it returns the stack, or frees it if its [`LoaderStacks`](crate::LoaderStacks) is
/// gone.
pub struct Loaded<T> {
    /// Present until the guard is dropped.
    stack: Option<T>,
    home: Sender<T>,
}

impl<T> Loaded<T> {
    pub(super) fn new(stack: T, home: Sender<T>) -> Self {
        Self { stack: Some(stack), home }
    }
}

impl<T> Deref for Loaded<T> {
    type Target = T;

    fn deref(&self) -> &T {
        match &self.stack {
            Some(stack) => stack,
            // Only `drop` takes the stack.
            None => unreachable!("a guard holds its stack until it is dropped"),
        }
    }
}

impl<T> DerefMut for Loaded<T> {
    fn deref_mut(&mut self) -> &mut T {
        match &mut self.stack {
            Some(stack) => stack,
            // As above.
            None => unreachable!("a guard holds its stack until it is dropped"),
        }
    }
}

impl<T> Drop for Loaded<T> {
    fn drop(&mut self) {
        if let Some(stack) = self.stack.take() {
            // There is room for every stack. Without loaders it is freed.
            drop(self.home.try_send(stack));
        }
    }
}

impl<T: fmt::Debug> fmt::Debug for Loaded<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Loaded").field(&**self).finish()
    }
}
