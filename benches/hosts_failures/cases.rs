//! What goes wrong in each case, and what must be seen of it.

#[path = "cases/network.rs"]
mod network;
#[path = "cases/processes.rs"]
mod processes;
#[path = "cases/system.rs"]
mod system;

use std::net::SocketAddr;

use crate::gate::Gate;
use crate::outside::Need;
use crate::scene::{Host, Learner, Protocol, Scene};

type Outcome = Result<(), String>;

pub(crate) struct Case {
    pub(crate) name: &'static str,
    pub(crate) protocols: &'static [Protocol],
    pub(crate) need: Need,
    pub(crate) run: fn(&mut Scene) -> Outcome,
}

const BOTH: &[Protocol] = &[Protocol::Tcp, Protocol::Quic];

/// What steps may be lost to where nothing may be lost, and where a session ends.
const NOTHING: &[&str] = &[];
const HOST_LOST: &[&str] = &["host_lost"];

/// All cases, in the order of the table.
pub(crate) fn all() -> Vec<Case> {
    let case = |name, run| Case { name, protocols: BOTH, need: Need::Nothing, run };
    let with = |need, name, run| Case { name, protocols: BOTH, need, run };
    let only = |protocols, name, run| Case { name, protocols, need: Need::Nothing, run };
    vec![
        case("host-killed", processes::host_killed),
        case("host-terminated", processes::host_terminated),
        case("host-stopped-shorter", processes::host_stopped_shorter),
        case("host-stopped-longer", processes::host_stopped_longer),
        case("learner-stopped-shorter", processes::learner_stopped_shorter),
        case("learner-stopped-longer", processes::learner_stopped_longer),
        case("twins", processes::twins),
        case("learner-killed", processes::learner_killed),
        case("learner-terminated", processes::learner_terminated),
        case("cut-shorter", network::cut_shorter),
        case("cut-longer", network::cut_longer),
        case("cut-longest", network::cut_longest),
        case("host-hears-nothing", network::host_hears_nothing),
        case("learner-hears-nothing", network::learner_hears_nothing),
        case("resets", network::resets),
        case("joins-in-bad-weather", network::joins_in_bad_weather),
        case("gate-restarted", network::gate_restarted),
        case("delay", network::delay),
        case("slow-link", network::slow_link),
        case("killed-on-slow-link", network::host_killed_on_a_slow_link),
        case("drained-during-a-cut", network::drained_during_a_cut),
        only(&[Protocol::Quic], "mess", network::mess),
        only(&[Protocol::Tcp], "bits-flipped", network::bits_flipped),
        with(Need::NetworkNamespace, "link-down-shorter", network::link_down_shorter),
        with(Need::NetworkNamespace, "link-down-longer", network::link_down_longer),
        with(Need::NetworkNamespace, "tbf-10mbit", network::tbf),
        with(Need::Compiler, "wall-clock", system::wall_clock),
        with(Need::TimeNamespace, "monotonic-clock", system::monotonic_clock),
        with(Need::Mount, "disk-full", system::disk_full),
        with(Need::Limits, "file-limit", system::file_limit),
    ]
}

/// Steps of a host that are booked before something goes wrong.
const WARM: u64 = 200;

/// A learner and a host that reaches it.
fn begin(scene: &mut Scene) -> Result<(Learner, Host), String> {
    let mut learner = scene.learner()?;
    let host = scene.host("a", learner.address);
    learner.sees_more_of(&host, WARM)?;
    Ok((learner, host))
}

/// A learner, a gate before it, and a host that reaches the gate.
fn begin_at_gate(scene: &mut Scene) -> Result<(Learner, Gate, SocketAddr, Host), String> {
    let mut learner = scene.learner()?;
    let (gate, at) = scene.gate(&learner);
    let host = scene.host("a", at);
    learner.sees_more_of(&host, WARM)?;
    Ok((learner, gate, at, host))
}

/// Whether a host has joined as often as it should.
fn has_joined(learner: &mut Learner, times: u64) -> Outcome {
    learner.catch_up();
    match learner.joined() {
        joined if joined == times => Ok(()),
        joined => Err(format!("hosts have joined {joined} times, not {times}")),
    }
}
