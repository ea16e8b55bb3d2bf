use pronk_buffer::{ObsColumn, ObsRows, ObsView};
use pronk_policy::{Input, ObsRef};

pub(crate) fn obs_ref(obs: ObsView<'_>) -> ObsRef<'_> {
    match obs {
        ObsView::F32(obs) => ObsRef::F32(obs),
        ObsView::U8(obs) => ObsRef::U8(obs),
    }
}

/// Observations as the input of a network, which either reads rows that share elements or gets one after
/// another, in `room` if need be.
pub(super) fn input_of<'a>(rows: ObsRows<'a>, reads_shared_rows: bool, room: &'a mut ObsColumn) -> Input<'a> {
    match rows.shared() {
        Some((elements, starts)) if reads_shared_rows => {
            Input::new(obs_ref(elements), starts.len()).with_row_starts(starts)
        }
        _ => Input::new(obs_ref(rows.laid_apart(room)), rows.count()),
    }
}
