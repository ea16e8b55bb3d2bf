#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::io::Cursor;

use pronk_policy::{NetworkSpec, Space};
use pronk_rollout::{
    ActionRef, CartPole, End, Env, EnvContext, EnvError, EnvSpec, ObsMut, Pendulum, Step, evaluate_and_render,
};

use super::*;

/// A frame of a decoded video, whole, and the fraction of a second for which it is shown.
struct Decoded {
    rgb: Vec<u8>,
    delay: (u16, u16),
}

/// The width, the height and the frames that a viewer of animated PNGs shows.
fn decoded(png: &[u8]) -> (u32, u32, Vec<Decoded>) {
    let mut reader = png::Decoder::new(Cursor::new(png)).read_info().unwrap();
    let (width, height) = (reader.info().width, reader.info().height);
    let animation = *reader.info().animation_control().expect("an animation");
    assert_eq!(animation.num_plays, 0, "it repeats for ever");
    let mut shown = vec![0; (width * height * 3) as usize];
    let mut frames = Vec::new();
    let mut part = vec![0; reader.output_buffer_size().unwrap()];
    for _ in 0..animation.num_frames {
        reader.next_frame(&mut part).unwrap();
        let control = *reader.info().frame_control().unwrap();
        for (row, pixels) in part.chunks_exact(control.width as usize * 3).take(control.height as usize).enumerate() {
            let at = ((control.y_offset as usize + row) * width as usize + control.x_offset as usize) * 3;
            shown[at..at + pixels.len()].copy_from_slice(pixels);
        }
        frames.push(Decoded { rgb: shown.clone(), delay: (control.delay_num, control.delay_den) });
    }
    assert!(reader.next_frame(&mut part).is_err(), "there are no more than it says");
    (width, height, frames)
}

/// A policy that has learned nothing.
fn policy_for(env: &EnvSpec) -> Policy {
    let network = NetworkSpec::for_spaces(&env.observation, &env.action).unwrap();
    Policy::new(network.clone(), network.init_params(0).unwrap(), &env.action).unwrap()
}

fn record<E: Env + 'static>(
    make: impl Fn(&EnvContext) -> E + Send + Sync,
    options: VideoOptions,
) -> Result<Option<Video>, VideoError> {
    let context = EnvContext::default();
    let mut policy = policy_for(&make(&context).spec());
    record_episode(&mut policy, &mut ActionSelection::Mode, &make, 7, &options)
}

/// An environment whose frame in step `t` has the size `sizes[t]` and the pixels `pixel(t)`.
struct Painted {
    t: u32,
    len: u32,
    size: fn(u32) -> (u32, u32),
    pixel: fn(u32, usize) -> u8,
}

impl Env for Painted {
    fn spec(&self) -> EnvSpec {
        EnvSpec {
            name: "Painted".into(),
            observation: Space::boxed(vec![0.0], vec![1e6], vec![1]).unwrap(),
            action: Space::discrete(2).unwrap(),
            max_episode_steps: None,
            action_mask: false,
        }
    }

    fn reset(&mut self, _seed: u64, obs: ObsMut<'_>) -> Result<(), EnvError> {
        self.t = 0;
        obs.write(&[0.0])
    }

    fn step(&mut self, _action: ActionRef<'_>, obs: ObsMut<'_>) -> Result<Step, EnvError> {
        self.t += 1;
        obs.write(&[self.t as f32])?;
        Ok(Step { reward: 1.0, end: if self.t == self.len { End::Terminated } else { End::No } })
    }

    fn render(&mut self) -> Result<Option<Frame>, EnvError> {
        let (width, height) = (self.size)(self.t);
        let rgb = (0..(width * height * 3) as usize).map(|at| (self.pixel)(self.t, at)).collect();
        Frame::new(width, height, rgb).map(Some)
    }
}

/// Looks like chance, so that it cannot be compressed.
fn noise(t: u32, at: usize) -> u8 {
    (pronk_policy::derive_seed(u64::from(t), &[at as u64]) % 256) as u8
}

#[test]
fn a_video_of_cartpole_shows_its_reset_and_every_step() {
    let mut pictures = Vec::new();
    let mut policy = policy_for(&CartPole::new().spec());
    let (mode, factory) = (&mut ActionSelection::Mode, |_: &EnvContext| CartPole::new());
    let seen = &mut |frame: Frame| {
        pictures.push(frame.rgb().to_vec());
        ControlFlow::Continue(())
    };
    let evaluation = evaluate_and_render(&mut policy, mode, &factory, 3, 7, seen).unwrap();

    let options = VideoOptions::default();
    let (recorded, video) = evaluate_and_record(&mut policy, mode, &factory, 3, 7, &options).unwrap();
    let video = video.unwrap();
    assert_eq!(recorded, evaluation, "recording changes no episode");
    assert!(video.is_whole() && video.n_frames() == video.episode().episode_len + 1 && video.n_frames() > 5);
    let (width, height, frames) = decoded(video.as_png());
    assert_eq!((width, height, frames.len()), (600, 400, video.n_frames() as usize));
    for (index, (frame, picture)) in frames.iter().zip(&pictures).enumerate() {
        assert!(frame.rgb == *picture, "frame {index}");
        assert_eq!(frame.delay, if index + 1 == frames.len() { (1, 1) } else { (1, 50) });
    }
    let alone = record_episode(&mut policy, mode, &factory, 7, &options).unwrap().unwrap();
    assert_eq!(alone, video, "an evaluation begins with it");
}

#[test]
fn a_frame_stores_what_it_changes_and_at_least_one_pixel() {
    // One pixel moves through the second row, and the last two frames are equal.
    let moving = |t: u32, at: usize| if at / 3 == 7 + t.min(3) as usize { 200 } else { 0 };
    let video = record(|_| Painted { t: 0, len: 4, size: |_| (7, 3), pixel: moving }, VideoOptions::default());
    let video = video.unwrap().unwrap();
    let (_, _, frames) = decoded(video.as_png());
    assert_eq!(frames.len(), 5);
    for (t, frame) in frames.iter().enumerate() {
        let expected: Vec<u8> = (0..63).map(|at| moving(t as u32, at)).collect();
        assert_eq!(frame.rgb, expected, "frame {t}");
    }
    let mut reader = png::Decoder::new(Cursor::new(video.as_png())).read_info().unwrap();
    let mut part = vec![0; 63];
    let sizes: Vec<_> = frames
        .iter()
        .map(|_| {
            reader.next_frame(&mut part).unwrap();
            let control = reader.info().frame_control().unwrap();
            (control.width, control.height)
        })
        .collect();
    assert_eq!(sizes, [(7, 3), (2, 1), (2, 1), (2, 1), (1, 1)]);
}

#[test]
fn a_video_ends_at_its_limits_and_says_so() {
    let painted = |_: &EnvContext| Painted { t: 0, len: 9, size: |_| (20, 20), pixel: noise };
    let few = record(painted, VideoOptions { max_frames: 3, ..VideoOptions::default() }).unwrap().unwrap();
    assert_eq!((few.n_frames(), few.is_whole(), few.episode().episode_len), (3, false, 9));
    assert_eq!(decoded(few.as_png()).2.len(), 3);
    // A frame has 1,200 bytes, which cannot be compressed.
    let small = record(painted, VideoOptions { max_bytes: 4_000, ..VideoOptions::default() }).unwrap().unwrap();
    assert_eq!((small.n_frames(), small.is_whole()), (3, false));
    let tiny = record(painted, VideoOptions { max_bytes: 1, ..VideoOptions::default() }).unwrap().unwrap();
    assert_eq!(decoded(tiny.as_png()).2.len(), 1);
    let exact = record(painted, VideoOptions { max_frames: 10, ..VideoOptions::default() }).unwrap().unwrap();
    assert!(exact.is_whole());
}

#[test]
fn the_rate_is_that_of_the_environment_or_the_given_one() {
    let rate = |fps: Option<u16>| {
        let options = VideoOptions { fps, max_frames: 2, ..VideoOptions::default() };
        decoded(record(|_| Pendulum::new(), options).unwrap().unwrap().as_png()).2[0].delay
    };
    assert_eq!([None, Some(10), Some(500)].map(rate), [(1, 30), (1, 10), (1, 60)]);
}

#[test]
fn an_environment_without_pictures_has_no_video() {
    assert!(record(|_| pronk_rollout::Recall::new(2), VideoOptions::default()).unwrap().is_none());
}

#[test]
fn frames_of_several_sizes_are_an_error() {
    let painted = |_: &EnvContext| Painted { t: 0, len: 3, size: |t| (4, 4 + t / 2), pixel: noise };
    let error = record(painted, VideoOptions::default()).unwrap_err().to_string();
    assert_eq!(error, "frame 3 has 4×5 pixels and the first has 4×4: all frames of an environment need one size");
}

#[test]
fn options_that_show_nothing_are_refused_before_anything_is_played() {
    let good = VideoOptions::default();
    for (options, name) in [
        (VideoOptions { max_frames: 0, ..good }, "max_frames"),
        (VideoOptions { max_bytes: 0, ..good }, "max_bytes"),
        (VideoOptions { fps: Some(0), ..good }, "fps"),
    ] {
        let error = record(|_| CartPole::new(), options).unwrap_err().to_string();
        assert_eq!(error, format!("`{name}` is 0, but a video shows at least one frame: raise it"));
    }
}

#[test]
fn a_file_is_the_whole_video_or_what_was_there_before() {
    let folder = tempfile::tempdir().unwrap();
    let video = record(|_| CartPole::new(), VideoOptions::default()).unwrap().unwrap();
    let path = folder.path().join("videos/first.png");
    video.save(&path).unwrap();
    assert_eq!(fs::read(&path).unwrap(), video.as_png());
    let names: Vec<_> = fs::read_dir(path.parent().unwrap()).unwrap().map(|file| file.unwrap().file_name()).collect();
    assert_eq!(names, ["first.png"], "nothing is left beside it");

    // A folder cannot be replaced by a file.
    let error = video.save(folder.path().join("videos")).unwrap_err().to_string();
    assert!(error.starts_with("cannot write the video to ") && error.contains("videos: "), "{error}");
    assert!(!folder.path().join("videos.new").exists());
}
