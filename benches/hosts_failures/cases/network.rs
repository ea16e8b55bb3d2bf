//! Networks that fail: at the gate, and between two machines.

use std::time::{Duration, Instant};

use super::{HOST_LOST, NOTHING, Outcome, WARM, begin_at_gate, has_joined};
use crate::gate::{Way, Weather};
use crate::outside::Machines;
use crate::pause;
use crate::process::DEADLINE;
use crate::scene::{Host, Learner, Protocol, Scene, number, stays};

/// Nothing gets through for less than a lease: no step is lost.
pub(super) fn cut_shorter(scene: &mut Scene) -> Outcome {
    let (mut learner, gate, _, host) = begin_at_gate(scene)?;
    gate.set(Weather::cut());
    // The couriers' pauses and those of QUIC grow with the cut, and must end within the lease.
    pause(scene.secs(0.2, 1.5));
    gate.set(Weather::default());
    scene.recovers(&mut learner, &host)?;
    learner.sees_more_of(&host, WARM)?;
    has_joined(&mut learner, 1)?;
    scene.ends(learner, vec![host], NOTHING)
}

/// Nothing gets through for longer than the lease: the host joins anew.
pub(super) fn cut_longer(scene: &mut Scene) -> Outcome {
    let cut = scene.secs(4.5, 6.0);
    joins_anew(scene, Weather::cut(), cut)
}

/// Nothing gets through for longer than connections live.
pub(super) fn cut_longest(scene: &mut Scene) -> Outcome {
    let cut = scene.secs(12.0, 14.0);
    joins_anew(scene, Weather::cut(), cut)
}

/// What the learner says does not arrive. The host notices that within a lease and a half: a report that it
/// sends before a lease is over may take half of one.
pub(super) fn host_hears_nothing(scene: &mut Scene) -> Outcome {
    let weather = Weather { to_host: Way { is_cut: true, ..Way::default() }, ..Weather::default() };
    let cut = scene.secs(5.0, 6.5);
    joins_anew(scene, weather, cut)
}

/// What the host says does not arrive.
pub(super) fn learner_hears_nothing(scene: &mut Scene) -> Outcome {
    let weather = Weather { to_learner: Way { is_cut: true, ..Way::default() }, ..Weather::default() };
    let cut = scene.secs(4.5, 6.0);
    joins_anew(scene, weather, cut)
}

fn joins_anew(scene: &mut Scene, weather: Weather, time: Duration) -> Outcome {
    let (mut learner, gate, _, mut host) = begin_at_gate(scene)?;
    gate.set(weather);
    stays(&mut host.process, time)?;
    gate.set(Weather::default());
    scene.recovers(&mut learner, &host)?;
    learner.until("the host to join anew", |line| line["hosts"]["joined"].as_u64() >= Some(2))?;
    learner.sees_more_of(&host, WARM)?;
    // More often only if something of its first stay came late.
    scene.shown.notes.insert("joined", learner.joined());
    scene.ends(learner, vec![host], HOST_LOST)
}

/// Connections are reset after a drawn number of bytes, and then at drawn times.
pub(super) fn resets(scene: &mut Scene) -> Outcome {
    let (mut learner, gate, _, host) = begin_at_gate(scene)?;
    gate.set(Weather { reset_after: Some(40_000), ..Weather::default() });
    pause(scene.secs(3.0, 4.0));
    gate.set(Weather::default());
    for _ in 0..4 {
        pause(scene.secs(0.1, 1.2));
        gate.reset();
    }
    scene.recovers(&mut learner, &host)?;
    learner.sees_more_of(&host, WARM)?;
    scene.shown.notes.insert("resets", gate.resets());
    scene.shown.notes.insert("joined", learner.joined());
    scene.ends(learner, vec![host], HOST_LOST)
}

/// A host joins where nothing lasts: connections are reset all the time, and datagrams lost.
pub(super) fn joins_in_bad_weather(scene: &mut Scene) -> Outcome {
    let mut learner = scene.learner()?;
    let (gate, at) = scene.gate(&learner);
    gate.set(Weather::both(Way { lose: 0.2, reorder: 0.1, repeat: 0.05, damage: 0.02, ..Way::default() }));
    if scene.protocol == Protocol::Tcp {
        gate.set(Weather::both(Way { jitter: Duration::from_millis(100), ..Way::default() }));
    }
    let mut host = scene.host("a", at);
    for _ in 0..12 {
        stays(&mut host.process, scene.secs(0.05, 0.6))?;
        gate.reset();
    }
    gate.set(Weather::default());
    let healed = Instant::now();
    // Zenoh waits half a minute for each QUIC handshake that stalled, one after the other.
    let when = learner.sees_more_of_within(&host, 1, 4 * DEADLINE)?;
    scene.shown.recover_secs = when.saturating_duration_since(healed).as_secs_f64();
    learner.sees_more_of(&host, WARM)?;
    scene.shown.notes.insert("resets", gate.resets());
    scene.shown.notes.insert("joined", learner.joined());
    scene.ends(learner, vec![host], HOST_LOST)
}

/// The gate is gone for a while.
pub(super) fn gate_restarted(scene: &mut Scene) -> Outcome {
    let (mut learner, gate, at, host) = begin_at_gate(scene)?;
    drop(gate);
    pause(scene.secs(0.2, 2.0));
    let _gate = scene.gate_at(at, &learner);
    scene.recovers(&mut learner, &host)?;
    learner.sees_more_of(&host, WARM)?;
    scene.shown.notes.insert("joined", learner.joined());
    scene.ends(learner, vec![host], HOST_LOST)
}

/// Everything is up to a tenth of a second late.
pub(super) fn delay(scene: &mut Scene) -> Outcome {
    let way = Way { jitter: Duration::from_millis(100), ..Way::default() };
    goes_on(scene, Weather::both(way))
}

/// Datagrams are lost, overtaken, repeated and damaged.
pub(super) fn mess(scene: &mut Scene) -> Outcome {
    let way = Way { lose: 0.02, reorder: 0.05, repeat: 0.01, damage: 0.005, ..Way::default() };
    goes_on(scene, Weather::both(way))
}

/// A link that carries less than the host makes.
pub(super) fn slow_link(scene: &mut Scene) -> Outcome {
    scene.width = 256;
    let way = Way { bytes_per_s: Some(200_000.0), ..Way::default() };
    goes_on(scene, Weather::both(way))
}

/// A host is killed while its fragments crawl over a slow link: what it had stated is lost. Another process
/// takes its place.
pub(super) fn host_killed_on_a_slow_link(scene: &mut Scene) -> Outcome {
    // A fragment takes a third of a second, so that there is one on the way.
    scene.width = 512;
    let (mut learner, gate, at, mut host) = begin_at_gate(scene)?;
    gate.set(Weather::both(Way { bytes_per_s: Some(100_000.0), ..Way::default() }));
    pause(scene.secs(1.5, 2.5));
    learner.catch_up();
    learner.until("fragments on the way", |line| number(&line["steps"]["in_flight"]["env"]) > 0)?;
    host.process.kill();
    // What the killed host had sent comes in before the next one joins, or never.
    gate.reset();
    gate.set(Weather::default());
    let started = Instant::now();
    let next = scene.host("a", at);
    scene.recovers_since(started, &mut learner, &next)?;
    learner.loses(1)?;
    learner.sees_more_of(&next, WARM)?;
    scene.ends(learner, vec![next], HOST_LOST)?;
    if scene.shown.lost.is_empty() { Err("nothing was on the way".to_owned()) } else { Ok(()) }
}

/// The run ends while fragments crawl over a slow link, and then nothing gets through for less than
/// a lease: it waits for its host, and nothing is lost.
pub(super) fn drained_during_a_cut(scene: &mut Scene) -> Outcome {
    scene.width = 256;
    let (mut learner, gate, _, mut host) = begin_at_gate(scene)?;
    gate.set(Weather::both(Way { bytes_per_s: Some(100_000.0), ..Way::default() }));
    stays(&mut host.process, scene.secs(1.5, 2.5))?;
    learner.drains_after(0)?;
    gate.set(Weather::cut());
    // Longer than the learner waits for a fragment before it says so. The pauses of QUIC grow with the cut
    // and must end within the lease, with the time that the slow link took before.
    stays(&mut host.process, scene.secs(1.1, 1.5))?;
    gate.set(Weather::default());
    let healed = Instant::now();
    let end = scene.has_ended(learner, vec![host], NOTHING);
    scene.shown.recover_secs = healed.elapsed().as_secs_f64();
    end
}

/// A network that is bad and costs no step.
fn goes_on(scene: &mut Scene, weather: Weather) -> Outcome {
    let (mut learner, gate, _, mut host) = begin_at_gate(scene)?;
    gate.set(weather);
    looks_at(scene, &mut learner, &mut host)?;
    gate.set(Weather::default());
    scene.recovers(&mut learner, &host)?;
    learner.sees_more_of(&host, WARM)?;
    has_joined(&mut learner, 1)?;
    scene.shown.notes.insert("damaged", gate.damaged());
    scene.ends(learner, vec![host], NOTHING)
}

/// Sees the run go on for some seconds, and whether results name the network as the bottleneck.
fn looks_at(scene: &mut Scene, learner: &mut Learner, host: &mut Host) -> Outcome {
    for _ in 0..3 {
        stays(&mut host.process, scene.secs(1.0, 2.0))?;
        learner.catch_up();
        learner.sees_more_of(host, 32)?;
    }
    scene.shown.notes.insert("named network", u64::from(learner.latest["bottleneck"] == "network"));
    Ok(())
}

/// Bits of the stream are wrong. A host that ends for that is started again, as a service manager does.
pub(super) fn bits_flipped(scene: &mut Scene) -> Outcome {
    let (mut learner, gate, at, mut host) = begin_at_gate(scene)?;
    gate.set(Weather::both(Way { damage: 0.02, ..Way::default() }));
    let mut restarts = 0;
    for _ in 0..40 {
        pause(Duration::from_millis(250));
        if host.process.has_ended() {
            restarts += 1;
            host = scene.host("a", at);
        }
        if gate.damaged() >= 15 {
            break;
        }
    }
    let damaged = gate.damaged();
    gate.set(Weather::default());
    if damaged == 0 {
        return Err("no bit was wrong".to_owned());
    }
    let healed = Instant::now();
    let when = loop {
        learner.catch_up();
        match learner.sees_more_of_within(&host, 1, Duration::from_secs(1)) {
            Ok(when) => break when,
            Err(_) if host.process.has_ended() => {
                restarts += 1;
                host = scene.host("a", at);
            }
            Err(error) if healed.elapsed() > crate::process::DEADLINE => return Err(error),
            Err(_) => {}
        }
    };
    scene.shown.recover_secs = when.saturating_duration_since(healed).as_secs_f64();
    // It may learn only now that its session has ended.
    while let Err(error) = learner.sees_more_of_within(&host, WARM, Duration::from_secs(5)) {
        if host.process.has_ended() {
            restarts += 1;
            host = scene.host("a", at);
        } else if healed.elapsed() > 2 * DEADLINE {
            return Err(error);
        }
    }
    scene.shown.notes.insert("damaged", damaged);
    scene.shown.notes.insert("restarts", restarts);
    scene.shown.notes.insert("joined", learner.joined());
    scene.ends(learner, vec![host], HOST_LOST)
}

/// The cable between two machines is out for less than a lease.
pub(super) fn link_down_shorter(scene: &mut Scene) -> Outcome {
    link_down(scene, (0.2, 1.2), 1, NOTHING)
}

/// The cable between two machines is out for longer than the lease.
pub(super) fn link_down_longer(scene: &mut Scene) -> Outcome {
    link_down(scene, (4.5, 6.0), 2, HOST_LOST)
}

fn link_down(scene: &mut Scene, (from, to): (f64, f64), joined: u64, causes: &[&str]) -> Outcome {
    let machines = Machines::connect()?;
    let mut learner = at_two_machines(scene, &machines)?;
    let mut host = scene.host("a", learner.address);
    learner.sees_more_of(&host, WARM)?;
    machines.plug(false)?;
    stays(&mut host.process, scene.secs(from, to))?;
    machines.plug(true)?;
    scene.recovers(&mut learner, &host)?;
    learner.sees_more_of(&host, WARM)?;
    has_joined(&mut learner, joined)?;
    scene.ends(learner, vec![host], causes)
}

/// A link of 10 Mbit/s, which carries less than the host makes.
pub(super) fn tbf(scene: &mut Scene) -> Outcome {
    let machines = Machines::connect()?;
    scene.width = 1_000;
    let mut learner = at_two_machines(scene, &machines)?;
    let mut host = scene.host("a", learner.address);
    learner.sees_more_of(&host, WARM)?;
    machines.slow_down("10mbit", "32kbit")?;
    looks_at(scene, &mut learner, &mut host)?;
    scene.recovers(&mut learner, &host)?;
    has_joined(&mut learner, 1)?;
    scene.ends(learner, vec![host], NOTHING)
}

/// A learner on one machine; hosts start on the other from now on.
fn at_two_machines(scene: &mut Scene, machines: &Machines) -> Result<Learner, String> {
    scene.ip = Machines::IP;
    scene.within = machines.at_learner();
    let learner = scene.learner()?;
    scene.within = machines.at_host();
    Ok(learner)
}
