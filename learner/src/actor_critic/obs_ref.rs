use pronk_buffer::ObsView;
use pronk_policy::ObsRef;

pub(crate) fn obs_ref(obs: ObsView<'_>) -> ObsRef<'_> {
    match obs {
        ObsView::F32(obs) => ObsRef::F32(obs),
        ObsView::U8(obs) => ObsRef::U8(obs),
    }
}
