use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Calls a function that may panic; a panic comes back as its message.
///
/// After a panic the caller drops what the function was changing, so that no half-changed state is read.
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

/// The message of a panic that was caught.
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
