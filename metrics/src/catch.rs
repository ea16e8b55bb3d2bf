use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Calls a function and returns the message if it panics. Callers then drop what it was changing.
///
/// ```
/// use pronk_metrics::catch;
///
/// assert_eq!(catch(|| 2 + 2), Ok(4));
/// assert_eq!(catch(|| -> u32 { panic!("no display") }), Err("no display".to_owned()));
/// ```
#[inline]
pub fn catch<R>(call: impl FnOnce() -> R) -> Result<R, String> {
    catch_unwind(AssertUnwindSafe(call)).map_err(panic_text)
}

/// The message of a caught panic.
#[cold]
pub fn panic_text(payload: Box<dyn Any + Send>) -> String {
    match payload.downcast::<String>() {
        Ok(text) => *text,
        Err(payload) => match payload.downcast::<&'static str>() {
            Ok(text) => (*text).to_owned(),
            Err(_) => "a panic whose payload is not text".to_owned(),
        },
    }
}
