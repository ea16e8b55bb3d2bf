//! Environments of Python packages, run by a Python program that is embedded in this crate.

use std::path::{Path, PathBuf};

use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::program::Program;

/// The program, its files joined.
const SCRIPT: &str = concat!(
    include_str!("../python/spaces.py"),
    include_str!("../python/arguments.py"),
    include_str!("../python/groups.py"),
    include_str!("../python/child.py")
);

/// Runs the program from its descriptor; tracebacks call it `<pronk>`.
const RUN: &str = "exec(compile(open(5, encoding='utf-8').read(), '<pronk>', 'exec'))";

const ADVICE: &str = "install Python 3.9 or newer with `gymnasium`, or name an interpreter, such as that of a virtual environment, as `python`";

/// Variables of every child, unless they are set: they keep libraries from using all cores, and have sets of
/// texts in one order in every process.
const VARS: [(&str, &str); 4] =
    [("OMP_NUM_THREADS", "1"), ("OPENBLAS_NUM_THREADS", "1"), ("MKL_NUM_THREADS", "1"), ("PYTHONHASHSEED", "0")];

/// Environments of [Gymnasium](https://gymnasium.farama.org) 1.0 or newer.
///
/// *Spaces*: `Discrete` (with any `start`) and `MultiDiscrete` map to their counterparts, `Box` of `uint8`,
/// `float32` or `float64` of any shape is a box of bytes or of `f32`. `Tuple` and `Dict` are flattened in the
/// order of `gymnasium.spaces.utils.flatten`. In a flattened observation discrete parts are one-hot and bytes
/// become numbers up to 255, unless all parts are bytes. A flattened action is either all discrete or all
/// continuous. Other spaces are refused by name. Images are turned to channels first, if
/// [`channels_first`](Self::channels_first) is set.
///
/// *Frames*: those of the mode `rgb_array`, if the environment has it. The mode is set for environments made
/// to be drawn, unless `kwargs` has a `render_mode`.
///
/// *Seeds*: `reset` gets the lower 31 bits of an episode's seed, which every environment takes. Before, they
/// seed Python's `random` and `numpy.random`, for environments that draw from these. What an environment
/// draws there at its construction repeats with the run as well.
///
/// *Lives*: where the wrapper `AtariPreprocessing` has `terminal_on_life_loss`, a lost life is a terminal
/// state for what is learned from, while the game, and its return, goes on.
///
/// # Arguments
/// `null` is `None`. In `kwargs`, also of [wrappers](Wrapper), an object with one of these keys alone stands
/// for something else, at any depth:
///
/// | object | what Python gets |
/// |---|---|
/// | `{"float": "inf"}`, also `"-inf"` and `"nan"` | the number, which JSON cannot say |
/// | `{"env": "TOKEN"}` | the text of the environment variable `TOKEN`, read by the process that makes the environment: it is nowhere in this one, and messages have the name instead |
/// | `{"none": true}` | `None`, for what has no null |
/// | `{"literal": {…}}` | the object inside as it is, for one that looks like one of these |
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
/// // A module that registers environments comes before a colon.
/// let own = Gymnasium::new("my_envs:Gripper-v0");
/// // The standard preprocessing: 84 × 84 in grey, frame skip 4, frame stack 4.
/// let breakout = Gymnasium::atari("Breakout");
/// # let _ = (ProcessEnvs::new(lunar_lander), own, breakout, Wrapper::new("gymnasium.wrappers:FlattenObservation"));
/// ```
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Gymnasium {
    /// The id for `gymnasium.make`; `ALE/…` needs the package `ale-py`.
    pub id: String,
    /// Arguments of `gymnasium.make`, [as Python gets them](Self#arguments).
    pub kwargs: Map<String, Value>,
    /// Wrappers, innermost first.
    pub wrappers: Vec<Wrapper>,
    /// Replaces the environment's own step limit.
    pub max_episode_steps: Option<u32>,
    /// Whether `info["action_mask"]` is an action mask. One in the observation is not looked at.
    pub action_mask: bool,
    /// Whether images of bytes whose channels come last, such as `(96, 96, 3)`, are observed with the
    /// channels first, as `[3, 96, 96]`, which convolutional networks read. Policies of before read them as
    /// they are.
    pub channels_first: bool,
    /// The interpreter: a name in `PATH`, or a path, such as that of a virtual environment.
    #[serde(skip)]
    pub python: PathBuf,
}

impl Gymnasium {
    /// An environment as registered, run by `python3`.
    pub fn new(id: impl Into<String>) -> Self {
        Self {
            id: id.into(),
            kwargs: Map::new(),
            wrappers: Vec::new(),
            max_episode_steps: None,
            action_mask: false,
            channels_first: true,
            python: "python3".into(),
        }
    }

    /// An Atari game, such as `"Pong"`, with the standard preprocessing: up to 30 no-ops, frame skip 4 with
    /// the maximum of the last two, 84 × 84 pixels in grey, frame stack 4, no sticky actions. It needs
    /// `ale-py` and `opencv-python-headless`.
    ///
    /// Rewards are not clipped: see [`ProcessEnvs::clip_rewards`](crate::ProcessEnvs::clip_rewards).
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
        python_program("gymnasium", &env.python, &env)
    }
}

/// A Python callable that takes an environment and returns one.
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
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Wrapper {
    /// As `"module:name"`.
    pub name: String,
    /// Its keyword arguments.
    pub kwargs: Map<String, Value>,
}

impl Wrapper {
    /// A wrapper without keyword arguments.
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), kwargs: Map::new() }
    }
}

/// Atari games stepped by ale-py's own vectoriser, in C++: preprocessed like [`Gymnasium::atari`], with
/// another library's filters, and faster.
///
/// *Seeds*: the same seeds and actions give the same run, but ALE ignores the seed when it resets within a
/// step, so a later episode cannot be replayed from its reported seed. With `"autoreset_mode": "Disabled"` in
/// `kwargs` it can, at the cost of some hundred steps per reset. *Errors* name the process's first
/// environment. *Frames* are the newest image of an observation, since ale-py's vectoriser gives no other: 84
/// × 84 pixels in grey, or in colour with `"grayscale": false`.
///
/// ```
/// use pronk_env_process::{AtariVector, ProcessEnvs};
///
/// let pong = ProcessEnvs::new(AtariVector::new("pong"));
/// assert_eq!(AtariVector::new("MsPacman"), AtariVector::new("ms_pacman"));
/// # let _ = pong;
/// ```
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct AtariVector {
    /// The name of the ROM, such as `"ms_pacman"`.
    pub game: String,
    /// Further arguments of `ale_py.vector_env.AtariVectorEnv`. By default a process uses one thread, rewards
    /// are not clipped, and `FIRE` is not pressed at a reset. With `episodic_life` a lost life is a terminal
    /// state for what is learned from, while the game, and its return, goes on.
    pub kwargs: Map<String, Value>,
    /// As [`Gymnasium::python`].
    #[serde(skip)]
    pub python: PathBuf,
}

impl AtariVector {
    /// A game with the vectoriser's own defaults, named as its ROM, `"ms_pacman"`, or as by Gymnasium,
    /// `"MsPacman"`.
    pub fn new(game: impl AsRef<str>) -> Self {
        Self { game: snake_case(game.as_ref()), kwargs: Map::new(), python: "python3".into() }
    }
}

impl From<AtariVector> for Program {
    fn from(env: AtariVector) -> Self {
        python_program("atari_vector", &env.python, &env)
    }
}

/// Parallel environments of [PettingZoo](https://pettingzoo.farama.org): a
/// [`MultiAgentEnv`](pronk_rollout::MultiAgentEnv) in each process.
///
/// The agents in `agents` act in the next step. Once there are none the episode is over, also for those that
/// took no part in it. Spaces and seeds are those of [`Gymnasium`]; spaces may differ by agent.
///
/// ```
/// use pronk_env_process::{PettingZoo, ProcessEnvs};
///
/// let envs = ProcessEnvs::new(PettingZoo::new("pettingzoo.sisl.pursuit_v5"));
/// # let _ = envs;
/// ```
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PettingZoo {
    /// A module with a function `parallel_env`, or `"module:name"` of another function or class.
    pub module: String,
    /// Its arguments.
    pub kwargs: Map<String, Value>,
    /// Wrappers, innermost first.
    pub wrappers: Vec<Wrapper>,
    /// Truncates the remaining agents after this many steps, unless the environment does so itself.
    pub max_episode_steps: Option<u32>,
    /// Whether observations or infos have an `action_mask`.
    pub action_mask: bool,
    /// As [`Gymnasium::channels_first`].
    pub channels_first: bool,
    /// As [`Gymnasium::python`].
    #[serde(skip)]
    pub python: PathBuf,
}

impl PettingZoo {
    /// An environment with its defaults, run by `python3`.
    pub fn new(module: impl Into<String>) -> Self {
        Self {
            module: module.into(),
            kwargs: Map::new(),
            wrappers: Vec::new(),
            max_episode_steps: None,
            action_mask: false,
            channels_first: true,
            python: "python3".into(),
        }
    }
}

impl From<PettingZoo> for Program {
    fn from(env: PettingZoo) -> Self {
        python_program("pettingzoo", &env.python, &env)
    }
}

/// The program for an environment of this kind, with its fields as the config.
fn python_program(kind: &str, python: &Path, env: &impl Serialize) -> Program {
    let mut config = arguments(json!({ "kind": kind }));
    config.extend(arguments(serde_json::to_value(env).unwrap_or_default()));
    let is_set = |name: &str| std::env::var_os(name).is_some();
    let vars = VARS.iter().filter(|(name, _)| !is_set(name)).map(|(name, value)| (name.into(), value.into()));
    Program {
        args: vec!["-c".into(), RUN.into()],
        vars: vars.collect(),
        config,
        advice: ADVICE,
        script: Some(SCRIPT),
        ..Program::new(python)
    }
}

/// The name of a ROM: `ms_pacman` for `MsPacman`.
fn snake_case(name: &str) -> String {
    let mut snake = String::new();
    let mut letters = name.chars().peekable();
    let mut before = None;
    while let Some(letter) = letters.next() {
        // A number belongs to the word that begins with it, as in `tic_tac_toe_3d`, or to the one before it.
        let begins_a_word = match letter.is_ascii_digit() {
            true => letters.peek().is_some_and(|next| next.is_uppercase()),
            false => letter.is_uppercase() && !before.is_some_and(|before: char| before.is_ascii_digit()),
        };
        if begins_a_word && before.is_some() {
            snake.push('_');
        }
        snake.extend(letter.to_lowercase());
        before = Some(letter);
    }
    snake
}

/// The fields of an object.
fn arguments(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(fields) => fields,
        _ => Map::new(),
    }
}
