//! The child in C, and the same corridor in Rust to compare it with.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::time::Duration;

use pronk_env_process::{ChildOutput, ProcessEnvs, Program};
use pronk_policy::Space;
use pronk_rollout::{ActionRef, End, Env, EnvError, EnvPurpose, EnvSpec, Frame, ObsMut, Step, VectorContext};
use serde_json::{Value, json};

/// The program, compiled by the C compiler that `CC` names, or `cc`.
fn program() -> &'static Path {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("conformance/corridor.c");
        // Tests that are run again in a process of their own compile it at the same time.
        let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("corridor-{}", std::process::id()));
        let compiler = std::env::var_os("CC").unwrap_or_else(|| "cc".into());
        let status = Command::new(&compiler)
            .args(["-std=c11", "-O2", "-Wall", "-Wextra", "-Werror", "-o"])
            .arg(&program)
            .arg(source)
            .status();
        assert!(status.is_ok_and(|status| status.success()), "cannot compile the corridor with {}", compiler.display());
        program
    })
}

/// Corridors with a configuration, three to a process.
pub(crate) fn corridors(config: Value) -> ProcessEnvs {
    let Value::Object(config) = config else { panic!("{config} is no object") };
    let program = Program { config, ..Program::new(program()) };
    ProcessEnvs {
        envs_per_process: 3,
        start_timeout: Duration::from_secs(30),
        output: ChildOutput::Hidden,
        ..ProcessEnvs::new(program)
    }
}

/// As [`corridors`], of a child that lies.
pub(crate) fn liars(lie: &str) -> ProcessEnvs {
    corridors(json!({ "lie": lie }))
}

/// Programs of the shell that are no children.
pub(crate) fn shell(script: &str) -> ProcessEnvs {
    let program = Program { args: vec!["-c".into(), script.into()], ..Program::new("/bin/sh") };
    ProcessEnvs { output: ChildOutput::Hidden, ..ProcessEnvs::new(program) }
}

/// Of the third worker.
pub(crate) const CONTEXT: VectorContext =
    VectorContext { worker: 3, incarnation: 1, first_env: 0, seed: 7, purpose: EnvPurpose::Training };

/// The corridor of `corridor.c`, with its defaults.
#[derive(Default)]
pub(crate) struct Corridor {
    position: u32,
    steps: u32,
}

const LENGTH: u32 = 5;

impl Env for Corridor {
    fn spec(&self) -> EnvSpec {
        EnvSpec {
            name: "Corridor".into(),
            observation: Space::boxed(vec![0.0; 2], vec![LENGTH as f32, f32::INFINITY], vec![2]).unwrap(),
            action: Space::discrete(2).unwrap(),
            max_episode_steps: Some(20),
            action_mask: true,
        }
    }

    fn reset(&mut self, seed: u64, obs: ObsMut<'_>) -> Result<(), EnvError> {
        (self.position, self.steps) = ((seed % 3) as u32, 0);
        obs.write(&[self.position as f32, 0.0])
    }

    fn step(&mut self, action: ActionRef<'_>, obs: ObsMut<'_>) -> Result<Step, EnvError> {
        match action.discrete()? {
            0 => self.position = self.position.saturating_sub(1),
            _ => self.position += 1,
        }
        self.steps += 1;
        obs.write(&[self.position as f32, self.steps as f32])?;
        let at_door = self.position == LENGTH;
        let (reward, end) = if at_door { (0.9, End::Terminated) } else { (-0.1, End::No) };
        Ok(Step { reward, end })
    }

    fn action_mask(&self, mask: &mut [bool]) -> Result<(), EnvError> {
        mask[0] = self.position > 0;
        Ok(())
    }

    fn render(&mut self) -> Result<Option<Frame>, EnvError> {
        let (cells, size) = (LENGTH + 1, 16);
        let color = |cell| match cell {
            walker if walker == self.position => [0; 3],
            LENGTH => [255, 0, 0],
            _ => [255; 3],
        };
        let rgb = (0..size * cells * size).flat_map(|pixel| color(pixel % (cells * size) / size)).collect();
        Ok(Some(Frame::new(cells * size, size, rgb)?.with_fps(5)))
    }
}
