use std::marker::PhantomData;

use pronk_policy::derive_seed;

use super::super::kernel::Kernel;
use crate::env::SavedEpisodes;

/// Environments per block: few enough for the L1 cache, many times the width of a SIMD register.
pub(super) const BLOCK: usize = 64;

/// One component of the state of every environment of a block.
pub(super) type Column = [f64; BLOCK];

/// The states of all environments, in columns: component `k` of environment `i` of a block is
/// `columns[k][i]`.
#[derive(Debug)]
pub(super) struct States<K> {
    pub(super) n_envs: usize,
    /// One block after the other, each with a column for every component of the state.
    pub(super) columns: Vec<Column>,
    kernel: PhantomData<fn() -> K>,
}

impl<K: Kernel> States<K> {
    pub(super) fn new(n_envs: usize) -> Self {
        let columns = vec![[0.0; BLOCK]; n_envs.div_ceil(BLOCK) * state_len::<K>()];
        Self { n_envs, columns, kernel: PhantomData }
    }

    fn block(&self, index: usize) -> usize {
        assert!(index < self.n_envs, "environment {index} of {}", self.n_envs);
        index / BLOCK * state_len::<K>()
    }

    pub(super) fn get(&self, index: usize) -> K::State {
        let mut state = K::State::default();
        for (value, column) in state.as_mut().iter_mut().zip(&self.columns[self.block(index)..]) {
            *value = column[index % BLOCK];
        }
        state
    }

    pub(super) fn set(&mut self, index: usize, state: &K::State) {
        let block = self.block(index);
        for (value, column) in state.as_ref().iter().zip(&mut self.columns[block..]) {
            column[index % BLOCK] = *value;
        }
    }
}

#[inline(always)]
pub(super) fn state_len<K: Kernel>() -> usize {
    K::State::default().as_ref().len()
}

/// The episodes of all environments. Counting a step vectorises over the columns of lengths and sums.
#[derive(Debug)]
pub(super) struct Episodes {
    /// What the seeds of each environment's episodes derive from.
    env_seeds: Vec<u64>,
    begun: Vec<u64>,
    pub(super) seeds: Vec<u64>,
    pub(super) lens: Vec<u32>,
    pub(super) sums: Vec<f64>,
}

impl Episodes {
    pub(super) fn new(env_seeds: Vec<u64>) -> Self {
        let n = env_seeds.len();
        Self { env_seeds, begun: vec![0; n], seeds: vec![0; n], lens: vec![0; n], sums: vec![0.0; n] }
    }

    pub(super) fn save(&self, index: usize) -> SavedEpisodes {
        let Self { begun, seeds, lens, sums, .. } = self;
        SavedEpisodes { n_begun: begun[index], seed: seeds[index], len: lens[index], sum: sums[index] }
    }

    pub(super) fn load(&mut self, index: usize, saved: SavedEpisodes) {
        let SavedEpisodes { n_begun, seed, len, sum } = saved;
        (self.begun[index], self.seeds[index], self.lens[index], self.sums[index]) = (n_begun, seed, len, sum);
    }

    /// Begins the next episode and returns its seed.
    pub(super) fn begin(&mut self, index: usize) -> u64 {
        let seed = derive_seed(self.env_seeds[index], &[self.begun[index]]);
        // As `Episodes` of the environments of users do: a file may hold any number.
        self.begun[index] = self.begun[index].wrapping_add(1);
        (self.seeds[index], self.lens[index], self.sums[index]) = (seed, 0, 0.0);
        seed
    }
}
