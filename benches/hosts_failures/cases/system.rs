//! Clocks that are wrong, and disks that are full.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use super::{NOTHING, Outcome, WARM, has_joined};
use crate::outside::{
    AHEAD_SECS, HOUR_SECS, SmallDisk, limit_files, with_a_late_start, with_a_wrong_wall_clock,
    without_the_signal_of_limits,
};
use crate::pause;
use crate::process::Within;
use crate::scene::{Learner, Scene, number};

/// The wall clocks of one host and of the learner are an hour ahead now and then, that of another host is an
/// hour behind.
pub(super) fn wall_clock(scene: &mut Scene) -> Outcome {
    let hour = HOUR_SECS as i64;
    scene.within = with_a_wrong_wall_clock(&scene.folder, hour)?;
    let mut learner = scene.learner()?;
    let ahead = scene.host("a", learner.address);
    scene.within = with_a_wrong_wall_clock(&scene.folder, -hour)?;
    let started = Instant::now();
    let behind = scene.host("b", learner.address);
    for (host, expected) in [(&ahead, hour as f64), (&behind, -hour as f64)] {
        let said = host.process.until_it_says("clocks")?["wall_secs"].as_f64().unwrap_or_default();
        #[allow(clippy::disallowed_methods)] // it is the wall clock that is wrong
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs_f64();
        if (said - now - expected).abs() > 60.0 {
            return Err(format!("the clock of {} is off by {:.0} s only", host.process.name, said - now));
        }
    }
    scene.recovers_since(started, &mut learner, &behind)?;
    // It jumps every two seconds.
    pause(Duration::from_secs(5));
    for host in [&ahead, &behind] {
        learner.catch_up();
        learner.sees_more_of(host, WARM)?;
    }
    has_joined(&mut learner, 2)?;
    scene.ends(learner, vec![ahead, behind], NOTHING)
}

/// The monotonic clock of the host is months ahead of the learner's.
pub(super) fn monotonic_clock(scene: &mut Scene) -> Outcome {
    let mut learner = scene.learner()?;
    scene.within = with_a_late_start();
    let started = Instant::now();
    let host = scene.host("a", learner.address);
    let uptime = host.process.until_it_says("clocks")?["uptime_secs"].as_f64().unwrap_or_default();
    if uptime < AHEAD_SECS as f64 {
        return Err(format!("the host's machine is up for {uptime} s only"));
    }
    scene.recovers_since(started, &mut learner, &host)?;
    // Longer than a lease.
    pause(Duration::from_secs(4));
    learner.catch_up();
    learner.sees_more_of(&host, WARM)?;
    has_joined(&mut learner, 1)?;
    scene.ends(learner, vec![host], NOTHING)
}

/// The disk for checkpoints is full for a while. Seconds are those until the next checkpoint.
pub(super) fn disk_full(scene: &mut Scene) -> Outcome {
    let mut disk = SmallDisk::at(&scene.folder.join("checkpoints"));
    scene.within = disk.within();
    without_checkpoints(scene, &mut |learner, is_full| {
        if is_full { disk.fill(learner.process.id()) } else { disk.clear() }
    })
}

/// Files of the learner must not grow for a while. Seconds are those until the next checkpoint.
pub(super) fn file_limit(scene: &mut Scene) -> Outcome {
    scene.within = without_the_signal_of_limits();
    without_checkpoints(scene, &mut |learner, is_full| {
        limit_files(learner.process.id(), if is_full { "1" } else { "unlimited" })
    })
}

fn without_checkpoints(scene: &mut Scene, fill: &mut dyn FnMut(&Learner, bool) -> Outcome) -> Outcome {
    let mut args = scene.learner_args();
    args.checkpoints = Some(scene.folder.join("checkpoints"));
    let mut learner = scene.start_learner(args)?;
    scene.within = Within::default();
    let host = scene.host("a", learner.address);
    learner.sees_more_of(&host, WARM)?;
    learner.until("a checkpoint", |line| number(&line["checkpoints_saved"]) > 2)?;
    fill(&learner, true)?;
    learner.until("a failed checkpoint", |line| !line["checkpoints_failed"].is_null())?;
    pause(scene.secs(0.5, 1.5));
    learner.catch_up();
    learner.sees_more_of(&host, WARM)?;
    let saved = number(&learner.latest["checkpoints_saved"]);
    fill(&learner, false)?;
    let cleared = Instant::now();
    let when = learner.until("a checkpoint again", |line| number(&line["checkpoints_saved"]) > saved)?;
    scene.shown.recover_secs = when.saturating_duration_since(cleared).as_secs_f64();
    has_joined(&mut learner, 1)?;
    scene.ends(learner, vec![host], NOTHING)
}
