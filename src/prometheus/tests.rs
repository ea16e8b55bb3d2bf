use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::{Duration, Instant};

use serde_json::json;

use super::*;

const DEADLINE: Duration = Duration::from_secs(20);

const GET: &str = "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n";

/// A sample's name and labels as they are written, and its value.
type Samples = BTreeMap<String, f64>;

fn prometheus() -> Prometheus {
    Prometheus::bind("127.0.0.1:0").unwrap()
}

fn connect(prometheus: &Prometheus) -> TcpStream {
    let stream = TcpStream::connect(prometheus.addr()).unwrap();
    stream.set_read_timeout(Some(DEADLINE)).unwrap();
    stream
}

fn rest_of(mut stream: TcpStream) -> String {
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

fn ask(prometheus: &Prometheus, request: &str) -> String {
    let mut stream = connect(prometheus);
    stream.write_all(request.as_bytes()).unwrap();
    rest_of(stream)
}

/// The samples of an answer that must be well formed.
fn scraped(answer: &str) -> Samples {
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{head}");
    let length: usize = head.split_once("Content-Length: ").unwrap().1.lines().next().unwrap().parse().unwrap();
    assert_eq!(length, body.len());
    samples(body)
}

fn scrape(prometheus: &Prometheus) -> Samples {
    scraped(&ask(prometheus, GET))
}

/// A strict reading of OpenMetrics text: names, order, no sample and no family twice.
fn samples(text: &str) -> Samples {
    let body = text.strip_suffix("# EOF\n").unwrap_or_else(|| panic!("no end: {text}"));
    let (mut samples, mut families) = (Samples::new(), BTreeMap::new());
    let mut family = (String::new(), String::new());
    for line in body.lines() {
        if let Some(described) = line.strip_prefix("# HELP ") {
            let (name, help) = described.split_once(' ').unwrap();
            assert!(!help.is_empty(), "{line}");
            family = (name.to_owned(), String::new());
        } else if let Some(typed) = line.strip_prefix("# TYPE ") {
            let (name, kind) = typed.split_once(' ').unwrap();
            assert!(name == family.0 && ["counter", "gauge"].contains(&kind), "{line}");
            assert!(families.insert(name.to_owned(), kind.to_owned()).is_none(), "twice: {line}");
            family.1 = kind.to_owned();
        } else if let Some(unit) = line.strip_prefix("# UNIT ") {
            let (name, unit) = unit.split_once(' ').unwrap();
            assert!(name == family.0 && name.ends_with(&format!("_{unit}")), "{line}");
        } else {
            let (key, value) = line.rsplit_once(' ').unwrap();
            let name = key.split('{').next().unwrap();
            assert!(name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_'), "{line}");
            let ending = if family.1 == "counter" { "_total" } else { "" };
            assert_eq!(name, format!("{}{ending}", family.0), "{line}");
            assert!(key == name || (key.ends_with("\"}") && !key.contains("{}")), "{line}");
            assert!(samples.insert(key.to_owned(), value.parse().unwrap()).is_none(), "twice: {line}");
        }
    }
    samples
}

fn returning(mean: f64) -> ResultDict {
    let mut result = ResultDict::new();
    result.set("episode_return_mean", mean);
    result
}

fn samples_of(result: &ResultDict) -> Samples {
    samples(&Families::of(result).into_text())
}

#[test]
fn what_looks_like_the_path_in_a_query_is_not_taken_for_it() {
    let request = b"GET http://localhost?/metrics HTTP/1.1\r\nHost: localhost\r\n\r\n";
    let response = Prometheus::response(request, "# EOF\n").unwrap();
    assert!(response.starts_with(b"HTTP/1.1 404 "), "{}", String::from_utf8_lossy(&response));
}

#[test]
fn a_scrape_gets_the_newest_figures() {
    let mut prometheus = prometheus();
    assert!(scrape(&prometheus).is_empty());
    for mean in [1.5, -2.0] {
        prometheus.report(&returning(mean)).unwrap();
        assert_eq!(scrape(&prometheus), Samples::from([("pronk_episode_return_mean".to_owned(), mean)]));
    }
}

#[test]
fn two_scrapes_at_once_both_get_their_answer() {
    let mut prometheus = prometheus();
    prometheus.report(&returning(3.0)).unwrap();
    let mut both = [connect(&prometheus), connect(&prometheus)];
    let (first, second) = GET.split_at(20);
    for part in [first, second] {
        for stream in &mut both {
            stream.write_all(part.as_bytes()).unwrap();
        }
    }
    for stream in both {
        assert_eq!(scraped(&rest_of(stream))["pronk_episode_return_mean"], 3.0);
    }
}

#[test]
fn a_silent_client_is_dropped_and_blocks_nobody() {
    let prometheus = prometheus();
    let mut silent = connect(&prometheus);
    silent.write_all(b"GET /metr").unwrap();
    let started = Instant::now();
    scrape(&prometheus);
    assert!(started.elapsed() < server::DEADLINE, "{:?}", started.elapsed());
    assert_eq!(rest_of(silent), "");
}

#[test]
fn clients_beyond_the_bound_are_served_once_there_is_a_place() {
    let prometheus = prometheus();
    let silent: Vec<_> = (0..server::MAX_CONNECTIONS).map(|_| connect(&prometheus)).collect();
    let mut late = connect(&prometheus);
    late.write_all(GET.as_bytes()).unwrap();
    late.set_read_timeout(Some(server::DEADLINE / 8)).unwrap();
    assert!(late.read(&mut [0]).is_err(), "there was a place too many");
    drop(silent);
    late.set_read_timeout(Some(DEADLINE)).unwrap();
    scraped(&rest_of(late));
}

#[test]
fn requests_for_something_else_are_refused() {
    let prometheus = prometheus();
    let long = format!("GET /metrics HTTP/1.1\r\nHost: localhost\r\nX: {}\r\n\r\n", "x".repeat(100_000));
    for (request, status) in [
        ("GET / HTTP/1.1\r\nHost: a\r\n\r\n", "404 "),
        ("GET /metricsandmore HTTP/1.1\r\nHost: a\r\n\r\n", "404 "),
        ("POST /metrics HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc", "405 "),
        ("\u{1}\u{2}\r\n\r\n", "400 "),
        ("GET /metrics\r\n\r\n", "400 "),
        ("GET  /metrics HTTP/1.1\r\nHost: a\r\n\r\n", "400 "),
        ("GET metrics HTTP/1.1\r\nHost: a\r\n\r\n", "400 "),
        ("GET /metrics HTTP/2.0\r\nHost: a\r\n\r\n", "400 "),
        ("GET /metrics HTTP/1.1\r\n\r\n", "400 "),
        ("GET /metrics HTTP/1.1\r\nHost: a\r\nno colon\r\n\r\n", "400 "),
        (&long, "431 "),
    ] {
        let answer = ask(&prometheus, request);
        let start = &request[..request.len().min(60)];
        assert!(answer.starts_with(&format!("HTTP/1.1 {status}")), "{start:?}: {answer}");
        assert!(answer.contains("\r\nConnection: close\r\n"), "{start:?}: {answer}");
        assert_eq!(answer.contains("\r\nAllow: GET, HEAD\r\n"), status == "405 ", "{start:?}: {answer}");
    }
    scrape(&prometheus);
}

#[test]
fn requests_of_other_clients_are_understood() {
    let mut prometheus = prometheus();
    prometheus.report(&returning(3.0)).unwrap();
    for request in [
        "GET /metrics HTTP/1.0\r\n\r\n",
        "GET /metrics?name=x HTTP/1.1\r\nhost: a\r\nAccept: */*\r\n\r\n",
        "GET http://localhost/metrics HTTP/1.1\r\nHost: localhost\r\n\r\n",
        "GET /metrics HTTP/1.1\nHost: a\n\n",
    ] {
        assert_eq!(scraped(&ask(&prometheus, request))["pronk_episode_return_mean"], 3.0, "{request:?}");
    }
}

#[test]
fn a_head_request_gets_the_same_head_and_no_body() {
    let prometheus = prometheus();
    let get = ask(&prometheus, GET);
    let head = ask(&prometheus, &GET.replace("GET", "HEAD"));
    assert!(
        head.contains("\r\nContent-Type: application/openmetrics-text; version=1.0.0; charset=utf-8\r\n"),
        "{head}"
    );
    assert_eq!(Some(&*head), get.strip_suffix("# EOF\n"));
}

#[test]
fn a_taken_port_is_an_error_that_names_it() {
    let first = prometheus();
    let taken = first.addr().to_string();
    let error = Prometheus::bind(&taken).unwrap_err();
    assert!(matches!(error, PrometheusError::Taken { .. }), "{error:?}");
    assert!(error.to_string().contains(&taken), "{error}");
    assert!(matches!(Prometheus::bind("nonsense"), Err(PrometheusError::Refused { .. })));
}

#[test]
fn the_thread_ends_when_the_reporter_is_finished_or_dropped() {
    for end in [|mut prometheus: Prometheus| prometheus.finish().unwrap(), drop] {
        let prometheus = prometheus();
        let (clock, addr) = (prometheus.clock().unwrap(), prometheus.addr());
        // Neither who says nothing nor who never closes holds it up.
        let silent = connect(&prometheus);
        let mut lingering = connect(&prometheus);
        lingering.write_all(GET.as_bytes()).unwrap();
        let (sender, ended) = std::sync::mpsc::sync_channel(1);
        let ending = std::thread::Builder::new().name("ending".to_owned());
        let ending = ending.spawn(move || {
            end(prometheus);
            sender.send(()).unwrap();
        });
        // Well below the deadline of a client.
        ended.recv_timeout(Duration::from_secs(3)).expect("the thread goes on");
        ending.unwrap().join().unwrap();
        assert_eq!(clock.read().current, None);
        assert!(TcpStream::connect(addr).is_err(), "somebody still listens");
        drop((silent, lingering));
    }
}

#[test]
fn a_result_after_the_end_is_an_error() {
    let mut prometheus = prometheus();
    prometheus.finish().unwrap();
    prometheus.finish().unwrap();
    let error = prometheus.report(&returning(1.0)).unwrap_err();
    assert_eq!(error.reporter, "prometheus");
}

#[test]
fn the_threads_time_is_all_in_its_states() {
    let prometheus = prometheus();
    let clock = prometheus.clock().unwrap();
    let mut stream = connect(&prometheus);
    stream.write_all(GET.as_bytes()).unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    scraped(&rest_of(stream));
    drop(prometheus);
    let time = clock.read();
    assert_eq!(time.thread, "prometheus");
    assert!(time.is_closed(), "{time:?}");
    assert!(time.states.iter().all(|&(_, secs)| secs > 0.0), "{time:?}");
    assert_eq!(time.states.iter().map(|&(state, _)| state).collect::<Vec<_>>(), ["waiting", "serving"]);
}

#[test]
fn fates_and_flight_add_up_to_the_steps_sampled() {
    let mut result = ResultDict::new();
    result.set("num_env_steps_sampled", 10);
    result.set("counters.num_env_steps_sampled", 10);
    result.set(
        "ledger.steps",
        json!({
            "sampled": {"env": 10}, "trained_once": {"env": 4}, "trained_passes": {"env": 8}, "in_flight": {"env": 3},
            "dropped": {"too \"old\"": {"env": 2}}, "lost": {"worker\nfailed": {"env": 1}},
        }),
    );
    let expected = [
        (r#"pronk_steps_sampled_total{unit="env"}"#, 10.0),
        (r#"pronk_steps_trained_passes_total{unit="env"}"#, 8.0),
        (r#"pronk_steps_in_flight{unit="env"}"#, 3.0),
        (r#"pronk_steps_total{fate="trained",unit="env"}"#, 4.0),
        (r#"pronk_steps_total{fate="dropped",reason="too \"old\"",unit="env"}"#, 2.0),
        (r#"pronk_steps_total{fate="lost",reason="worker\nfailed",unit="env"}"#, 1.0),
    ];
    assert_eq!(samples_of(&result), Samples::from(expected.map(|(key, value)| (key.to_owned(), value))));
}

#[test]
fn figures_have_the_names_that_prometheus_expects() {
    for (path, value, key, shown) in [
        ("training_iteration", 3.0, "pronk_training_iterations_total", 3.0),
        ("time_total_s", 2.5, "pronk_run_seconds_total", 2.5),
        ("time_this_iter_s", 0.1, "pronk_time_this_iter_seconds", 0.1),
        ("progress", 0.25, "pronk_progress_ratio", 0.25),
        ("episode_reward_max", 9.0, "pronk_episode_return_max", 9.0),
        ("policy_reward_mean.red", 1.0, r#"pronk_policy_return_mean{policy="red"}"#, 1.0),
        ("policy_lag.mean", 1.5, "pronk_policy_lag_mean", 1.5),
        ("throughput.env_steps_per_s", 7.0, "pronk_throughput_env_steps_per_second", 7.0),
        ("throughput.env_steps_per_s_since_start", 7.0, "pronk_throughput_env_steps_per_second_since_start", 7.0),
        ("info.timing_breakdown.learner_grad_time_ms", 250.0, "pronk_timing_breakdown_learner_grad_time_seconds", 0.25),
        ("info.learner.red.learner_stats.total_loss", 2.0, r#"pronk_learner{policy="red",stat="total_loss"}"#, 2.0),
        ("info.learner.red.learner_stats.a.b", 2.0, r#"pronk_learner{policy="red",stat="a.b"}"#, 2.0),
        ("info.learner.red.model.x", 2.0, r#"pronk_learner{policy="red",stat="model.x"}"#, 2.0),
        ("info.learner.red.num_grad_updates_lifetime", 2.0, r#"pronk_learner_updates_total{policy="red"}"#, 2.0),
        ("counters.num_weight_broadcasts", 5.0, "pronk_weight_broadcasts_total", 5.0),
        ("workers.restarts", 1.0, "pronk_worker_restarts_total", 1.0),
        ("evaluation.episode_reward_mean", 8.0, "pronk_evaluation_return_mean", 8.0),
        ("evaluation.best.episode_reward_mean", 9.0, "pronk_evaluation_best_return_mean", 9.0),
        ("evaluation.policy_reward_mean.red", 1.0, r#"pronk_evaluation_policy_return_mean{policy="red"}"#, 1.0),
        ("evaluation.skipped", 2.0, "pronk_evaluations_skipped_total", 2.0),
        ("evaluation.took_s", 0.5, "pronk_evaluation_took_seconds", 0.5),
        ("custom_metrics.Größe (m)_total", -1.0, "pronk_custom_metrics_gr__e__m_", -1.0),
    ] {
        let mut result = ResultDict::new();
        result.set(path, value);
        assert_eq!(samples_of(&result), Samples::from([(key.to_owned(), shown)]), "{path}");
    }
}

#[test]
fn what_is_no_figure_or_told_twice_is_left_out() {
    let mut result = returning(2.0);
    result.set("episode_reward_mean", 2.0);
    result.set("sampler_results.episode_reward_mean", 2.0);
    result.set("info.num_weight_broadcasts", 5);
    result.set("counters.num_weight_broadcasts", 5);
    result.set("Custom", 1.0);
    result.set("custom", 2.0);
    result.set("info.learner.red.learner_stats.loss", 4.0);
    result.set("learner", 3.0);
    result.set("counters.below", -1.0);
    result.set("nothing", f64::NAN);
    result.set("text\n\\", "text");
    result.set("odd \\\"\nkey", 6.0);
    result.set("hist_stats", json!([1, 2]));
    result.set("is_well", true);
    result.set("ledger.time_this_iter.learner.starved", 0.5);
    result.set(
        "ledger.time.env-process-1",
        json!({"wall_secs": 4.0, "processor_secs": 3.5, "states": {"stepping": 4.0}}),
    );
    let expected = [
        ("pronk_custom", 1.0),
        (r#"pronk_env_process_cpu_seconds_total{process="env-process-1"}"#, 3.5),
        ("pronk_episode_return_mean", 2.0),
        (r#"pronk_learner{policy="red",stat="loss"}"#, 4.0),
        ("pronk_odd____key", 6.0),
        (r#"pronk_thread_state_seconds_total{thread="env-process-1",state="stepping"}"#, 4.0),
        ("pronk_weight_broadcasts_total", 5.0),
    ];
    assert_eq!(samples_of(&result), Samples::from(expected.map(|(key, value)| (key.to_owned(), value))));
}
