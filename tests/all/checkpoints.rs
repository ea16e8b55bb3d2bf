//! Checkpoints of one process as another finds them: while it saves, and after it was killed. The other
//! process is this test binary, called again for the same test.

use std::io::{BufRead, BufReader, Lines};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use pronk::config::ObservationFilter;
use pronk::envs::{CartPole, TicTacToe};
use pronk::prelude::*;
use pronk::{AppoConfig, Checkpoint, DEFAULT_POLICY, ImpalaConfig, MultiAgentConfig, Resume, Run};

use crate::deterministic::deterministic;
use crate::fixtures::{iterations, only, small, with, without_hanging};

/// Set in the process that saves, to the folder.
const SAVES_INTO: &str = "PRONK_TEST_SAVES_INTO";
const SAVED: &str = "a checkpoint is saved";
const POLICIES: [&str; 2] = ["crosses", "noughts"];

/// What both sides of a game learned in a moment.
fn both_sides() -> Run {
    let agents = MultiAgentConfig::separate([("x", "crosses"), ("o", "noughts")]);
    let game = |_: &EnvContext| TicTacToe::new();
    Trainer::builder(small(0)).multi_agent_env(game, agents).build().unwrap().run(iterations(1)).unwrap()
}

/// What all numbers of a policy are in a generation.
fn number(policy: &str, generation: u64) -> f32 {
    if policy == POLICIES[0] { generation as f32 } else { -(generation as f32) }
}

/// Makes `run` what it would be after `generation` updates: all of its numbers say which they are.
fn set_generation(run: &mut Run, generation: u64) {
    for (policy, checkpoint) in &mut run.checkpoints {
        checkpoint.state.updates = generation;
        checkpoint.state.params.values_mut().fill(number(policy, generation));
        let vectors = checkpoint.state.optimizer.vectors.values_mut();
        vectors.for_each(|vector| vector.fill(number(policy, generation)));
    }
}

/// The generation of a checkpoint, all of whose numbers have to be of the same.
fn generation(policy: &str, checkpoint: &Checkpoint) -> u64 {
    let generation = checkpoint.state.updates;
    let vectors = checkpoint.state.optimizer.vectors.values().flatten();
    let mut numbers = checkpoint.state.params.values().iter().chain(vectors);
    assert!(numbers.all(|value| *value == number(policy, generation)), "not all of {policy} is of {generation}");
    generation
}

/// Saves one generation after the other, three in turn, and says so.
fn save_for_ever(dir: &Path) {
    let mut run = both_sides();
    for round in 0_u64.. {
        set_generation(&mut run, 1 + round % 3);
        run.save(dir).unwrap();
        println!("{SAVED}");
    }
}

/// A process that saves.
struct Saver {
    process: Child,
    lines: Option<Lines<BufReader<ChildStdout>>>,
}

impl Saver {
    /// Calls `test` in another process.
    fn start(test: &str, dir: &Path) -> Self {
        let mut process = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", &format!("checkpoints::{test}"), "--nocapture"])
            .env(SAVES_INTO, dir)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = Some(BufReader::new(process.stdout.take().unwrap()).lines());
        Self { process, lines }
    }

    /// Waits until one more checkpoint is complete.
    fn wait_for_one(&mut self) {
        let mut lines = self.lines.iter_mut().flatten();
        assert!(lines.any(|line| line.unwrap().ends_with(SAVED)), "the other process has ended");
    }

    /// Counts what it saves from now on.
    fn count(&mut self) -> Arc<AtomicUsize> {
        let count = Arc::new(AtomicUsize::new(0));
        let (lines, counts) = (self.lines.take().unwrap(), Arc::clone(&count));
        std::thread::spawn(move || lines.for_each(|_| _ = counts.fetch_add(1, Ordering::Relaxed)));
        count
    }
}

impl Drop for Saver {
    /// Kills it with a signal that it cannot hear.
    fn drop(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }
}

/// In the other process, saves into its folder until it is killed.
fn is_saver() -> bool {
    let dir = std::env::var_os(SAVES_INTO);
    if let Some(dir) = &dir {
        save_for_ever(dir.as_ref());
    }
    dir.is_some()
}

#[test]
fn loading_while_another_process_saves_never_fails() {
    if is_saver() {
        return;
    }
    without_hanging("loading while another process saves", || {
        let dir = tempfile::tempdir().unwrap();
        let mut saver = Saver::start("loading_while_another_process_saves_never_fails", dir.path());
        saver.wait_for_one();
        let saved = saver.count();
        let (mut loaded, mut failures) = (0, Vec::new());
        while loaded < 500 || saved.load(Ordering::Relaxed) < 500 {
            match Checkpoint::load_all(dir.path()) {
                Ok(all) => {
                    let [one, other] = POLICIES.map(|policy| generation(policy, &all[policy]));
                    assert_eq!(one, other, "policies of two saves");
                }
                Err(error) => failures.push(error.to_string()),
            }
            let policy = POLICIES[loaded % 2];
            match Checkpoint::load(dir.path().join(policy)) {
                Ok(checkpoint) => assert!((1..=3).contains(&generation(policy, &checkpoint))),
                Err(error) => failures.push(error.to_string()),
            }
            loaded += 1;
        }
        drop(saver);
        assert!(failures.is_empty(), "{} of {loaded} rounds of loads failed, such as: {}", failures.len(), failures[0]);
    });
}

#[test]
fn a_save_that_is_killed_leaves_all_policies_of_one_generation() {
    if is_saver() {
        return;
    }
    without_hanging("killing processes that save", || {
        let dir = tempfile::tempdir().unwrap();
        let mut mixed = Vec::new();
        let n_kills = 30;
        for kill in 0..n_kills {
            let mut saver = Saver::start("a_save_that_is_killed_leaves_all_policies_of_one_generation", dir.path());
            saver.wait_for_one();
            let began = Instant::now();
            saver.wait_for_one();
            // Somewhere within the next save, each time somewhat later.
            let until = Instant::now() + began.elapsed().min(Duration::from_secs(1)) * kill / n_kills;
            while Instant::now() < until {
                std::hint::spin_loop();
            }
            drop(saver);
            let found = POLICIES.map(|policy| generation(policy, &Checkpoint::load(dir.path().join(policy)).unwrap()));
            if found[0] != found[1] {
                mixed.push(found);
            }
        }
        assert!(
            mixed.is_empty(),
            "after {} of {n_kills} kills policies were of different generations: {mixed:?}",
            mixed.len()
        );
        // What the kills have left is gone with the next save.
        both_sides().save(dir.path()).unwrap();
        let files: Vec<_> = std::fs::read_dir(dir.path()).unwrap().map(|file| file.unwrap().file_name()).collect();
        assert_eq!(files.len(), 1 + 2 * POLICIES.len(), "{files:?}");
    });
}

/// The folder of a checkpoint in format 2, which versions of pronk before format 3 have written.
fn format_2(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/checkpoint-2").join(name)
}

#[test]
fn folders_of_format_2_are_read_and_gone_on_from() {
    let one = Checkpoint::load(format_2("one")).unwrap();
    assert_eq!((one.env.as_str(), one.algorithm.as_str()), ("CartPole-v1", "appo"));
    assert_eq!((one.config.seed, one.life, one.state.updates, one.state.global_step), (7, 0, 3, 48));
    assert_eq!(one.state.params.values()[..4], [0.547_543_05, -0.554_318_1, 0.106_702_23, -0.058_782_48]);
    assert!(one.state.algorithm.target.is_some() && one.state.optimizer.steps == 3);
    assert_eq!(
        Checkpoint::load_all(format_2("one")).unwrap().keys().map(|policy| &**policy).collect::<Vec<_>>(),
        [DEFAULT_POLICY]
    );
    let on = Trainer::builder(one.config.clone()).env(|_: &EnvContext| CartPole::new()).resume(&one).build().unwrap();
    assert_eq!(only(&on.run(iterations(1)).unwrap()).state.updates, 4);

    for (policy, updates, first) in [("crosses", 3, -0.305_541_52), ("noughts", 1, -0.175_110_03)] {
        let checkpoint = Checkpoint::load(format_2("several").join(policy)).unwrap();
        assert_eq!((checkpoint.state.updates, checkpoint.state.params.values()[0]), (updates, first));
    }
}

#[test]
fn one_of_several_policies_is_loaded_by_its_name() {
    let dir = tempfile::tempdir().unwrap();
    let mut run = both_sides();
    set_generation(&mut run, 4);
    run.save(dir.path()).unwrap();
    let first = |policy: &str| Checkpoint::load(dir.path().join(policy)).unwrap().state.params.values()[0];
    assert_eq!((first("crosses"), first("noughts")), (4.0, -4.0));
    let all = Checkpoint::load_all(dir.path()).unwrap();
    assert_eq!(
        all.iter().map(|(policy, one)| (&**policy, one.state.params.values()[0])).collect::<Vec<_>>(),
        [("crosses", 4.0), ("noughts", -4.0)]
    );
    let text = Checkpoint::load(dir.path()).unwrap_err().to_string();
    assert!(["2 policies", "'crosses'", "'noughts'", "load_all"].iter().all(|word| text.contains(word)), "{text}");
    let text = Checkpoint::load(dir.path().join("stars")).unwrap_err().to_string();
    assert!(text.contains("stars"), "{text}");

    // A single policy needs no name.
    run.checkpoints.remove("crosses");
    run.save(dir.path()).unwrap();
    assert_eq!(Checkpoint::load(dir.path()).unwrap().state.params.values()[0], -4.0);
}

#[test]
fn a_save_over_folders_of_format_2_takes_their_place() {
    let dir = tempfile::tempdir().unwrap();
    for policy in POLICIES {
        std::fs::create_dir(dir.path().join(policy)).unwrap();
        for file in std::fs::read_dir(format_2("several").join(policy)).unwrap() {
            let file = file.unwrap();
            std::fs::copy(file.path(), dir.path().join(policy).join(file.file_name())).unwrap();
        }
    }
    let updates = || POLICIES.map(|policy| Checkpoint::load(dir.path().join(policy)).unwrap().state.updates);
    assert_eq!(updates(), [3, 1]);
    let mut run = both_sides();
    set_generation(&mut run, 9);
    run.save(dir.path()).unwrap();
    assert_eq!(updates(), [9, 9]);
    // A checkpoint of its own is what it was named for, whatever the folder above holds.
    run.checkpoints.remove("crosses");
    set_generation(&mut run, 11);
    run.save(dir.path().join("noughts")).unwrap();
    assert_eq!(updates(), [9, 11]);
}

#[test]
fn only_a_mean_over_enough_episodes_makes_a_checkpoint_the_best() {
    for (smoothing, is_enough) in [(1, true), (1_000, false)] {
        let folder = tempfile::tempdir().unwrap();
        let config = with(small(0), |config| config.results.metrics_num_episodes_for_smoothing = smoothing);
        let builder = Trainer::builder(config).env(|_: &EnvContext| CartPole::new());
        let run = builder.checkpoints(folder.path()).build().unwrap().run(iterations(30)).unwrap();
        assert!(run.result.episode_return_mean.is_some() && run.result.enough_episodes == is_enough);
        let manifest = std::fs::read(folder.path().join("manifest.json")).unwrap();
        let manifest: serde_json::Value = serde_json::from_slice(&manifest).unwrap();
        let mean = &manifest["run"]["summary"]["return_mean"];
        assert_eq!(mean.is_number(), is_enough, "{mean}");
    }
}

/// A folder in format 3. `policies` is of a version that saved policies only; `run` and `several` are of two
/// iterations of [`run_of_format_3`] and [`several_of_format_3`], with the checkpoint of the second one.
fn format_3(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/checkpoint-3").join(name)
}

/// A copy of the folder, to go on in.
fn copy_of(folder: &Path) -> tempfile::TempDir {
    let copy = tempfile::tempdir().unwrap();
    for file in std::fs::read_dir(folder).unwrap() {
        let file = file.unwrap();
        std::fs::copy(file.path(), copy.path().join(file.file_name())).unwrap();
    }
    copy
}

fn run_of_format_3(folder: &Path) -> Trainer {
    let config = with(deterministic(2, 1), |config| {
        // That version had no penalty.
        config.algorithm = AppoConfig { behaviour_kl_coeff: 0.0, ..AppoConfig::default() }.into();
        config.workers.observation_filter = ObservationFilter::MeanStdFilter;
        config.learner.minibatch_buffer_size = 2;
        config.learner.num_sgd_iter = 3;
        config.learner.replay_proportion = 0.5;
        config.learner.replay_buffer_num_slots = 4;
        config.checkpoint.keep = 1;
    });
    let builder = Trainer::builder(config).env(|_: &EnvContext| CartPole::new());
    builder.checkpoints(folder).resume(Resume::auto()).build().unwrap()
}

fn several_of_format_3(folder: &Path) -> Trainer {
    let agents = MultiAgentConfig::separate([("x", "crosses"), ("o", "noughts")]);
    let config = with(deterministic(1, 0), |config| {
        config.algorithm = ImpalaConfig { behaviour_kl_coeff: 0.0, ..ImpalaConfig::default() }.into();
        config.checkpoint.keep = 1;
    });
    let builder = Trainer::builder(config).multi_agent_env(|_: &EnvContext| TicTacToe::new(), agents);
    builder.checkpoints(folder).resume(Resume::auto()).build().unwrap()
}

#[test]
fn folders_of_format_3_are_read_and_gone_on_from() {
    let policies = Checkpoint::load_all(format_3("policies")).unwrap();
    let updates: Vec<_> = policies.iter().map(|(policy, one)| (&**policy, one.state.updates)).collect();
    assert_eq!(updates, [("first", 72), ("second", 72)]);
    for (name, start, policy) in [
        ("run", run_of_format_3 as fn(&Path) -> Trainer, DEFAULT_POLICY),
        ("several", several_of_format_3, POLICIES[0]),
    ] {
        let saved = Checkpoint::load_all(format_3(name)).unwrap();
        let folder = copy_of(&format_3(name));
        let mut trainer = start(folder.path());
        let result = trainer.next().unwrap().unwrap();
        assert_eq!((result.iteration, result.dict.get("resume.exact")), (3, Some(&true.into())), "{name}: {result}");
        let run = trainer.finish().unwrap();
        assert!(run.ledger_closed(), "{name}: {:?}", run.steps);
        assert!(run.checkpoints[policy].state.updates > saved[policy].state.updates, "{name}");
        // The run since has overwritten the old one in the copy.
        assert_eq!(
            Checkpoint::load_all(folder.path()).unwrap()[policy].state.updates,
            run.checkpoints[policy].state.updates
        );
    }
}
