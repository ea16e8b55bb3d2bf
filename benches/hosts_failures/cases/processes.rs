//! Processes that are killed, stopped or told to end.

use std::time::{Duration, Instant};

use super::{HOST_LOST, NOTHING, Outcome, WARM, begin, has_joined};
use crate::pause;
use crate::process::DEADLINE;
use crate::scene::{Scene, number, stays};

/// The host is killed, and another process takes its place.
pub(super) fn host_killed(scene: &mut Scene) -> Outcome {
    let (mut learner, mut host) = begin(scene)?;
    pause(scene.secs(0.0, 0.5));
    host.process.kill();
    let started = Instant::now();
    let next = scene.host("a", learner.address);
    scene.recovers_since(started, &mut learner, &next)?;
    learner.loses(1)?;
    scene.ends(learner, vec![next], HOST_LOST)
}

/// The host gets SIGTERM. Seconds are those until it has.
pub(super) fn host_terminated(scene: &mut Scene) -> Outcome {
    let (mut learner, mut host) = begin(scene)?;
    pause(scene.secs(0.0, 0.5));
    host.process.signal("TERM");
    let told = Instant::now();
    let status = host.process.ends_within(Duration::from_secs(5))?;
    scene.shown.recover_secs = told.elapsed().as_secs_f64();
    let outcome = host.process.until_it_says("outcome")?;
    if !status.success() || outcome["stopped"] != true || outcome["closed"] != true {
        return Err(format!("the host ends with {status}: {outcome}"));
    }
    learner.until("the host to be gone", |line| number(&line["hosts"]["connected"]) == 0)?;
    if number(&learner.latest["hosts"]["lost"]) > 0 {
        return Err("the host has fallen silent where it should have left".to_owned());
    }
    let next = scene.host("a", learner.address);
    learner.sees_more_of(&next, WARM)?;
    scene.ends(learner, vec![next], NOTHING)
}

/// The host stands still for less than a lease.
pub(super) fn host_stopped_shorter(scene: &mut Scene) -> Outcome {
    let (mut learner, host) = begin(scene)?;
    host.process.signal("STOP");
    pause(scene.secs(0.5, 1.5));
    host.process.signal("CONT");
    scene.recovers(&mut learner, &host)?;
    learner.sees_more_of(&host, WARM)?;
    has_joined(&mut learner, 1)?;
    scene.ends(learner, vec![host], NOTHING)
}

/// The host stands still until its session has ended.
pub(super) fn host_stopped_longer(scene: &mut Scene) -> Outcome {
    let (mut learner, host) = begin(scene)?;
    host.process.signal("STOP");
    learner.loses(1)?;
    pause(scene.secs(0.0, 1.0));
    host.process.signal("CONT");
    scene.recovers(&mut learner, &host)?;
    learner.sees_more_of(&host, WARM)?;
    has_joined(&mut learner, 2)?;
    scene.ends(learner, vec![host], HOST_LOST)
}

/// The learner stands still for less than a lease.
pub(super) fn learner_stopped_shorter(scene: &mut Scene) -> Outcome {
    learner_stopped(scene, (0.5, 1.2), NOTHING)
}

/// The learner stands still for longer than a lease, and may find hosts silent when it goes on.
pub(super) fn learner_stopped_longer(scene: &mut Scene) -> Outcome {
    learner_stopped(scene, (4.5, 6.0), HOST_LOST)
}

fn learner_stopped(scene: &mut Scene, (from, to): (f64, f64), causes: &[&str]) -> Outcome {
    let (mut learner, mut host) = begin(scene)?;
    learner.process.signal("STOP");
    stays(&mut host.process, scene.secs(from, to))?;
    learner.process.signal("CONT");
    scene.recovers(&mut learner, &host)?;
    learner.sees_more_of(&host, WARM)?;
    scene.shown.notes.insert("joined", learner.joined());
    if causes.is_empty() {
        has_joined(&mut learner, 1)?;
    }
    scene.ends(learner, vec![host], causes)
}

/// Two processes have one name; one is killed, the other goes on, and a third one comes.
pub(super) fn twins(scene: &mut Scene) -> Outcome {
    let (mut learner, host) = begin(scene)?;
    let mut twin = scene.host("a", learner.address);
    learner.sees_more_of(&twin, WARM)?;
    let names = learner.latest["hosts"]["by_name"].as_object().into_iter().flatten().map(|(name, _)| name.as_str());
    if !names.eq(["a", "a#2"]) {
        return Err(format!("these are not `a` and `a#2`: {}", learner.latest["hosts"]["by_name"]));
    }
    let victim_is_first = scene.rng.below(2) == 0;
    let mut host = host;
    if victim_is_first {
        std::mem::swap(&mut host, &mut twin);
    }
    twin.process.kill();
    scene.recovers(&mut learner, &host)?;
    let third = scene.host("a", learner.address);
    learner.sees_more_of(&third, WARM)?;
    learner.loses(1)?;
    learner.sees_more_of(&host, WARM)?;
    has_joined(&mut learner, 3)?;
    scene.ends(learner, vec![host, third], HOST_LOST)
}

/// The learner is killed and goes on from its last checkpoint.
pub(super) fn learner_killed(scene: &mut Scene) -> Outcome {
    learner_resumed(scene, "KILL")
}

/// The learner gets SIGTERM and goes on from its last checkpoint.
pub(super) fn learner_terminated(scene: &mut Scene) -> Outcome {
    learner_resumed(scene, "TERM")
}

fn learner_resumed(scene: &mut Scene, signal: &str) -> Outcome {
    let mut args = scene.learner_args();
    args.checkpoints = Some(scene.folder.join("checkpoints"));
    args.log = Some(scene.folder.join("seen"));
    args.until_signal = true;
    let mut learner = scene.start_learner(args.clone())?;
    let host = scene.host("a", learner.address);
    learner.sees_more_of(&host, WARM)?;
    learner.until("a checkpoint", |line| number(&line["checkpoints_saved"]) > 2)?;
    pause(scene.secs(0.0, 0.5));
    learner.process.signal(signal);
    if signal == "TERM" {
        let end = learner.end()?;
        // What was on its way when the learner went is lost, or dropped.
        scene.closes(&learner, &end, 0, HOST_LOST)?;
        learner.trained.push(number(&end["steps"]["trained_once"]));
    }
    learner.process.ends_within(DEADLINE)?;
    learner.catch_up();
    if !learner.latest["wrong"].is_null() {
        return Err(learner.latest["wrong"].to_string());
    }
    let stayed_away = scene.secs(0.0, 1.5);
    pause(stayed_away);
    args.until_signal = false;
    let started = Instant::now();
    let mut next = scene.start_learner(args)?;
    scene.recovers_since(started, &mut next, &host)?;
    next.sees_more_of(&host, WARM)?;
    next.drains_after(WARM)?;
    let end = next.end()?;
    // The checkpoint is from the end of an iteration; a killed learner may not have reported the last one.
    let trained_before = number(&end["steps"]["trained_once"]) - number(&end["distinct"]);
    let last = learner.trained.last().copied().unwrap_or_default();
    if trained_before < last && !learner.trained.contains(&trained_before) {
        return Err(format!("it goes on after {trained_before} trained steps, which no result had: {end}"));
    }
    if trained_before > last && signal == "TERM" {
        return Err(format!("it goes on after {trained_before} trained steps, and there were {last}"));
    }
    scene.shown.notes.insert("rewound", last.saturating_sub(trained_before));
    scene.closes(&next, &end, trained_before, &["host_lost", "resume"])?;
    let mut host = host;
    let status = host.process.ends_within(DEADLINE)?;
    let outcome = host.process.until_it_says("outcome")?;
    if !status.success() || number(&outcome["stays"]) < 2 {
        return Err(format!("the host ends with {status}: {outcome}"));
    }
    Ok(())
}
