#![allow(clippy::unwrap_used)]

use pronk_buffer::{ActionKind, BatchShape, ObsKind, SampleBatch, Tag};
use pronk_metrics::{StepLedger, StepTotals};
use pronk_policy::{CpuNetwork, DataParallel, Network, NetworkSpec, ObsRef, Space};

use super::*;

fn batch(policies: &[&str]) -> (MultiAgentBatch, StepLedger) {
    let shape = BatchShape {
        steps: 3,
        columns: 2,
        obs_len: 4,
        obs_kind: ObsKind::F32,
        act_len: 1,
        act_kind: ActionKind::U32,
        dist_len: 2,
        state_len: 0,
    };
    let parts = policies.iter().map(|policy| ((*policy).into(), SampleBatch::blank(shape, Tag::default()))).collect();
    let ledger = StepLedger::new();
    let batch = MultiAgentBatch::new(parts, 6).unwrap();
    let ticket = ledger.sampled(batch.steps());
    (batch.with_ticket(ticket), ledger)
}

fn closed(ledger: &StepLedger) -> StepTotals {
    let totals = ledger.snapshot();
    assert!(totals.is_closed() && totals.in_flight.env == 0, "{totals:?}");
    totals
}

fn devices() -> Arc<dyn ObsLoader> {
    let space = Space::boxed(vec![0.0; 4], vec![1.0; 4], vec![4]).unwrap();
    let spec = NetworkSpec::for_spaces(&space, &Space::discrete(2).unwrap()).unwrap();
    let replica = || Box::new(CpuNetwork::new(&spec).unwrap()) as Box<dyn Network>;
    DataParallel::new(vec![replica(), replica()]).unwrap().obs_loader().unwrap()
}

#[test]
fn a_stack_holds_the_samples_with_their_ticket_and_the_observations_of_each_policy() {
    let mut loader = StackLoader::new(ByPolicy::from([("a".into(), devices()), ("b".into(), devices())]));
    let mut stack = Stack::default();
    let (both, ledger) = batch(&["a", "b"]);
    loader.load(both, &mut stack).unwrap();
    let loaded = stack.batch().loaded.unwrap();
    assert_eq!((loaded["a"].rows(), loaded["b"].rows()), (8, 8));
    stack.samples_mut().take_ticket().unwrap().trained();
    assert_eq!(closed(&ledger).trained_once.agent, 12);
    // What the next batch has nothing of is not there any more.
    let (one, ledger) = batch(&["b"]);
    loader.load(one, &mut stack).unwrap();
    assert_eq!(stack.batch().loaded.unwrap().keys().map(|policy| &**policy).collect::<Vec<_>>(), ["b"]);
    drop(stack);
    assert_eq!(closed(&ledger).dropped["discarded"].env, 6);
}

/// Keeps what it was to load.
#[derive(Default)]
struct Seen(std::sync::Mutex<Vec<u8>>);

impl ObsLoader for Seen {
    fn load(&self, obs: ObsRef<'_>, _: usize, _: &mut LoadedObs) -> Result<(), PolicyError> {
        let ObsRef::U8(obs) = obs else { unreachable!("stacks are bytes") };
        self.0.lock().unwrap().extend_from_slice(obs);
        Ok(())
    }
}

#[test]
fn observations_that_share_elements_are_loaded_one_after_another() {
    let (batch, _ledger) = batch(&["a"]);
    let shape = BatchShape { obs_kind: ObsKind::U8, ..*batch.get("a").unwrap().shape() };
    let mut samples = SampleBatch::blank(shape, Tag::default());
    let rows: Vec<u8> = (0..8).flat_map(|cell| (0..4).map(move |i| cell / 2 + i)).collect();
    samples.obs_mut().copy_from(pronk_buffer::ObsView::U8(&rows)).unwrap();
    samples.share_rows(1, &pronk_buffer::Pool::new(1));
    assert!(samples.shares_rows());
    let seen = Arc::new(Seen::default());
    let mut loader = StackLoader::new(ByPolicy::from([("a".into(), Arc::clone(&seen) as Arc<dyn ObsLoader>)]));
    let batch = MultiAgentBatch::new([("a".into(), samples)].into(), 6).unwrap();
    loader.load(batch, &mut Stack::default()).unwrap();
    assert_eq!(*seen.0.lock().unwrap(), rows);
}

/// Goes wrong.
struct Broken(fn() -> Result<(), PolicyError>);

impl ObsLoader for Broken {
    fn load(&self, _: ObsRef<'_>, _: usize, _: &mut LoadedObs) -> Result<(), PolicyError> {
        (self.0)()
    }
}

#[test]
fn what_could_not_be_loaded_is_counted_as_lost() {
    let load = |broken| {
        let (batch, ledger) = batch(&["a"]);
        let mut loader = StackLoader::new(ByPolicy::from([("a".into(), Arc::new(broken) as Arc<dyn ObsLoader>)]));
        let mut stack = Stack::default();
        (catch_unwind(AssertUnwindSafe(|| loader.load(batch, &mut stack))), ledger)
    };
    let (failed, ledger) = load(Broken(|| Err(PolicyError::BadSpec { reason: "no room on the device".to_owned() })));
    assert!(failed.unwrap().unwrap_err().to_string().contains("no room on the device"));
    assert_eq!(closed(&ledger).lost["loader_error"].env, 6);
    let (panicked, ledger) = load(Broken(|| panic!("pulled the plug")));
    assert_eq!(panicked.unwrap_err().downcast_ref::<&str>(), Some(&"pulled the plug"));
    assert_eq!(closed(&ledger).lost["loader_panic"].env, 6);
}
