use crate::{ParamLayout, PolicyError};

/// Checks that layout `got` equals `expected`.
pub(crate) fn check_layout(expected: &ParamLayout, got: &ParamLayout) -> Result<(), PolicyError> {
    if std::ptr::eq(expected, got) || expected == got {
        return Ok(());
    }
    let differing = expected.entries().iter().zip(got.entries()).find(|(expected, got)| expected != got);
    let reason = match differing {
        Some((expected, got)) => {
            let (a, b) = (&expected.name, &got.name);
            format!("expected `{a}` of shape {:?}, got `{b}` of shape {:?}", expected.shape, got.shape)
        }
        None => format!("expected {} tensors, got {}", expected.entries().len(), got.entries().len()),
    };
    Err(PolicyError::WrongParams { reason })
}
