//! What every [`Source`](crate::Source) promises, as functions that an implementer calls from tests.
