//! Workers on other machines over real connections on loopback.

use std::path::Path;
use std::time::Duration;

use pronk::envs::CartPole;
use pronk::hosts::{Dial, Terms};
use pronk::hosts_zenoh::{Certificates, LEARNER, ZenohDial, ZenohListen, make_certificates};
use pronk::prelude::*;
use pronk::{ActingError, ActingOutcome, Run};

use crate::fixtures::{small, with, without_hanging};

fn config() -> TrainerConfig {
    with(small(0), |config| config.results.min_time_s_per_iteration = 0.01)
}

fn host(to: impl Dial + 'static) -> Result<ActingOutcome, ActingError> {
    let run = Trainer::builder(TrainerConfig::default()).env(|_: &EnvContext| CartPole::new());
    run.connect(to).workers(2).patience(Duration::from_secs(20)).run()
}

/// A run at a free port, and what its hosts, one for each dial, have done.
fn run(
    listen: ZenohListen,
    dials: impl FnOnce(&str) -> Vec<ZenohDial>,
) -> (Run, Vec<Result<ActingOutcome, ActingError>>) {
    let builder = Trainer::builder(config()).env(|_: &EnvContext| CartPole::new());
    let trainer = builder.listen(listen, Terms::default()).build().unwrap();
    let address = trainer.listens_at().unwrap();
    let hosts: Vec<_> = dials(&address).into_iter().map(|dial| std::thread::spawn(|| host(dial))).collect();
    let run = trainer.run(StopWhen { env_steps: Some(20_000), ..StopWhen::default() }).unwrap();
    (run, hosts.into_iter().map(|host| host.join().unwrap()).collect())
}

fn certificates(folder: &Path, name: &str) -> Certificates {
    Certificates::in_folder(folder, name)
}

#[test]
fn two_hosts_sample_for_a_run_over_plain_tcp_on_loopback() {
    without_hanging("tcp", || {
        let dials = |address: &str| ["a", "b"].map(|name| ZenohDial::to(address).name(name)).into();
        let (run, hosts) = run(ZenohListen::at("tcp/127.0.0.1:0"), dials);
        assert!(run.ledger_closed() && run.steps.lost.is_empty(), "{:?}", run.steps);
        let arrived: u64 = hosts.into_iter().map(|host| host.unwrap().env_steps).sum();
        assert_eq!(arrived, run.steps.trained_once.env + run.steps.dropped.values().map(|it| it.env).sum::<u64>());
    });
}

#[test]
fn only_a_host_on_the_list_with_its_own_certificate_samples_over_quic() {
    without_hanging("quic", || {
        let (folder, foreign) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        make_certificates(folder.path(), &["127.0.0.1"], &["a", "b"]).unwrap();
        make_certificates(foreign.path(), &[], &["a"]).unwrap();
        let listen =
            ZenohListen::at("quic/127.0.0.1:0").certificates(certificates(folder.path(), LEARNER)).allow(["a"]);
        let builder = Trainer::builder(config()).env(|_: &EnvContext| CartPole::new());
        let trainer = builder.listen(listen, Terms::default()).build().unwrap();
        let address = trainer.listens_at().unwrap();
        let refused = |certificates: Certificates| {
            let run = Trainer::builder(TrainerConfig::default()).env(|_: &EnvContext| CartPole::new());
            let dial = ZenohDial::to(&address).certificates(certificates);
            run.connect(dial).patience(Duration::from_secs(1)).run().unwrap_err().to_string()
        };
        let not_listed = refused(certificates(folder.path(), "b"));
        assert!(not_listed.contains("does not allow a host named `b`"), "{not_listed}");
        let stranger = refused(certificates(foreign.path(), "a"));
        assert!(stranger.contains("no learner at quic/127.0.0.1"), "{stranger}");
        let dial = ZenohDial::to(&address).certificates(certificates(folder.path(), "a"));
        let welcome = std::thread::spawn(|| host(dial));
        let run = trainer.run(StopWhen { env_steps: Some(20_000), ..StopWhen::default() }).unwrap();
        assert!(run.ledger_closed(), "{:?}", run.steps);
        assert!(welcome.join().unwrap().unwrap().env_steps >= 20_000);
    });
}
