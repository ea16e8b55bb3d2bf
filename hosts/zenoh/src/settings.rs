//! Zenoh's settings for both ends of a link.

use std::time::Duration;

use pronk_hosts::Limits;
use serde_json::{Value, json};

use crate::address::Address;
use crate::certificates::Certificates;

/// What a link may be silent for before it counts as broken.
const LEASE: Duration = Duration::from_secs(10);
/// How long a send waits for room before the link is closed: so long may a host that stopped reading hold up
/// what shares a lock with it.
const STALLED: Duration = Duration::from_secs(1);
/// The time for a handshake, on both ends.
pub(crate) const HANDSHAKE: Duration = Duration::from_secs(3);
/// How many handshakes may be under way.
const HANDSHAKES: usize = 256;
/// Connections that are beyond two per host: those of hosts that just died and have not been missed yet.
const SPARE_SESSIONS: usize = 8;
/// The longest reply: the largest piece of weights that a learner can be set to send.
const REPLY_BYTES: usize = 257 << 20;
/// What a message is longer than its payload, at most.
const HEADER_BYTES: usize = 64 << 10;

/// Key expressions of requests begin with it.
pub(crate) const ROOT: &str = "pronk";
/// Under this one, hosts that are not allowed learn that they are not.
pub(crate) const STRANGERS: &str = "pronk-strangers";

/// What the learner's end is opened with.
pub(crate) fn of_the_learner(
    address: &Address,
    certificates: Option<&Certificates>,
    allowed: &[String],
    limits: Limits,
) -> Value {
    let mut settings = common(address, certificates, limits.request_bytes);
    settings["connect"] = json!({ "endpoints": [] });
    settings["listen"] = json!({ "endpoints": [address.to_string()], "timeout_ms": 0, "exit_on_failure": true });
    settings["transport"]["unicast"]["max_sessions"] =
        json!(limits.hosts.saturating_mul(2).saturating_add(SPARE_SESSIONS));
    settings["access_control"] = access_of_hosts(allowed);
    settings
}

/// How an actor's end behaves while the learner is not there.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Opening {
    /// It tries once, and opening fails with the cause.
    Once,
    /// It opens at once and goes on trying.
    Patient,
}

/// What an actor's end is opened with. With certificates, `learner` is the common name of the learner's.
pub(crate) fn of_an_actor(
    address: &Address,
    certificates: Option<&Certificates>,
    name: &str,
    learner: &str,
    opening: Opening,
) -> Value {
    let mut settings = common(address, certificates, REPLY_BYTES);
    let once = opening == Opening::Once;
    settings["connect"] = json!({
        "endpoints": [address.to_string()],
        "timeout_ms": if once { 0 } else { -1 },
        "exit_on_failure": once,
        "retry": { "period_init_ms": 250, "period_max_ms": 2000, "period_increase_factor": 2 },
    });
    settings["listen"] = json!({ "endpoints": [] });
    settings["open"] = json!({ "return_conditions": { "connect_scouted": once, "declares": true } });
    if certificates.is_some() {
        settings["access_control"] = access_of_the_learner(name, learner);
    }
    settings
}

fn common(address: &Address, certificates: Option<&Certificates>, max_message_bytes: usize) -> Value {
    let mut settings = json!({
        // Peers of a star: a peer passes nothing on from one host to another.
        "mode": "peer",
        "scouting": { "multicast": { "enabled": false }, "gossip": { "enabled": false } },
        "adminspace": { "enabled": false },
        "transport": {
            "unicast": {
                "open_timeout": millis(HANDSHAKE),
                "accept_timeout": millis(HANDSHAKE),
                "accept_pending": HANDSHAKES,
                "max_links": 1,
            },
            "link": {
                "protocols": [address.protocol.name()],
                "tx": {
                    "lease": millis(LEASE),
                    "queue": { "congestion_control": { "block": { "wait_before_close": STALLED.as_micros() as u64 } } },
                },
                "rx": { "max_message_size": max_message_bytes.saturating_add(HEADER_BYTES) },
            },
        },
    });
    if let Some(certificates) = certificates {
        let (ca, certificate, key) = (&certificates.ca, &certificates.certificate, &certificates.key);
        settings["transport"]["link"]["tls"] = json!({
            "root_ca_certificate": ca,
            "enable_mtls": true,
            "listen_certificate": certificate,
            "listen_private_key": key,
            "connect_certificate": certificate,
            "connect_private_key": key,
            "verify_name_on_connect": true,
            "close_link_on_expiration": true,
        });
    }
    settings
}

/// Each allowed host may ask under its own name and hear replies under it; all else is denied, among it to
/// offer replies to others. If none is named, each host that gets through the handshake may ask.
fn access_of_hosts(allowed: &[String]) -> Value {
    let any = ["*".to_owned()];
    let names = if allowed.is_empty() { &any } else { allowed };
    let mut rules = vec![
        // Without it a host does not even learn that there is a learner, so that its requests fail at once.
        json!({ "id": "offer", "messages": ["declare_queryable"], "flows": ["egress"], "permission": "allow",
            "key_exprs": [format!("{ROOT}/*/*")] }),
    ];
    let (mut subjects, mut policies) = (Vec::new(), Vec::new());
    if !allowed.is_empty() {
        let key = [format!("{STRANGERS}/*")];
        rules.extend([
            json!({ "id": "strangers ask", "messages": ["query"], "flows": ["ingress"], "permission": "allow",
                "key_exprs": &key }),
            json!({ "id": "strangers hear", "messages": ["declare_queryable", "reply"], "flows": ["egress"],
                "permission": "allow", "key_exprs": &key }),
        ]);
        subjects.push(json!({ "id": "strangers" }));
        policies.push(json!({ "rules": ["strangers ask", "strangers hear"], "subjects": ["strangers"] }));
    }
    for name in names {
        let key = [format!("{ROOT}/{name}/*")];
        let (ask, hear) = (format!("ask {name}"), format!("hear {name}"));
        rules.push(json!({ "id": &ask, "messages": ["query"], "flows": ["ingress"], "permission": "allow",
            "key_exprs": &key }));
        rules.push(json!({ "id": &hear, "messages": ["reply"], "flows": ["egress"], "permission": "allow",
            "key_exprs": &key }));
        subjects.push(match allowed.is_empty() {
            true => json!({ "id": name }),
            // Compared as a whole: a common name is no pattern.
            false => json!({ "id": name, "cert_common_names": [name] }),
        });
        policies.push(json!({ "rules": ["offer", &ask, &hear], "subjects": [name] }));
    }
    json!({ "enabled": true, "default_permission": "deny", "rules": rules, "subjects": subjects,
        "policies": policies })
}

/// An actor sends nothing to an end whose certificate has another name. Zenoh trusts the public authorities
/// besides the given one, and these sign certificates for anyone who controls a DNS name.
fn access_of_the_learner(name: &str, learner: &str) -> Value {
    let key = [format!("{ROOT}/{name}/*"), format!("{STRANGERS}/{name}")];
    json!({
        "enabled": true,
        "default_permission": "deny",
        "rules": [
            { "id": "offer", "messages": ["declare_queryable"], "flows": ["ingress"], "permission": "allow",
                "key_exprs": [format!("{ROOT}/*/*"), format!("{STRANGERS}/*")] },
            { "id": "ask", "messages": ["query"], "flows": ["egress"], "permission": "allow", "key_exprs": &key },
            { "id": "hear", "messages": ["reply"], "flows": ["ingress"], "permission": "allow", "key_exprs": &key },
        ],
        "subjects": [{ "id": "learner", "cert_common_names": [learner] }],
        "policies": [{ "rules": ["offer", "ask", "hear"], "subjects": ["learner"] }],
    })
}

fn millis(time: Duration) -> u64 {
    time.as_millis() as u64
}
