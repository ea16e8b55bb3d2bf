//! How environments get back into their episodes: each is played again from its seed and its actions.

use pronk_buffer::{ActionView, ObsColumn};
use pronk_rollout::{CallMonitor, End, FailurePlace, SavedEnv, Way};

use crate::group::{Failed, Group};
use crate::order::Order;
use crate::settings::ProcessEnvs;

/// The processes of a worker while they play again.
pub(crate) struct Rerun<'a> {
    pub(crate) groups: &'a mut [Group],
    pub(crate) settings: &'a ProcessEnvs,
    pub(crate) monitor: &'a CallMonitor,
}

/// A process that failed meanwhile.
pub(crate) struct Stopped {
    pub(crate) number: usize,
    pub(crate) order: Order,
    pub(crate) place: FailurePlace,
    pub(crate) failed: Box<Failed>,
}

/// One environment on its way back.
struct Player<'a> {
    /// Of its process.
    number: usize,
    /// Within the worker.
    index: usize,
    saved: &'a SavedEnv,
    /// `[len, act_len]`
    actions: ActionView<'a>,
    /// Of the rewards so far.
    sum: f64,
    /// Why it does not get back.
    lost: Option<String>,
}

impl Player<'_> {
    fn len(&self) -> usize {
        self.saved.episodes.len as usize
    }

    /// The call that makes this step, or the reset.
    fn place(&self, step: Option<usize>) -> FailurePlace {
        let episode_seed = self.saved.episodes.seed;
        match step {
            None => FailurePlace::Reset { episode_seed },
            Some(step) => FailurePlace::Step { episode_seed, step: step as u32 + 1 },
        }
    }
}

impl Rerun<'_> {
    /// Plays the running episodes of all environments again, and says why of those that do not get back.
    /// `row` is scratch, `[obs_len]`.
    pub(crate) fn play(&mut self, saved: &[SavedEnv], row: &mut ObsColumn) -> Result<Vec<(usize, String)>, Stopped> {
        let mut lost = Vec::new();
        let most = self.groups.iter().map(Group::n_envs).max().unwrap_or(0);
        // One environment of each process at a time, so that all processes play in parallel.
        for env in 0..most {
            let mut players = Vec::new();
            for (number, group) in self.groups.iter().enumerate().filter(|(_, group)| env < group.n_envs()) {
                let index = group.first_env() + env;
                match saved.get(index) {
                    Some(saved @ SavedEnv { way: Way::Rerun(actions), .. }) => {
                        players.push(Player { number, index, saved, actions: actions.view(), sum: 0.0, lost: None });
                    }
                    Some(saved) => lost.push((index, saved.episodes.why_unknown())),
                    None => lost.push((index, "it was not saved".to_owned())),
                }
            }
            self.play_one_each(env, &mut players, row)?;
            lost.extend(players.into_iter().filter_map(|player| Some((player.index, player.lost?))));
        }
        Ok(lost)
    }

    /// Plays the episode of the environment `env` of each process.
    fn play_one_each(&mut self, env: usize, players: &mut [Player<'_>], row: &mut ObsColumn) -> Result<(), Stopped> {
        for player in &*players {
            self.groups[player.number].shared().set_seed(env, player.saved.episodes.seed);
        }
        self.carry_out(env, &players.iter().collect::<Vec<_>>(), None)?;
        for step in 0..players.iter().map(Player::len).max().unwrap_or(0) {
            let plays = |player: &Player<'_>| step < player.len() && player.lost.is_none();
            for player in players.iter_mut().filter(|player| plays(player)) {
                let act_len = player.actions.len() / player.len();
                let action = player.actions.row(step, act_len).into();
                let acted = self.groups[player.number].shared().act(0, env..env + 1, action);
                player.lost = acted.err().map(|error| error.to_string());
            }
            self.carry_out(env, &players.iter().filter(|player| plays(player)).collect::<Vec<_>>(), Some(step))?;
            for player in players.iter_mut().filter(|player| plays(player)) {
                let mut end = [End::No];
                let read = self.groups[player.number].ends(0, env, &mut end);
                read.map_err(|failed| self.stopped(player, Some(step), failed))?;
                let mut reward = [0.0];
                self.groups[player.number].shared().rewards(0, env, &mut reward);
                // Rounded as in the episode before.
                player.sum += f64::from(reward[0] as f32);
                if end != [End::No] {
                    let text = format!("played again, its episode ended with step {}: {:?}", step + 1, end[0]);
                    player.lost = Some(text);
                }
            }
        }
        for player in players.iter_mut().filter(|player| player.lost.is_none()) {
            let seen = self.groups[player.number].shared().observe(0, env, row.view_mut().into());
            let seen = seen.map_err(|error| error.to_string());
            player.lost = seen.and_then(|()| player.saved.check(row.view(), player.sum)).err();
        }
        Ok(())
    }

    /// Has an environment of each of these processes make a step, or begin.
    fn carry_out(&mut self, env: usize, players: &[&Player<'_>], step: Option<usize>) -> Result<(), Stopped> {
        let order = order(step);
        let deadline = order.deadline(self.settings);
        for player in players {
            let told = self.groups[player.number].order(order, Some(env), &deadline);
            told.map_err(|failed| self.stopped(player, step, failed))?;
        }
        for player in players {
            self.monitor.at(player.index as u32, player.place(step));
            let done = self.groups[player.number].answer(order, &deadline);
            done.map_err(|failed| self.stopped(player, step, failed))?;
        }
        Ok(())
    }

    #[cold]
    fn stopped(&self, player: &Player<'_>, step: Option<usize>, failed: Failed) -> Stopped {
        Stopped { number: player.number, order: order(step), place: player.place(step), failed: Box::new(failed) }
    }
}

fn order(step: Option<usize>) -> Order {
    if step.is_some() { Order::Step } else { Order::Reset }
}
