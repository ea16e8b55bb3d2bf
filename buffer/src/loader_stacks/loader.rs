use std::error::Error;

/// Copies batches to where they are learned from, for example into the memory of a device.
///
/// What the batch carries besides samples, its step ticket above all, goes into the stack with them. Whoever
/// learns from the stack takes the ticket out and settles it. One that was forgotten there settles itself
/// when the stack is loaded anew or freed, because the new one takes its place.
pub trait Loader<B> {
    /// What batches are loaded into, again and again.
    type Stack;

    /// Loads `batch` into `stack`, in place of what was there before.
    ///
    /// # Errors
    /// Ends the run: the thread's name and the error come out of [`LoaderStacks`](crate::LoaderStacks). The
    /// batch was dropped then, and its ticket counts its steps.
    fn load(&mut self, batch: B, stack: &mut Self::Stack) -> Result<(), Box<dyn Error + Send + Sync>>;
}
