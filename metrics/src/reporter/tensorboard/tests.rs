#![allow(clippy::unwrap_used)]

use std::path::Path;

use serde_json::json;

use super::record::masked_crc;
use super::*;

/// The events of the only file in `folder`, each record checked.
fn read(folder: &Path) -> Vec<Event> {
    let files: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert_eq!(files.len(), 1, "{files:?}");
    events_of(&files[0])
}

/// The events of a file, each record checked.
fn events_of(path: &Path) -> Vec<Event> {
    let mut bytes = &*fs::read(path).unwrap();
    let mut take = |n: usize| (!bytes.is_empty()).then(|| bytes.split_off(..n).unwrap());
    let mut events = Vec::new();
    while let Some(len) = take(8) {
        assert_eq!(take(4).unwrap(), masked_crc(len).to_le_bytes());
        let data = take(u64::from_le_bytes(len.try_into().unwrap()) as usize).unwrap();
        assert_eq!(take(4).unwrap(), masked_crc(data).to_le_bytes());
        events.push(Event::decode(data).unwrap());
    }
    events
}

/// The values of the event after the one with the version.
fn reported(leaves: &[(&str, Value)]) -> (i64, Vec<TaggedValue>) {
    let folder = tempfile::tempdir().unwrap();
    TensorBoard::create(folder.path()).unwrap().report(&dict(leaves)).unwrap();
    let event = read(folder.path()).remove(1);
    (event.step, event.summary.unwrap().values)
}

fn dict(leaves: &[(&str, Value)]) -> ResultDict {
    let mut result = ResultDict::new();
    leaves.iter().for_each(|(path, value)| result.set(path, value.clone()));
    result
}

fn tags(values: &[TaggedValue]) -> Vec<&str> {
    values.iter().map(|value| &*value.tag).collect()
}

fn text(value: &TaggedValue) -> &str {
    std::str::from_utf8(&value.tensor.as_ref().unwrap().strings[0]).unwrap()
}

#[test]
fn records_are_framed_as_the_format_says() {
    // How every event file begins: 24 bytes follow, and the checksum of that.
    let first = Event { wall_time: 1.0, file_version: Some("brain.Event:2".to_owned()), ..Event::default() };
    let bytes = record(&first.encode_to_vec());
    assert_eq!(bytes[..12], [0x18, 0, 0, 0, 0, 0, 0, 0, 0xa3, 0x7f, 0x4b, 0x22]);
    assert_eq!(bytes[12..36], *b"\x09\0\0\0\0\0\0\xf0\x3f\x1a\x0dbrain.Event:2");
    assert_eq!(bytes.len(), 8 + 4 + 24 + 4);
    // The check value of CRC-32C, 0xe3069283, turned by 15 bits and with the constant of the format added.
    assert_eq!(masked_crc(b"123456789"), 0xc78a_b0e5);
}

#[test]
fn messages_have_the_fields_of_the_protocol() {
    let summary = |value| Summary { values: vec![value] }.encode_to_vec();
    // A zero must be there, or the point would be missing.
    assert_eq!(summary(TaggedValue::scalar("a".into(), 0.0)), b"\x0a\x08\x0a\x01a\x15\0\0\0\0");
    let text = b"\x0a\x1b\x0a\x01a\x42\x0c\x08\x07\x12\x04\x12\x02\x08\x01\x42\x02hi\x4a\x08\x0a\x06\x0a\x04text";
    assert_eq!(summary(TaggedValue::text("a".into(), "hi")), text);
    let histogram = Histogram::of_values(&[2.0]).unwrap();
    let two = [0, 0, 0, 0, 0, 0, 0, 0x40];
    let one = [0, 0, 0, 0, 0, 0, 0xf0, 0x3f];
    let four = [0, 0, 0, 0, 0, 0, 0x10, 0x40];
    let fields = [(0x09, two), (0x11, two), (0x19, one), (0x21, two), (0x29, four)];
    let mut expected: Vec<u8> = fields.iter().flat_map(|(key, value)| [&[*key], &value[..]].concat()).collect();
    expected.extend([&[0x32, 8], &two[..], &[0x3a, 8], &one[..]].concat());
    assert_eq!(histogram.encode_to_vec(), expected);
}

#[test]
fn each_result_is_on_disk_before_the_next_under_its_step() {
    let folder = tempfile::tempdir().unwrap();
    let nested = folder.path().join("a/b");
    let before = now_secs();
    let mut events = TensorBoard::create(&nested).unwrap().with_text("settings", "lr = 1").unwrap();
    for n in 1..=3_i64 {
        events.report(&dict(&[("num_env_steps_sampled", (1000 * n).into()), ("x", n.into())])).unwrap();
        let written = read(&nested);
        assert_eq!(written.len() as i64, 2 + n);
        assert_eq!(written.last().unwrap().step, 1000 * n);
    }
    events.finish().unwrap();
    let written = read(&nested);
    assert_eq!(written[0].file_version.as_deref(), Some("brain.Event:2"));
    assert!(written.iter().all(|event| event.wall_time >= before));
    let settings = &written[1].summary.as_ref().unwrap().values[0];
    assert_eq!((&*settings.tag, text(settings)), ("settings", "lr = 1"));
    let values = &written[4].summary.as_ref().unwrap().values;
    assert_eq!(tags(values), ["time/total_timesteps", "x"]);
    assert_eq!(values[1].simple_value, Some(3.0));
}

#[test]
fn a_resumed_run_has_each_step_once() {
    let folder = tempfile::tempdir().unwrap();
    let steps = |path: &Path| events_of(path).iter().skip(1).map(|event| event.step).collect::<Vec<_>>();
    let result = |step: i64| dict(&[("num_env_steps_sampled", step.into()), ("x", 0.5.into())]);
    let mut before = TensorBoard::create(folder.path()).unwrap();
    (1..=2).for_each(|n| before.report(&result(10 * n)).unwrap());
    let mark = before.mark().unwrap();
    before.report(&result(30)).unwrap();
    let (path, tail) = (folder.path().join(&mark.file), folder.path().join("tail"));
    assert_eq!((steps(&path), &path), (vec![10, 20, 30], &mark.path));

    let mut after = TensorBoard::resume(&path, mark.bytes, || tail.clone(), 21).unwrap();
    after.report(&result(25)).unwrap();
    assert_eq!(steps(&path), [10, 20]);
    assert!(fs::metadata(&tail).unwrap().len() > 0, "what follows is kept");
    let beside = events_of(&folder.path().join(after.mark().unwrap().file));
    let begins = beside[1].session.as_ref().map(|session| session.status);
    assert_eq!((beside[1].step, begins), (21, Some(SessionLog::START)), "later steps of other files are forgotten");
    assert_eq!(beside[2..].iter().map(|event| event.step).collect::<Vec<_>>(), [25]);
    assert!(TensorBoard::resume(&path, mark.bytes + 1, || tail, 21).is_err(), "a file that is too short");
}

#[test]
fn reporters_that_begin_together_have_files_of_their_own() {
    let folder = tempfile::tempdir().unwrap();
    let _both = [TensorBoard::create(folder.path()).unwrap(), TensorBoard::create(folder.path()).unwrap()];
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2);
}

#[test]
fn steps_are_exact_and_kept_within_their_range() {
    let sampled = |step: Value| reported(&[("num_env_steps_sampled", step), ("training_iteration", 7.into())]).0;
    assert_eq!(sampled((1_u64 << 31).into()), 1 << 31);
    assert_eq!(sampled(((1_u64 << 53) + 1).into()), (1 << 53) + 1);
    assert_eq!(sampled(u64::MAX.into()), i64::MAX);
    assert_eq!(sampled(1e300.into()), i64::MAX);
    assert_eq!(sampled(Value::Null), 7);
    assert_eq!(reported(&[("x", 1.into())]).0, 0);
}

#[test]
fn figures_that_an_f32_cannot_hold_are_infinite_and_those_that_are_none_are_left_out() {
    let (_, values) = reported(&[
        ("huge", 1e300.into()),
        ("low", (-1e300).into()),
        ("tiny", 1e-300.into()),
        ("nan", f64::NAN.into()),
        ("infinite", f64::INFINITY.into()),
        ("most", u64::MAX.into()),
        ("yes", true.into()),
        ("no", false.into()),
    ]);
    assert_eq!(tags(&values), ["huge", "low", "tiny", "most", "yes", "no"]);
    let scalars: Vec<_> = values.iter().map(|value| value.simple_value.unwrap()).collect();
    assert_eq!(scalars, [f32::INFINITY, f32::NEG_INFINITY, 0.0, u64::MAX as f32, 1.0, 0.0]);
}

#[test]
fn known_leaves_go_by_the_names_that_people_look_for() {
    let (_, values) = reported(&[
        ("training_iteration", 1.into()),
        ("time_total_s", 2.into()),
        ("num_env_steps_sampled", 3.into()),
        ("episode_reward_mean", 4.into()),
        ("episode_len_mean", 5.into()),
        ("throughput.env_steps_per_s", 6.into()),
        ("info.learner.default_policy.learner_stats.entropy", 7.into()),
        ("info.learner.rival.learner_stats.entropy", 8.into()),
        ("policy_lag.mean", 9.into()),
        ("info.learner.default_policy.num_agent_steps_trained", 10.into()),
    ]);
    let shown: Vec<_> = values.iter().map(|value| (&*value.tag, value.simple_value.unwrap())).collect();
    assert_eq!(
        shown,
        [
            ("time/iterations", 1.0),
            ("time/time_elapsed", 2.0),
            ("time/total_timesteps", 3.0),
            ("rollout/ep_rew_mean", 4.0),
            ("rollout/ep_len_mean", 5.0),
            ("time/fps", 6.0),
            ("train/entropy", 7.0),
            ("info/learner/default_policy/num_agent_steps_trained", 10.0),
            ("train/rival/entropy", 8.0),
            ("policy_lag/mean", 9.0),
        ]
    );
}

#[test]
fn what_a_result_says_twice_is_shown_once() {
    let mut leaves = vec![
        ("episode_reward_mean", json!(1)),
        ("num_env_steps_sampled", json!(1)),
        ("num_agent_steps_trained_once", json!(1)),
        ("workers.healthy", json!(1)),
        ("counters.num_weight_broadcasts", json!(1)),
        ("info.learner_queue.size_mean", json!(1)),
    ];
    let once = reported(&leaves).1;
    let repeats = [
        "sampler_results.episode_reward_mean",
        "episode_return_mean",
        "counters.num_env_steps_sampled",
        "info.num_env_steps_sampled",
        "timesteps_total",
        "ledger.steps.sampled.env",
        "ledger.steps.trained_once.agent",
        "num_healthy_workers",
        "info.num_weight_broadcasts",
        "info.learner_queue.size_quantiles",
        "ledger.time.learner.wall_secs",
    ];
    leaves.extend(repeats.map(|path| (path, json!(1))));
    assert_eq!(tags(&reported(&leaves).1), tags(&once));
    // Without what they repeat they are all there is.
    let alone: Vec<_> = repeats.map(|path| (path, json!(1))).into_iter().take(9).collect();
    assert_eq!(reported(&alone).1.len(), 9);
}

#[test]
fn lists_of_numbers_and_counts_between_edges_are_histograms() {
    let (_, values) = reported(&[
        ("hist_stats.episode_reward", json!([1.0, 2.0, null, 4.0])),
        ("policy_lag", json!({"mean": 1.5, "histogram": {"edges": [0, 1, 2], "counts": [0, 4]}})),
        ("open", json!({"counts": [1, 2], "edges": [0, 1]})),
        ("empty", json!([])),
        ("mixed", json!([1, "a"])),
        ("wrong", json!({"edges": [0, 1], "counts": [[1], [2]]})),
        ("alone.edges", json!([0, 1])),
    ]);
    assert_eq!(
        tags(&values),
        ["rollout/ep_rew", "policy_lag/mean", "policy_lag/histogram", "open", "wrong/edges", "alone/edges"]
    );
    let histogram = |at: usize| values[at].histogram.clone().unwrap();
    assert_eq!((histogram(0).num, histogram(0).min, histogram(0).max), (3.0, 1.0, 4.0));
    assert_eq!((histogram(2).limits, histogram(2).counts), (vec![2.0], vec![4.0]));
    assert_eq!((histogram(3).limits, histogram(3).counts), (vec![1.0, 2.0], vec![1.0, 2.0]));
}

#[test]
fn a_text_is_written_when_it_changed() {
    let folder = tempfile::tempdir().unwrap();
    let mut events = TensorBoard::create(folder.path()).unwrap();
    let steady = json!(["worker 1 ended", "worker 2 ended"]);
    for (n, sentence) in ["a", "a", "b", "", "a"].into_iter().enumerate() {
        let sentence = if sentence.is_empty() { Value::Null } else { sentence.into() };
        let leaves = [("training_iteration", n.into()), ("bottleneck.sentence", sentence), ("gave_up", steady.clone())];
        events.report(&dict(&leaves)).unwrap();
    }
    let texts_at: Vec<Vec<(String, String)>> = read(folder.path())
        .iter()
        .filter_map(|event| event.summary.as_ref())
        .map(|summary| summary.values.iter().filter(|value| value.tensor.is_some()))
        .map(|texts| texts.map(|value| (value.tag.clone(), text(value).to_owned())).collect())
        .collect();
    let sentence = |text: &str| ("bottleneck/sentence".to_owned(), text.to_owned());
    let gave_up = ("gave_up".to_owned(), "- worker 1 ended\n- worker 2 ended".to_owned());
    assert_eq!(texts_at, [vec![sentence("a"), gave_up], vec![], vec![sentence("b")], vec![], vec![sentence("a")]]);
}

#[test]
fn errors_name_the_reporter_and_the_path() {
    let folder = tempfile::tempdir().unwrap();
    let in_the_way = folder.path().join("file");
    fs::write(&in_the_way, "").unwrap();
    let error = TensorBoard::create(in_the_way.join("events")).unwrap_err().to_string();
    assert!(error.contains("tensorboard") && error.contains(&*in_the_way.to_string_lossy()), "{error}");
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_is_an_error_and_no_panic() {
    let full = || ReportFile::create(NAME, "/dev/full").unwrap();
    let begin = TensorBoard::begin(full()).unwrap_err();
    let mut running = TensorBoard { file: full(), texts: BTreeMap::new() };
    for error in [begin, running.report(&dict(&[("x", 1.into())])).unwrap_err()] {
        let error = error.to_string();
        assert!(error.contains("tensorboard") && error.contains("/dev/full"), "{error}");
    }
}
