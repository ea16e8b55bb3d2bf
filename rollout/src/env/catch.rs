use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Calls code that is not ours; a panic in it comes back as its message.
///
/// Whatever the code was working on is thrown away by the caller after a panic, so nothing half-changed is seen.
#[inline]
pub(crate) fn catch<R>(call: impl FnOnce() -> R) -> Result<R, String> {
    catch_unwind(AssertUnwindSafe(call)).map_err(panic_text)
}

/// The message of a panic, for the two types that `panic!` makes.
#[cold]
pub(crate) fn panic_text(payload: Box<dyn Any + Send>) -> String {
    match payload.downcast::<String>() {
        Ok(text) => *text,
        Err(payload) => match payload.downcast::<&'static str>() {
            Ok(text) => (*text).to_owned(),
            Err(_) => "a panic whose payload is not text".to_owned(),
        },
    }
}
