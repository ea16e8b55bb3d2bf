//! Observations that share elements are the same as those one after another, in all that is done with them.

use super::*;

/// A frame, and frames of a stack.
const FRAME: usize = 5;
const DEPTH: usize = 3;

fn stacks(steps: usize, columns: usize) -> BatchShape {
    BatchShape { obs_len: DEPTH * FRAME, obs_kind: ObsKind::U8, ..shape(steps, columns) }
}

/// Stacks of frames. An episode begins with its first frame `DEPTH` times in the cells that `begins` says.
/// There are so few frames that some stack goes on by chance across the end of an episode.
fn played(shape: BatchShape, begins: &[bool], salt: u8) -> SampleBatch {
    let mut columns = numbered(&shape, u32::from(salt));
    let ObsColumn::U8(obs) = &mut columns.obs else { unreachable!("stacks are bytes") };
    let (width, len) = (shape.columns, shape.obs_len);
    let mut rng = salt;
    for cell in 0..shape.cells_and_last() {
        rng = rng.wrapping_mul(181).wrapping_add(77);
        let frame = [rng >> 6; FRAME];
        let before = cell.checked_sub(width).filter(|_| !begins[cell]).map(|cell| obs[cell * len..][..len].to_vec());
        let stack = match before {
            Some(before) => [&before[FRAME..], &frame].concat(),
            None => frame.repeat(DEPTH),
        };
        obs[cell * len..][..len].copy_from_slice(&stack);
    }
    SampleBatch::new(shape, columns, vec![tag(u32::from(salt))]).unwrap()
}

/// The same batch, with what its observations have in common stored once.
fn shared(batch: &SampleBatch, pool: &Pool) -> SampleBatch {
    let mut shared = batch.clone();
    shared.share_rows(FRAME, pool);
    assert!(shared.shares_rows());
    shared
}

fn assert_same(got: &SampleBatch, expected: &SampleBatch) {
    assert_eq!((got.shape(), got.tags()), (expected.shape(), expected.tags()));
    assert_eq!(got.obs(), expected.obs());
    for t in 0..=got.shape().steps {
        assert_eq!(got.obs_row(t), expected.obs_row(t));
    }
    assert_eq!((got.actions(), got.rewards(), got.ends()), (expected.actions(), expected.rewards(), expected.ends()));
    assert_eq!(got.final_obs(), expected.final_obs());
    assert_eq!(got.behaviour_logp(), expected.behaviour_logp());
    assert_eq!(got.behaviour_inputs(), expected.behaviour_inputs());
    assert_eq!(got.behaviour_values(), expected.behaviour_values());
    assert_eq!((got.state_in(), got.versions()), (expected.state_in(), expected.versions()));
}

fn stored(batch: &SampleBatch) -> usize {
    batch.obs().shared().map_or(batch.obs().count() * batch.shape().obs_len, |(elements, _)| elements.len())
}

/// Steps, and for each of several batches the cells of four columns in which an episode begins: not in that
/// of column 0 and step 1, which has frames in common with the one before.
fn games() -> impl Strategy<Value = (usize, Vec<Vec<bool>>)> {
    (1..6_usize).prop_flat_map(|steps| {
        let begins = prop::collection::vec(prop::bool::weighted(0.3), (steps + 1) * 4).prop_map(|mut begins| {
            begins[4] = false;
            begins
        });
        (Just(steps), prop::collection::vec(begins, 1..4))
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 2 } else { 64 }))]

    #[test]
    fn what_is_shared_is_the_same_in_every_use((steps, games) in games(), picks in prop::collection::vec(0..4_usize, 1..5)) {
        let pool = Pool::new(8);
        let apart: Vec<_> = (1..).zip(&games).map(|(salt, begins)| played(stacks(steps, 4), begins, salt)).collect();
        let once: Vec<_> = apart.iter().map(|batch| shared(batch, &pool)).collect();
        for (once, apart) in once.iter().zip(&apart) {
            assert_same(once, apart);
            assert!(stored(once) <= stored(apart));
            assert_same(&once.select_columns(&picks, &pool).unwrap(), &apart.select_columns(&picks, &pool).unwrap());
            for skipped in 0..steps {
                assert_same(&once.skip_steps(skipped, &pool).unwrap(), &apart.skip_steps(skipped, &pool).unwrap());
            }
            let copy = copy_without_ticket(&MultiAgentBatch::single(once.clone()), &pool).unwrap();
            let copy = copy.get(DEFAULT_POLICY).unwrap();
            assert_same(copy, apart);
            assert_eq!(stored(copy), stored(once));
        }

        let joined = SampleBatch::join(apart.clone(), &pool).unwrap();
        let joined_once = SampleBatch::join(once.clone(), &pool).unwrap();
        assert_same(&joined_once, &joined);
        assert_eq!(stored(&joined_once), once.iter().map(stored).sum::<usize>());
        let columns: Vec<_> = picks.iter().map(|pick| (pick * 7 + 2) % joined.shape().columns).collect();
        let selected = joined_once.select_columns(&columns, &pool).unwrap();
        assert_same(&selected, &joined.select_columns(&columns, &pool).unwrap());
        assert_same(&selected.skip_steps(steps - 1, &pool).unwrap(), &joined.select_columns(&columns, &pool).unwrap().skip_steps(steps - 1, &pool).unwrap());

        // Fragments from elsewhere may be whole.
        let mixed = once.iter().cloned().chain(apart.iter().cloned()).collect();
        let both = apart.iter().cloned().chain(apart.iter().cloned()).collect();
        assert_same(&SampleBatch::join(mixed, &pool).unwrap(), &SampleBatch::join(both, &pool).unwrap());
    }
}

/// Stacks whose frames are all different, but in the cells where an episode begins.
fn all_different(shape: BatchShape, begins: &[usize]) -> SampleBatch {
    let mut batch = SampleBatch::new(shape, numbered(&shape, 1), vec![tag(1)]).unwrap();
    let (width, len) = (shape.columns, shape.obs_len);
    let ObsViewMut::U8(obs) = batch.obs_mut() else { unreachable!("stacks are bytes") };
    for cell in width..shape.cells_and_last() {
        let (before, own) = obs.split_at_mut(cell * len);
        if !begins.contains(&cell) {
            own[..len - FRAME].copy_from_slice(&before[(cell - width) * len + FRAME..][..len - FRAME]);
        }
    }
    batch
}

#[test]
fn a_column_of_one_episode_has_a_frame_for_each_step_and_the_first_stack() {
    let pool = Pool::new(4);
    // Two columns of nine observations; the second one begins anew once, before step 4.
    let unbroken = all_different(stacks(8, 2), &[]);
    assert_eq!(stored(&shared(&unbroken, &pool)), 2 * (8 + DEPTH) * FRAME);
    let broken = all_different(stacks(8, 2), &[4 * 2 + 1]);
    assert_eq!(stored(&shared(&broken, &pool)), (8 + DEPTH) * FRAME + (3 + DEPTH) * FRAME + (4 + DEPTH) * FRAME);
    assert_same(&shared(&broken, &pool), &broken);
    assert_ne!(broken.obs(), unbroken.obs());
    assert_ne!(shared(&broken, &pool).obs(), shared(&unbroken, &pool).obs());
}

#[test]
fn a_batch_with_nothing_in_common_stays_as_it_is() {
    let pool = Pool::new(4);
    let all: Vec<usize> = (0..10).collect();
    let images = all_different(stacks(4, 2), &all);
    let mut same = images.clone();
    same.share_rows(FRAME, &pool);
    assert!(!same.shares_rows());
    assert_same(&same, &images);
}

#[test]
fn selected_columns_bring_only_what_is_theirs() {
    let pool = Pool::new(4);
    let batch = shared(&all_different(stacks(8, 4), &[]), &pool);
    let selected = batch.select_columns(&[2], &pool).unwrap();
    assert_eq!(stored(&selected), (8 + DEPTH) * FRAME);
    assert_eq!(stored(&selected.skip_steps(6, &pool).unwrap()), (2 + DEPTH) * FRAME);
}

#[test]
fn what_is_written_to_or_to_a_file_is_laid_apart() {
    let pool = Pool::new(4);
    let apart = played(stacks(4, 2), &[false; 10], 3);
    let mut batch = shared(&apart, &pool);
    let read: SampleBatch = serde_json::from_str(&serde_json::to_string(&batch).unwrap()).unwrap();
    assert!(!read.shares_rows());
    assert_same(&read, &apart);
    assert_eq!((apart.obs().as_u8().is_some(), batch.obs().as_u8()), (true, None));

    let step = batch.step_mut(1);
    assert_eq!(Some(step.obs), apart.obs_row(1).apart());
    assert!(!batch.shares_rows());
    assert_same(&batch, &apart);
}

#[test]
fn floats_and_what_cannot_be_moved_by_a_frame_stay_as_they_are() {
    let pool = Pool::new(4);
    let floats = SampleBatch::new(shape(4, 2), numbered(&shape(4, 2), 1), vec![tag(1)]).unwrap();
    let mut same = floats.clone();
    same.share_rows(1, &pool);
    assert!(!same.shares_rows());
    assert_same(&same, &floats);
    for shift in [0, DEPTH * FRAME, usize::MAX] {
        let mut stacks = played(stacks(4, 2), &[false; 10], 3);
        stacks.share_rows(shift, &pool);
        assert!(!stacks.shares_rows(), "{shift}");
    }
}

#[test]
fn storage_of_either_kind_is_used_again_for_its_kind() {
    let pool = Pool::new(16);
    let address = |batch: &SampleBatch| match batch.obs().row(0) {
        ObsView::U8(row) => row.as_ptr(),
        ObsView::F32(_) => unreachable!("stacks are bytes"),
    };
    let shape = stacks(8, 2);
    let fragment = || {
        let mut batch = pool.take(shape, tag(1));
        let ObsViewMut::U8(obs) = batch.obs_mut() else { unreachable!("stacks are bytes") };
        obs.fill(0);
        let whole = address(&batch);
        batch.share_rows(FRAME, &pool);
        assert_eq!(stored(&batch), 2 * (8 + DEPTH) * FRAME);
        (batch, whole)
    };
    let (batch, whole) = fragment();
    let once = address(&batch);
    assert_ne!(whole, once);
    drop(batch);
    let (batch, whole_again) = fragment();
    assert_eq!((address(&batch), whole_again), (once, whole));

    // A cycle of all that is done with fragments leaves as much as it takes.
    drop(batch);
    let cycle = || {
        let mut joined = SampleBatch::join(vec![fragment().0, fragment().0], &pool).unwrap();
        drop(joined.select_columns(&[3, 1, 0], &pool).unwrap());
        joined.obs_mut();
        assert!(!joined.shares_rows());
    };
    (0..2).for_each(|_| cycle());
    let idle = pool.idle();
    (0..3).for_each(|_| cycle());
    assert_eq!(pool.idle(), idle);
}
