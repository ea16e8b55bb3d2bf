//! Environments of Python packages, which the program inside this crate makes and steps.

use std::path::PathBuf;

use serde_json::{Map, Value, json};

use crate::program::Program;

/// The program: one file after the other.
const SCRIPT: &str = concat!(
    include_str!("../python/spaces.py"),
    include_str!("../python/groups.py"),
    include_str!("../python/child.py")
);

/// Runs the program that it finds open; its tracebacks call it `<pronk>`.
const RUN: &str = "exec(compile(open(5, encoding='utf-8').read(), '<pronk>', 'exec'))";

const ADVICE: &str = "install Python 3.9 or newer with `gymnasium`, or name an interpreter, such as that of a virtual environment, as `python`";

/// Libraries that would take all cores for each child, and how they are told not to.
const ONE_THREAD: [&str; 3] = ["OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"];

/// Environments of [Gymnasium](https://gymnasium.farama.org) 1.0 or newer.
///
/// *Spaces*: `Discrete` (with any `start`) and `MultiDiscrete` are what they are, `Box` of `uint8`, `float32`
/// or `float64` of any shape is a box of bytes or of `f32`. `Tuple` and `Dict` of those are flattened part
/// after part, in the order in which `gymnasium.spaces.utils.flatten` does it: of a `Dict` that in which its
/// `spaces` stand, which are sorted by their keys if they came in a plain `dict`. As parts of an observation
/// choices are one-hot and bytes numbers up to 255, unless all parts are bytes. Actions are either all
/// choices or all numbers. Everything else is refused by name.
///
/// ```
/// use pronk_env_process::{Gymnasium, ProcessEnvs, Wrapper};
/// use serde_json::json;
///
/// let lunar_lander = Gymnasium {
///     kwargs: [("continuous".to_owned(), json!(true))].into_iter().collect(),
///     python: "venv/bin/python".into(),
///     ..Gymnasium::new("LunarLander-v3")
/// };
/// // A module of one's own that registers environments stands before a colon.
/// let own = Gymnasium::new("my_envs:Gripper-v0");
/// // Preprocessing as published results have it: 84 × 84 in grey, four frames to an action, the last four seen.
/// let breakout = Gymnasium::atari("Breakout");
/// # let _ = (ProcessEnvs::new(lunar_lander), own, breakout, Wrapper::new("gymnasium.wrappers:FlattenObservation"));
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Gymnasium {
    /// The id that `gymnasium.make` knows. One of `ALE/…` needs the package `ale-py`.
    pub id: String,
    /// Arguments of `gymnasium.make`.
    pub kwargs: Map<String, Value>,
    /// What is put around the environment, from inside out.
    pub wrappers: Vec<Wrapper>,
    /// A time limit in steps in place of the environment's own.
    pub max_episode_steps: Option<u32>,
    /// Whether `info["action_mask"]` says what is possible.
    pub action_mask: bool,
    /// The interpreter: a name that is looked up in `PATH`, or a path, such as that of a virtual environment.
    pub python: PathBuf,
}

impl Gymnasium {
    /// An environment as it is registered, by the `python3` that is found in `PATH`.
    pub fn new(id: impl Into<String>) -> Self {
        Self {
            id: id.into(),
            kwargs: Map::new(),
            wrappers: Vec::new(),
            max_episode_steps: None,
            action_mask: false,
            python: "python3".into(),
        }
    }

    /// An Atari game, such as `"Pong"`, preprocessed as in the literature: up to 30 idle steps at the start,
    /// 4 frames to an action, the maximum of the last two, 84 × 84 pixels in grey, 4 of them stacked; no
    /// sticky actions. It needs `ale-py` and `opencv-python`.
    ///
    /// Rewards are as they are: see [`ProcessEnvs::clip_rewards`](crate::ProcessEnvs::clip_rewards).
    ///
    /// *Source*: Mnih et al., "Human-level control through deep reinforcement learning", 2015; Machado et
    /// al., "Revisiting the Arcade Learning Environment", 2018.
    pub fn atari(game: &str) -> Self {
        Self {
            kwargs: arguments(json!({ "frameskip": 1, "repeat_action_probability": 0.0 })),
            wrappers: vec![
                Wrapper::new("gymnasium.wrappers:AtariPreprocessing"),
                Wrapper {
                    kwargs: arguments(json!({ "stack_size": 4 })),
                    ..Wrapper::new("gymnasium.wrappers:FrameStackObservation")
                },
            ],
            ..Self::new(format!("ALE/{game}-v5"))
        }
    }
}

impl From<Gymnasium> for Program {
    fn from(env: Gymnasium) -> Self {
        let Gymnasium { id, kwargs, wrappers, max_episode_steps, action_mask, python } = env;
        python_program(
            python,
            json!({
                "kind": "gymnasium",
                "id": id,
                "kwargs": kwargs,
                "wrappers": wrappers.iter().map(Wrapper::to_json).collect::<Vec<_>>(),
                "max_episode_steps": max_episode_steps,
                "action_mask": action_mask,
            }),
        )
    }
}

/// Something in Python that is called with an environment and gives one.
///
/// ```
/// use pronk_env_process::Wrapper;
/// use serde_json::json;
///
/// let rescale = Wrapper {
///     kwargs: [("min_obs".to_owned(), json!(0.0)), ("max_obs".to_owned(), json!(1.0))].into_iter().collect(),
///     ..Wrapper::new("gymnasium.wrappers:RescaleObservation")
/// };
/// # let _ = rescale;
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Wrapper {
    /// Where it is found: `"module:name"`.
    pub name: String,
    /// What it is called with besides the environment.
    pub kwargs: Map<String, Value>,
}

impl Wrapper {
    /// One that needs the environment only.
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), kwargs: Map::new() }
    }

    fn to_json(&self) -> Value {
        json!({ "name": self.name, "kwargs": self.kwargs })
    }
}

/// Atari games stepped by ale-py's own vectoriser, in C++: preprocessed like [`Gymnasium::atari`], by another
/// library's filters, and faster.
///
/// *Seeds*: every reset of all environments has its seeds, and the same seeds and actions give the same run.
/// But when an episode ends within a step, ALE begins the next one by itself, whatever its seed: so a later
/// episode cannot be played again from the seed that is told of it. With `"autoreset_mode": "Disabled"` in
/// `kwargs` it can; ALE then loads the game anew for each, as long as some hundred steps take. *Errors* are
/// said to be of the process's first environment.
///
/// ```
/// use pronk_env_process::{AtariVector, ProcessEnvs};
///
/// let pong = ProcessEnvs::new(AtariVector::new("pong"));
/// # let _ = pong;
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct AtariVector {
    /// The name of the ROM, such as `"ms_pacman"`.
    pub game: String,
    /// Further arguments of `ale_py.vector_env.AtariVectorEnv`, such as `episodic_life`. Unless they say
    /// otherwise, a process uses one thread and leaves rewards as they are, and nobody presses `FIRE`.
    pub kwargs: Map<String, Value>,
    /// As [`Gymnasium::python`].
    pub python: PathBuf,
}

impl AtariVector {
    /// A game as the vectoriser prepares it.
    pub fn new(game: impl Into<String>) -> Self {
        Self { game: game.into(), kwargs: Map::new(), python: "python3".into() }
    }
}

impl From<AtariVector> for Program {
    fn from(env: AtariVector) -> Self {
        let AtariVector { game, kwargs, python } = env;
        python_program(python, json!({ "kind": "atari_vector", "game": game, "kwargs": kwargs }))
    }
}

/// Parallel environments of [PettingZoo](https://pettingzoo.farama.org): a
/// [`MultiAgentEnv`](pronk_rollout::MultiAgentEnv) in each process.
///
/// Who is in `agents` acts in the next step. Spaces are those of [`Gymnasium`]; every agent may have its own.
///
/// ```
/// use pronk_env_process::{PettingZoo, ProcessEnvs};
///
/// let envs = ProcessEnvs::new(PettingZoo::new("pettingzoo.sisl.pursuit_v5"));
/// # let _ = envs;
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct PettingZoo {
    /// A module with a function `parallel_env`, of PettingZoo or of one's own.
    pub module: String,
    /// Arguments of `parallel_env`.
    pub kwargs: Map<String, Value>,
    /// What is put around the environment, from inside out.
    pub wrappers: Vec<Wrapper>,
    /// After how many steps all who have not ended are cut off, if the environment does not do so itself.
    pub max_episode_steps: Option<u32>,
    /// Whether observations, or infos, of agents have an `action_mask` that says what is possible.
    pub action_mask: bool,
    /// As [`Gymnasium::python`].
    pub python: PathBuf,
}

impl PettingZoo {
    /// An environment as it is, by the `python3` that is found in `PATH`.
    pub fn new(module: impl Into<String>) -> Self {
        Self {
            module: module.into(),
            kwargs: Map::new(),
            wrappers: Vec::new(),
            max_episode_steps: None,
            action_mask: false,
            python: "python3".into(),
        }
    }
}

impl From<PettingZoo> for Program {
    fn from(env: PettingZoo) -> Self {
        let PettingZoo { module, kwargs, wrappers, max_episode_steps, action_mask, python } = env;
        python_program(
            python,
            json!({
                "kind": "pettingzoo",
                "module": module,
                "kwargs": kwargs,
                "wrappers": wrappers.iter().map(Wrapper::to_json).collect::<Vec<_>>(),
                "max_episode_steps": max_episode_steps,
                "action_mask": action_mask,
            }),
        )
    }
}

fn python_program(python: PathBuf, config: Value) -> Program {
    let set_already = |name: &&str| std::env::var_os(name).is_some();
    Program {
        args: vec!["-c".into(), RUN.into()],
        vars: ONE_THREAD.iter().filter(|name| !set_already(name)).map(|name| (name.into(), "1".into())).collect(),
        config: arguments(config),
        advice: ADVICE,
        script: Some(SCRIPT),
        ..Program::new(python)
    }
}

/// The fields of an object.
fn arguments(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(fields) => fields,
        // Only objects are written down here.
        _ => Map::new(),
    }
}
