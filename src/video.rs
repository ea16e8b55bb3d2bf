//! Videos of episodes: animated PNGs, which every browser plays.

mod animation;
mod error;
#[cfg(test)]
mod tests;

use std::fs;
use std::ops::ControlFlow;
use std::path::Path;

use pronk_buffer::shutdown;
use pronk_metrics::{ByPolicy, write_whole};
use pronk_policy::{ActionSelection, Policy};
use pronk_rollout::{
    Audience, CallMonitor, EnvFactory, EpisodeStat, Evaluation, EvaluationPlan, Frame, MultiAgentFactory, OnProgress,
    Players, PolicyMapping, evaluate_beside,
};

use animation::Animation;
pub use error::VideoError;

/// An episode as an animated PNG. An image viewer that plays none shows its first frame.
///
/// ```
/// use pronk::envs::CartPole;
/// use pronk::policy::NetworkSpec;
/// use pronk::prelude::*;
/// use pronk::video::{VideoOptions, record_episode};
/// use pronk::{ActionSelection, Policy};
///
/// let env = CartPole::new().spec();
/// let network = NetworkSpec::for_spaces(&env.observation, &env.action)?;
/// let mut policy = Policy::new(network.clone(), network.init_params(0)?, &env.action)?;
/// // Or that of a run: `Checkpoint::load("runs/1")?.policy()?`.
///
/// let factory = |_: &EnvContext| CartPole::new();
/// let options = VideoOptions::default();
/// let video = record_episode(&mut policy, &mut ActionSelection::Mode, &factory, 7, &options)?;
/// let video = video.expect("CartPole draws itself");
/// assert_eq!(video.n_frames(), video.episode().episode_len + 1);
/// let folder = tempfile::tempdir()?;
/// video.save(folder.path().join("episode.png"))?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Video {
    png: Vec<u8>,
    n_frames: u32,
    episode: EpisodeStat,
}

/// How long a video gets.
///
/// ```
/// use pronk::video::VideoOptions;
///
/// let short = VideoOptions { max_frames: 100, ..VideoOptions::default() };
/// # let _ = short;
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VideoOptions {
    /// How many frames a video has at most. Then it ends, before its episode does.
    pub max_frames: u32,
    /// How many bytes the frames of a video have at most, compressed. Only the first may have more.
    pub max_bytes: usize,
    /// How many frames a second are shown; `None` for the rate of the environment. More than 60 count as 60:
    /// browsers show anything much faster slowly.
    pub fps: Option<u16>,
}

impl Default for VideoOptions {
    /// 2,000 frames and 32 MiB, at the rate of the environment.
    fn default() -> Self {
        Self { max_frames: 2_000, max_bytes: 32 << 20, fps: None }
    }
}

impl VideoOptions {
    fn check(&self) -> Result<(), VideoError> {
        let zero = if self.max_frames == 0 {
            "max_frames"
        } else if self.max_bytes == 0 {
            "max_bytes"
        } else if self.fps == Some(0) {
            "fps"
        } else {
            return Ok(());
        };
        Err(VideoError::Options { reason: format!("`{zero}` is 0, but a video shows at least one frame: raise it") })
    }
}

/// Plays an episode of the environment that `factory` makes and records it; `None` if that draws no frames.
///
/// Equal seeds give the episode with which [`evaluate`](crate::evaluate) begins. It is played to its end,
/// also where the video ends earlier.
pub fn record_episode(
    policy: &mut Policy,
    choice: &mut ActionSelection,
    factory: &dyn EnvFactory,
    seed: u64,
    options: &VideoOptions,
) -> Result<Option<Video>, VideoError> {
    evaluate_and_record(policy, choice, factory, 1, seed, options).map(|(_, video)| video)
}

/// As [`evaluate`](crate::evaluate), and records the first episode of environment 0; `None` if that draws no
/// frames.
pub fn evaluate_and_record(
    policy: &mut Policy,
    choice: &mut ActionSelection,
    factory: &dyn EnvFactory,
    n_episodes: usize,
    seed: u64,
    options: &VideoOptions,
) -> Result<(Evaluation, Option<Video>), VideoError> {
    play_and_record(Players::One { policy, factory }, choice, EvaluationPlan::new(n_episodes, seed), None, options)
}

/// As [`evaluate_agents`](crate::evaluate_agents), and records the first episode of environment 0; `None` if
/// that draws no frames.
pub fn evaluate_agents_and_record(
    (policies, mapping): (&mut ByPolicy<Policy>, &PolicyMapping),
    choice: &mut ActionSelection,
    factory: &dyn MultiAgentFactory,
    n_episodes: usize,
    seed: u64,
    options: &VideoOptions,
) -> Result<(Evaluation, Option<Video>), VideoError> {
    let players = Players::Several { policies, mapping, factory };
    play_and_record(players, choice, EvaluationPlan::new(n_episodes, seed), None, options)
}

/// As [`evaluate_and_record`] or [`evaluate_agents_and_record`], for any plan; says how far it has come, if
/// asked.
pub fn play_and_record(
    players: Players<'_>,
    choice: &mut ActionSelection,
    plan: EvaluationPlan,
    on_progress: Option<&mut OnProgress<'_>>,
    options: &VideoOptions,
) -> Result<(Evaluation, Option<Video>), VideoError> {
    options.check()?;
    let mut recorder = Recorder::new(*options);
    let mut on_frame = |frame: Frame| recorder.take(&frame);
    let (_guard, token) = shutdown();
    let beside = (&CallMonitor::new(), &token);
    let on_progress = on_progress.map(|on_progress| on_progress as &mut OnProgress<'_>);
    let audience = Audience { on_frame: Some(&mut on_frame), on_progress };
    let evaluation =
        evaluate_beside(players, choice, plan, beside, audience).map_err(|error| VideoError::Play(Box::new(error)))?;
    let video = recorder.video(&evaluation)?;
    Ok((evaluation, video))
}

/// Compresses frames as they come.
pub(crate) struct Recorder {
    options: VideoOptions,
    animation: Option<Animation>,
    error: Option<VideoError>,
}

impl Recorder {
    pub(crate) fn new(options: VideoOptions) -> Self {
        Self { options, animation: None, error: None }
    }

    pub(crate) fn take(&mut self, frame: &Frame) -> ControlFlow<()> {
        let VideoOptions { max_frames, max_bytes, fps } = self.options;
        let animation = self.animation.get_or_insert_with(|| Animation::of(frame, fps));
        match animation.push(frame, max_bytes) {
            Ok(ControlFlow::Continue(())) if animation.n_frames() < max_frames => ControlFlow::Continue(()),
            Ok(_) => ControlFlow::Break(()),
            Err(error) => {
                self.error = Some(error);
                ControlFlow::Break(())
            }
        }
    }

    /// The video of the first episode of environment 0, if there were frames.
    pub(crate) fn video(self, evaluation: &Evaluation) -> Result<Option<Video>, VideoError> {
        if let Some(error) = self.error {
            return Err(error);
        }
        let episode = evaluation.episodes.iter().find(|episode| episode.index == 0);
        let (Some(animation), Some(episode)) = (self.animation, episode) else { return Ok(None) };
        Ok(Some(Video { png: animation.to_png()?, n_frames: animation.n_frames(), episode: *episode }))
    }
}

impl Video {
    /// The file, for example to be sent or embedded.
    pub fn as_png(&self) -> &[u8] {
        &self.png
    }

    /// How many frames it has: one of the episode's reset, and one of each step that it shows.
    pub fn n_frames(&self) -> u32 {
        self.n_frames
    }

    /// The episode, with its return.
    pub fn episode(&self) -> &EpisodeStat {
        &self.episode
    }

    /// Whether it shows the episode up to its end, rather than up to a limit of [`VideoOptions`].
    pub fn is_whole(&self) -> bool {
        self.n_frames > self.episode.episode_len
    }

    /// Writes the file, whose name ends in `.png`, and makes missing folders above it. A reader finds the
    /// whole video or what was there before.
    pub fn save(&self, path: impl AsRef<Path>) -> Result<(), VideoError> {
        let path = path.as_ref();
        let write = || {
            if let Some(folder) = path.parent() {
                fs::create_dir_all(folder)?;
            }
            write_whole(path, &self.png)
        };
        write().map_err(|source| VideoError::Save { path: path.to_owned(), source })
    }
}
