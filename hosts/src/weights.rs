//! Weights as bytes: a header, then the parameters of every policy as they lie in memory.

use std::sync::Arc;

use pronk_buffer::Versioned;
use pronk_metrics::{ByPolicy, NormalizerMoments, PolicyId, RunningMoments};
use pronk_policy::{ParamLayout, Params};
use serde::{Deserialize, Serialize};

#[cfg(target_endian = "big")]
compile_error!("numbers cross the network as little-endian memory");

/// What stands in front of the parameters.
#[derive(Serialize, Deserialize)]
struct Head {
    /// Each policy, with the number of its parameters.
    policies: Vec<(PolicyId, u64)>,
    /// Of observations and returns; fields cannot be left out in this format.
    moments: (Option<RunningMoments>, Option<RunningMoments>),
}

/// Why weights cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum WeightsError {
    #[error("weights of {got} bytes cannot be read")]
    Unreadable { got: usize },
    #[error("weights of other policies or sizes than those of the networks")]
    Misfit,
}

/// A snapshot as bytes.
pub(crate) fn encode(snapshot: &Versioned<ByPolicy<Params>>) -> Vec<u8> {
    let NormalizerMoments { observations, returns } = &*snapshot.moments;
    let len = |(policy, params): (&PolicyId, &Params)| (policy.clone(), params.values().len() as u64);
    let head =
        Head { policies: snapshot.weights.iter().map(len).collect(), moments: (observations.clone(), returns.clone()) };
    // Plain data, which postcard can always write to memory.
    let head = postcard::to_stdvec(&head).unwrap_or_default();
    let values: usize = snapshot.weights.values().map(|params| size_of_val(params.values())).sum();
    let mut bytes = Vec::with_capacity(4 + head.len() + values);
    bytes.extend_from_slice(&(head.len() as u32).to_le_bytes());
    bytes.extend_from_slice(&head);
    snapshot.weights.values().for_each(|params| bytes.extend_from_slice(bytemuck::cast_slice(params.values())));
    bytes
}

/// Encoded weights that fit the networks of this host.
pub(crate) struct Received<'a> {
    moments: NormalizerMoments,
    /// Each policy with its parameters.
    policies: Vec<(PolicyId, &'a [u8])>,
}

impl<'a> Received<'a> {
    /// Checks weights against the layouts of the networks.
    pub(crate) fn read(bytes: &'a [u8], layouts: &ByPolicy<Arc<ParamLayout>>) -> Result<Self, WeightsError> {
        let unreadable = || WeightsError::Unreadable { got: bytes.len() };
        let (len, rest) = bytes.split_first_chunk::<4>().ok_or_else(unreadable)?;
        let (head, mut values) = rest.split_at_checked(u32::from_le_bytes(*len) as usize).ok_or_else(unreadable)?;
        let Head { policies, moments: (observations, returns) } =
            postcard::from_bytes(head).map_err(|_| unreadable())?;
        let are_moments = |moments: &RunningMoments| moments.is_of(moments.mean().len());
        if ![&observations, &returns].into_iter().flatten().all(are_moments) {
            return Err(unreadable());
        }
        if !policies.iter().map(|(policy, _)| policy).eq(layouts.keys()) {
            return Err(WeightsError::Misfit);
        }
        let mut received = Vec::with_capacity(policies.len());
        for ((policy, n), layout) in policies.into_iter().zip(layouts.values()) {
            if n != layout.len() as u64 {
                return Err(WeightsError::Misfit);
            }
            let (own, rest) = values.split_at_checked(size_of::<f32>() * layout.len()).ok_or_else(unreadable)?;
            received.push((policy, own));
            values = rest;
        }
        if !values.is_empty() {
            return Err(unreadable());
        }
        Ok(Self { moments: NormalizerMoments { observations, returns }, policies: received })
    }

    pub(crate) fn moments(&self) -> NormalizerMoments {
        self.moments.clone()
    }

    /// The parameters, in `recycled` ones if there are any.
    pub(crate) fn params(
        &self,
        layouts: &ByPolicy<Arc<ParamLayout>>,
        recycled: Option<ByPolicy<Params>>,
    ) -> ByPolicy<Params> {
        let mut all = recycled.unwrap_or_default();
        for ((policy, bytes), layout) in self.policies.iter().zip(layouts.values()) {
            let params = all.entry(policy.clone()).or_insert_with(|| Params::zeros(Arc::clone(layout)));
            bytemuck::cast_slice_mut(params.values_mut()).copy_from_slice(bytes);
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layouts() -> ByPolicy<Arc<ParamLayout>> {
        let layout = |n| Arc::new(ParamLayout::new([("weight", vec![n, 2])]));
        ByPolicy::from([("a".into(), layout(3)), ("b".into(), layout(1))])
    }

    fn snapshot() -> Versioned<ByPolicy<Params>> {
        let mut moments = RunningMoments::new(1);
        moments.add_rows(&[1.0_f32, 3.0]);
        let params = layouts().into_iter().map(|(policy, layout)| {
            let values = (0..layout.len()).map(|i| i as f32 - 0.5).collect();
            (policy, Params::new(layout, values).unwrap())
        });
        Versioned {
            version: 7,
            weights: params.collect(),
            moments: Arc::new(NormalizerMoments { observations: Some(moments), returns: None }),
        }
    }

    #[test]
    fn weights_and_moments_arrive_as_they_were_in_new_and_in_recycled_memory() {
        let (sent, layouts) = (snapshot(), layouts());
        let bytes = encode(&sent);
        let received = Received::read(&bytes, &layouts).unwrap();
        assert_eq!(received.moments(), *sent.moments);
        let values = |all: &ByPolicy<Params>| all.values().map(|it| it.values().to_vec()).collect::<Vec<_>>();
        let fresh = received.params(&layouts, None);
        assert_eq!(values(&fresh), values(&sent.weights));
        let place = fresh["a"].values().as_ptr();
        let mut other = sent.clone();
        other.weights.values_mut().for_each(|params| params.values_mut().fill(2.0));
        let recycled = Received::read(&encode(&other), &layouts).unwrap().params(&layouts, Some(fresh));
        assert_eq!(values(&recycled), values(&other.weights));
        assert_eq!(recycled["a"].values().as_ptr(), place);
    }

    #[test]
    fn moments_that_are_none_are_refused() {
        // Means and squares of other lengths, and a negative sum of squares.
        for squares in [&[][..], &[-1.0]] {
            let moments: RunningMoments =
                postcard::from_bytes(&postcard::to_stdvec(&(2_u64, &[2.0][..], squares)).unwrap()).unwrap();
            let moments = Arc::new(NormalizerMoments { observations: None, returns: Some(moments) });
            let bytes = encode(&Versioned { moments, ..snapshot() });
            assert!(Received::read(&bytes, &layouts()).is_err(), "{squares:?}");
        }
    }

    #[test]
    fn weights_of_other_networks_and_cut_off_ones_are_refused() {
        let bytes = encode(&snapshot());
        for len in 0..bytes.len() {
            assert!(Received::read(&bytes[..len], &layouts()).is_err(), "{len} bytes");
        }
        let longer = [&bytes[..], &[0]].concat();
        assert!(Received::read(&longer, &layouts()).is_err());
        let mut fewer = layouts();
        fewer.remove("b");
        assert_eq!(Received::read(&bytes, &fewer).err(), Some(WeightsError::Misfit));
        let mut wider = layouts();
        wider.insert("b".into(), Arc::new(ParamLayout::new([("weight", vec![9])])));
        assert_eq!(Received::read(&bytes, &wider).err(), Some(WeightsError::Misfit));
    }
}
