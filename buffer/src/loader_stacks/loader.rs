use std::error::Error;

/// Copies batches to where the learner reads them, such as the memory of a device.
///
/// The batch's step ticket goes into the stack too. The learner takes it out and settles it; one that is left
/// there settles itself when the stack is loaded again or freed.
pub trait Loader<B> {
    /// What batches are loaded into.
    type Stack;

    /// Loads `batch` into `stack`, in place of the last one.
    ///
    /// # Errors
    /// Ends the run: [`LoaderStacks`](crate::LoaderStacks) returns the error with the thread's name. The
    /// ticket of the dropped batch counts its steps.
    fn load(&mut self, batch: B, stack: &mut Self::Stack) -> Result<(), Box<dyn Error + Send + Sync>>;
}
