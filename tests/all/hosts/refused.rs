//! Hosts and runs that do not fit each other.

use super::*;

#[test]
fn a_host_that_differs_is_refused_and_both_values_are_named() {
    without_hanging("refused", || {
        let network = MemoryNetwork::new();
        let trainer = listen(&network, learner());
        let host = OnThread::of(&network, "a", 1, |_: &EnvContext| pronk::envs::Acrobot::new());
        let refused = host.thread.join().unwrap().unwrap_err();
        let ActingError::Join(JoinError::Refused { refusal: Refusal::Differs { what, learner, actor }, .. }) = &refused
        else {
            panic!("{refused}")
        };
        assert_eq!(
            (what.as_str(), learner.as_str(), actor.as_str()),
            ("action space of default_policy", "Discrete(2)", "Discrete(3)")
        );
        assert!(refused.to_string().contains("the learner has Discrete(2), the actor has Discrete(3)"), "{refused}");
        assert_closed(&trainer.finish().unwrap());
    });
}

#[test]
fn a_host_normalises_rewards_by_the_discount_of_the_learners_algorithm_or_is_refused() {
    without_hanging("discounts", || {
        let network = MemoryNetwork::new();
        let own = || Impala::new(ImpalaConfig { gamma: 0.8, ..ImpalaConfig::default() }).unwrap();
        let run = |config| Trainer::builder(config).env(|_: &EnvContext| CartPole::new());
        let config = with(learner(), |config| config.workers.normalize_rewards = true);
        let trainer = run(config).algorithm(own()).listen(network.listen(), terms()).build().unwrap();
        let host = run(TrainerConfig::default()).connect(network.dial("a")).workers(1);
        let refused = host.run().unwrap_err().to_string();
        has_words(&refused, &["discount that rewards are normalised by", "the learner has 0.8", "the actor has 0.99"]);

        let host = run(TrainerConfig::default()).algorithm(own()).connect(network.dial("b")).workers(1);
        let host = std::thread::spawn(|| host.run());
        assert_closed(&trainer.run(env_steps(1_000)).unwrap());
        host.join().unwrap().unwrap();
    });
}

#[test]
fn nobody_there_is_an_error_that_says_where_and_for_how_long() {
    let network = MemoryNetwork::new();
    let host = Trainer::builder(TrainerConfig::default()).env(|_: &EnvContext| CartPole::new());
    let host = host.connect(network.dial("a")).patience(Duration::from_millis(100));
    let error = host.run().unwrap_err().to_string();
    assert!(
        error.contains("no learner at memory has answered for 0 s") && error.contains("no learner listens"),
        "{error}"
    );
}

#[test]
fn deterministic_admission_and_replays_are_refused_with_hosts() {
    let network = MemoryNetwork::new();
    let config = with(small(2), |config| {
        config.learner.admission = pronk::config::Admission::Deterministic { lag: 1 };
        config.results.min_sample_timesteps_per_iteration = 100;
        config.learner.learner_queue_size = None;
    });
    let run = Trainer::builder(config).env(|_: &EnvContext| CartPole::new());
    let refused = run.listen(network.listen(), terms()).build().map(drop).unwrap_err();
    assert!(matches!(&refused, TrainError::Config(error) if error.field == "admission"), "{refused}");
    assert!(refused.to_string().contains("hosts come and go"), "{refused}");
}
