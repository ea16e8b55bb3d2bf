//! Views of the buffer room as views of the policy room: neither room depends on the other.

use pronk_buffer::{ActionViewMut, ObsView};
use pronk_policy::{ActionsMut, ObsRef};

pub(crate) fn observations(obs: ObsView<'_>) -> ObsRef<'_> {
    match obs {
        ObsView::F32(obs) => ObsRef::F32(obs),
        ObsView::U8(obs) => ObsRef::U8(obs),
    }
}

pub(crate) fn actions(actions: ActionViewMut<'_>) -> ActionsMut<'_> {
    match actions {
        ActionViewMut::U32(actions) => ActionsMut::Discrete(actions),
        ActionViewMut::F32(actions) => ActionsMut::Continuous(actions),
    }
}
