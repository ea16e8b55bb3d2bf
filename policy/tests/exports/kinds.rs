//! Kinds of policies: each encoder, activation, torso, kind of observation and kind of action at least once.

use pronk_policy::{
    Activation, Encoder, Gaussian, GaussianConfig, LogStdRange, NetworkSpec, ObsNormalizer, Space, Torso,
};

/// A policy but for its weights.
pub(crate) struct Kind {
    /// The name of its folder.
    pub(crate) name: &'static str,
    pub(crate) spec: NetworkSpec,
    pub(crate) action: Space,
    pub(crate) gaussian: GaussianConfig,
    pub(crate) normalizer: Option<ObsNormalizer>,
}

impl Kind {
    fn new(name: &'static str, obs: &Space, action: Space, encoder: Encoder) -> Self {
        let spec = NetworkSpec { encoder, ..NetworkSpec::for_spaces(obs, &action).unwrap() };
        spec.check().unwrap();
        Self { name, spec, action, gaussian: GaussianConfig::default(), normalizer: None }
    }

    fn lstm(mut self, width: usize) -> Self {
        self.spec.lstm = Some(width);
        self
    }

    fn separate(mut self) -> Self {
        self.spec.torso = Torso::Separate;
        self
    }

    fn gaussian(mut self, gaussian: Gaussian, range: (f32, f32)) -> Self {
        let log_std_range = LogStdRange::new(range.0, range.1).unwrap();
        self.gaussian = GaussianConfig { gaussian, log_std_range };
        self
    }

    /// Means and standard deviations of every size, some of numbers that hardly vary.
    fn normalized(mut self) -> Self {
        let len = self.spec.obs.obs_len();
        let mean = (0..len).map(|i| [0.0, 1e6 + 0.2, -300.7, 0.002][i % 4]).collect();
        let std = (0..len).map(|i| [1.0, 0.25, 60.1, 1e-4][i % 4]).collect();
        self.normalizer = Some(ObsNormalizer { mean, std, clip: 3.0 });
        self
    }
}

pub(crate) fn all() -> Vec<Kind> {
    let discrete = |n| Space::discrete(n).unwrap();
    let choices = || Space::multi_discrete(vec![3, 2, 4]).unwrap();
    let bytes = |shape: &[usize]| Space::bytes(shape.to_vec()).unwrap();
    let tanh = |hidden: &[usize]| mlp(hidden, Activation::Tanh);
    let relu = |hidden: &[usize]| mlp(hidden, Activation::Relu);
    let pairs = || bounded(&[(-2.0, 2.0), (0.0, 10.0)]);
    vec![
        Kind::new("mlp", &numbers(&[8]), discrete(4), tanh(&[64, 64])),
        Kind::new("mlp_of_a_number", &numbers(&[]), discrete(3), tanh(&[16])),
        Kind::new("mlp_of_a_choice", &discrete(5), choices(), relu(&[16])),
        Kind::new("mlp_of_bytes", &bytes(&[6, 5]), discrete(3), relu(&[32])),
        Kind::new("mlp_separate_normalized", &numbers(&[9]), choices(), relu(&[32, 24])).separate().normalized(),
        Kind::new("mlp_squashed", &numbers(&[6]), pairs(), tanh(&[32])).gaussian(Gaussian::Squashed, (-3.0, 0.5)),
        Kind::new("linear", &numbers(&[2, 3]), bounded(&SOME_BOUNDS), tanh(&[])),
        Kind::new("linear_separate_normalized", &numbers(&[2, 3]), bounded(&NO_UPPER_BOUND), tanh(&[]))
            .separate()
            .normalized(),
        Kind::new("unbounded", &numbers(&[4]), bounded(&[(-INF, INF); 3]), relu(&[16])),
        Kind::new("nature_cnn", &bytes(&[4, 84, 84]), discrete(6), Encoder::nature_cnn()),
        // Sides that leave different rests in the strides.
        Kind::new("nature_cnn_separate", &numbers(&[2, 37, 42]), pairs(), Encoder::NatureCnn { hidden: 64 })
            .separate()
            .normalized(),
        // Odd and even images before the pools.
        Kind::new("impala_cnn", &bytes(&[3, 33, 46]), discrete(5), Encoder::impala_cnn()),
        Kind::new("impala_cnn_separate", &bytes(&[1, 5, 12]), choices(), impala(&[4, 6])).separate(),
        Kind::new("lstm", &numbers(&[5]), discrete(4), tanh(&[32])).lstm(24),
        Kind::new("lstm_separate_normalized", &numbers(&[6]), pairs(), relu(&[16]))
            .lstm(12)
            .separate()
            .normalized()
            .gaussian(Gaussian::Squashed, (-5.0, 2.0)),
        Kind::new("linear_lstm", &numbers(&[2, 2]), choices(), tanh(&[])).lstm(8),
        Kind::new("nature_lstm", &bytes(&[1, 36, 36]), discrete(3), Encoder::NatureCnn { hidden: 32 }).lstm(16),
        Kind::new("impala_lstm", &bytes(&[2, 20, 17]), discrete(3), impala(&[8, 8])).lstm(16).separate(),
    ]
}

const INF: f32 = f32::INFINITY;
const SOME_BOUNDS: [(f32, f32); 5] = [(-2.0, 2.0), (0.0, 10.0), (-INF, 0.5), (-0.25, INF), (-INF, INF)];
const NO_UPPER_BOUND: [(f32, f32); 2] = [(-0.5, INF), (-INF, INF)];

fn numbers(shape: &[usize]) -> Space {
    let len = shape.iter().product();
    Space::boxed(vec![-INF; len], vec![INF; len], shape.to_vec()).unwrap()
}

fn bounded(bounds: &[(f32, f32)]) -> Space {
    let (low, high) = bounds.iter().copied().unzip();
    Space::boxed(low, high, vec![bounds.len()]).unwrap()
}

fn mlp(hidden: &[usize], activation: Activation) -> Encoder {
    Encoder::Mlp { hidden: hidden.to_vec(), activation }
}

fn impala(channels: &[usize]) -> Encoder {
    Encoder::ImpalaCnn { channels: channels.to_vec(), hidden: 24 }
}
