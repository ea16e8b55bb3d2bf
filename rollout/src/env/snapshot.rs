//! States of environments as bytes.

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::error::EnvError;

/// A state as bytes: for [`Env::save`](crate::Env::save).
pub(crate) fn to_bytes(state: &impl Serialize) -> Option<Vec<u8>> {
    postcard::to_stdvec(state).ok()
}

/// A state out of bytes. An error for bytes of another state.
pub(crate) fn from_bytes<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, EnvError> {
    match postcard::take_from_bytes(bytes) {
        Ok((state, [])) => Ok(state),
        Ok((_, rest)) => Err(EnvError::new(format!("the saved state has {} bytes more than expected", rest.len()))),
        Err(error) => Err(EnvError::new(format!("the saved state is not one of this environment: {error}"))),
    }
}
