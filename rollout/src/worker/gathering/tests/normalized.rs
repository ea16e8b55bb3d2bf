//! Environments whose observations are normalised.

use super::*;
use crate::pool::AsyncEnvs;
use crate::testing::{Constant, of_default};
use crate::worker::NormalizerConfig;
use crate::worker::gathering::tests::tasks::Awaited;

#[test]
fn every_row_of_a_column_is_on_that_columns_scale_and_so_is_its_value() {
    let spec = Constant.spec();
    let network = NetworkSpec::for_spaces(&spec.observation, &spec.action).unwrap();
    let first = Versioned::new(0, of_default(network.init_params(1).unwrap()));
    let on_threads: Arc<dyn EnvFactory> = Arc::new(|_: &EnvContext| Constant);
    let as_tasks: Arc<dyn EnvFactory> = Arc::new(AsyncEnvs::new(|_: EnvContext| async { Awaited(Constant) }));
    for (factory, n_groups) in [(on_threads, 2), (as_tasks, 1)] {
        for gather in [Gather::All, Gather::InTurn, at_least(1)] {
            let (links, _steps, _guard) = links();
            let network = Box::new(CpuNetwork::new(&network).unwrap());
            let mut config = of_groups(4, n_groups, gather);
            config.worker.normalize = NormalizerConfig { observations: true, return_gamma: None };
            let mut worker = RolloutWorker::gathering(config, Arc::clone(&factory), network, links).unwrap();
            let (mut weights, mut clipped, mut n_moments) = (first.clone(), 0, 0);
            for _ in 0..8 {
                let mut fragment = fragments(&mut worker, &weights, 1).remove(0);
                for moments in fragment.take_moments() {
                    n_moments += 1;
                    Arc::make_mut(&mut weights.moments).merge(&moments);
                }
                let batch = only(&fragment);
                let (obs, values) = (batch.obs().as_f32().unwrap(), batch.behaviour_values());
                for b in 0..4 {
                    // Clipped until the weights come with something known of them as a column begins; at the
                    // mean from then on.
                    let column: Vec<f32> = obs.iter().copied().skip(b).step_by(4).collect();
                    assert!(column == [10.0; 5] || column == [0.0; 5], "{n_groups} {gather:?}: {column:?}");
                    clipped += usize::from(column[0] == 10.0);
                    let values: Vec<f32> = values.iter().copied().skip(b).step_by(4).collect();
                    assert_eq!(values, [values[0]; 5], "{n_groups} {gather:?}: {column:?}");
                }
            }
            assert_eq!(n_moments, 8, "one of each fragment");
            let first_rows = 4;
            let seen = weights.moments.observations.as_ref().unwrap().count();
            assert!((0..=first_rows).contains(&(seen - 8 * 4 * 4)), "{n_groups} {gather:?}: {seen}");
            // Those of the first fragment, and those that groups had begun before it was full.
            let most = if gather == Gather::All { 4 } else { 8 };
            assert!((4..=most).contains(&clipped), "{n_groups} {gather:?}: {clipped}");
        }
    }
}
