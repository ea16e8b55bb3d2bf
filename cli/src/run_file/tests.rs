#![allow(clippy::unwrap_used)]
use std::path::Path;

use pronk::AlgorithmConfig;
use serde_json::json;

use super::*;

fn parse(text: &str, flags: &[&str]) -> Result<RunFile, String> {
    let flags = flags.iter().map(|flag| flag.parse().unwrap()).collect();
    RunFile::parse(Path::new("run.toml"), text, flags).map_err(|error| error.to_string())
}

const FILE: &str = r#"env = "CartPole-v1"
lr = 0.002

[workers]
num_envs_per_worker = 8

[algorithm.ppo]
clip_param = 0.3
"#;

#[test]
fn a_file_has_tables_and_keys_of_groups_at_the_top() {
    let file = parse(FILE, &[]).unwrap();
    assert_eq!((file.env.as_str(), file.config.learner.lr), ("CartPole-v1", 0.002));
    assert_eq!(file.config.workers.num_envs_per_worker, 8);
    assert!(matches!(&file.config.algorithm, AlgorithmConfig::Ppo(ppo) if ppo.clip_param == 0.3));
}

#[test]
fn flags_win_over_the_file_and_later_ones_over_earlier_ones() {
    let file = parse(FILE, &["learner.lr=0.1", "lr=0.2", "workers.num_envs_per_worker=3", "env=Acrobot-v1"]).unwrap();
    assert_eq!(
        (file.env.as_str(), file.config.learner.lr, file.config.workers.num_envs_per_worker),
        ("Acrobot-v1", 0.2, 3)
    );
    // As in RLlib, every setting is an algorithm's.
    let file = parse(FILE, &["algorithm.lr=0.3", "algorithm.clip_param=0.25"]).unwrap();
    assert_eq!(file.config.learner.lr, 0.3);
    assert!(matches!(&file.config.algorithm, AlgorithmConfig::Ppo(ppo) if ppo.clip_param == 0.25));
    // Another algorithm leaves out the settings of the one before.
    let file = parse(FILE, &["algorithm=appo", "algorithm.clip_param=0.15"]).unwrap();
    assert!(matches!(&file.config.algorithm, AlgorithmConfig::Appo(appo) if appo.clip_param == 0.15));
    let lag = ["learner.admission.deterministic.lag=2", "min_sample_timesteps_per_iteration=9"];
    let file = parse(FILE, &lag).unwrap();
    assert_eq!(json!(file.config.learner.admission), json!({ "deterministic": { "lag": 2 } }));
}

#[test]
fn limits_and_wrappers_of_processes_can_be_set() {
    let text = r#"env = "gymnasium:env:Case-v0"
[env_options]
start_timeout = "5 min"
step_timeout = 2.5
wrappers = ["m:Flat", { name = "m:Scaled", kwargs = { by = 2, mode = "none" } }]
"#;
    let file = parse(text, &["env_options.close_timeout=30 s"]).unwrap();
    let options = &file.env_options;
    let times = [options.start_timeout, options.step_timeout, options.close_timeout];
    assert_eq!(times.map(|time| time.map(f64::from)), [Some(300.0), Some(2.5), Some(30.0)]);
    let scaled = json!({ "name": "m:Scaled", "kwargs": { "by": 2, "mode": "none" } });
    let wrappers = json!([{ "name": "m:Flat", "kwargs": {} }, scaled]);
    assert_eq!(json!(options.wrappers), wrappers);
    let written = file.to_toml().unwrap();
    assert_eq!(parse(&written, &[]).unwrap(), file, "{written}");
    let flag = r#"env_options.wrappers=["m:Other"]"#;
    assert_eq!(json!(parse(text, &[flag]).unwrap().env_options.wrappers), json!([{ "name": "m:Other", "kwargs": {} }]));
    let set = |flag: &str| parse("env = \"x\"", &[flag]);
    assert_eq!(set("env_options.step_timeout=none").unwrap().env_options.step_timeout, None);
    for wrong in ["0", "-1", "soon", "5 env-steps", "true"] {
        let error = set(&format!("env_options.start_timeout={wrong}")).unwrap_err();
        assert!(error.contains("`env_options.start_timeout`") && error.contains("\"5 min\""), "{error}");
    }
    for wrong in ["3", "[3]", "[{ name = \"m:A\", kwarg = {} }]"] {
        let error = set(&format!("env_options.wrappers={wrong}")).unwrap_err();
        assert!(error.contains("`env_options.wrappers`"), "{error}");
    }
}

#[test]
fn none_stands_for_no_value_where_no_text_is_expected() {
    let file = parse("env = \"none\"\ngrad_clip = \"none\"", &["stop.env_steps=none"]).unwrap();
    assert_eq!((file.env.as_str(), file.config.learner.grad_clip, file.stop.env_steps), ("none", None, None));
}

#[test]
fn a_number_of_env_steps_may_be_in_words() {
    for (given, steps) in [("8_000_000", 8_000_000), ("\"8M\"", 8_000_000), ("\"20k env-steps\"", 20_000)] {
        assert_eq!(parse(&format!("env = \"x\"\nstop.env_steps = {given}"), &[]).unwrap().stop.env_steps, Some(steps));
    }
    assert_eq!(parse("env = \"x\"", &["stop.env_steps=8M"]).unwrap().stop.env_steps, Some(8_000_000));
}

#[test]
fn names_of_other_libraries_stand_for_settings() {
    let keys = keys::Keys::new();
    for (name, setting) in keys::ELSEWHERE {
        let path: Vec<String> = setting.split('.').map(str::to_owned).collect();
        assert_eq!(keys.find(&path), keys::Found::Setting(path), "{name}");
    }
}

#[test]
fn a_learning_rate_counts_or_is_refused() {
    let file = parse(FILE, &["lr_schedule=none"]).unwrap();
    assert_eq!((file.config.learner.lr, file.config.learner.lr_schedule), (0.002, None));
    let schedule = "lr_schedule=[[0, 0.1], [9, 0]]";
    let file = parse(FILE, &[schedule]).unwrap();
    assert!(file.config.learner.lr_schedule.is_some() && !file.to_toml().unwrap().contains("\nlr = "));
    let written = file.to_toml().unwrap();
    let file = parse(&written, &["lr=0.3", "lr_schedule=none"]).unwrap();
    assert_eq!((file.config.learner.lr, file.config.learner.lr_schedule), (0.3, None));
}

#[test]
fn what_is_written_reads_back_the_same() {
    let flags = [
        "learner.grad_clip=none",
        "stop.time=30 min",
        "env_options.kwargs.continuous=true",
        "lr_schedule=[[0, 0.1], [9, 0]]",
    ];
    let file = parse(FILE, &flags).unwrap();
    let written = file.to_toml().unwrap();
    assert_eq!(parse(&written, &[]).unwrap(), file, "{written}");
}

#[test]
fn what_is_too_deep_to_be_read_back_is_refused() {
    let nested = |depth: usize| format!("env_options.kwargs.{}=1", vec!["a"; depth].join("."));
    let file = parse(FILE, &[&nested(30)]).unwrap();
    assert_eq!(parse(&file.to_toml().unwrap(), &[]).unwrap(), file);
    let list = format!("env_options.kwargs.a={}{}", "[".repeat(70), "]".repeat(70));
    for flag in [nested(31), nested(500), list] {
        assert!(parse(FILE, &[&flag]).unwrap_err().contains("32 are read at most"), "{flag}");
    }
}

#[test]
fn what_is_wrong_is_named_with_its_place() {
    let wrong: &[(&str, &[&str], &[&str])] = &[
        (
            "env = \"CartPole-v1\"\n\n[learner]\nlrr = 1",
            &[],
            &["run.toml:4:1:", "unknown key `learner.lrr`", "`learner.lr`"],
        ),
        (
            "env = \"CartPole-v1\"\n[learner]\nnum_envs_per_worker = 1",
            &[],
            &["run.toml:3:1:", "`workers.num_envs_per_worker`"],
        ),
        ("envv = \"CartPole-v1\"", &[], &["run.toml:1:1:", "did you mean `env`?"]),
        ("learning_rate = 1", &[], &["run.toml:1:1:", "did you mean `learner.lr`?"]),
        ("env = \"x\"\n[stop]\nenv_steps = \"many\"", &[], &["run.toml:3:1:", "such as 20000 or \"20k\""]),
        ("env = \"x\"\nstop.env_steps = 0", &[], &["run.toml:2:6:", "a number of env-steps"]),
        ("config = \"x.toml\"\n[parameters]\nlr = [1, 2]", &[], &["run.toml:", "`pronk sweep`"]),
        ("[lerner]\nlr = 1", &[], &["run.toml:1:2:", "unknown key `lerner`"]),
        (
            "env = \"x\"\n[learner]\nlr = \"fast\"",
            &[],
            &["run.toml:3:1:", "invalid value for `learner.lr`: \"fast\" (expected a number)"],
        ),
        ("env = \"x\"\n[learner]\nlr = -1.0", &[], &["run.toml:3:1:", "lr = -1"]),
        (
            "env = \"x\"\n[learner]\nlr = nan",
            &[],
            &["run.toml:3:1:", "invalid value for `learner.lr`: nan (expected a number)"],
        ),
        ("env = \"x\"\nlog.videos = 2026-11-29", &[], &["run.toml:2:5:", "2026-11-29 is a date", "\"2026-11-29\""]),
        ("env = \"x\"\nlr = 1.0\n[learner]\nlr = 1.0", &[], &["run.toml:4:1:", "given twice", "run.toml:2:1"]),
        ("env = \"x\"\n[learner\nlr = 1.0", &[], &["run.toml:2:9:"]),
        ("env = \"x\"\nlearner = 3", &[], &["run.toml:2:1:", "is a table"]),
        ("env = \"x\"\n[algorithm.ppo]\n[algorithm.appo]", &[], &["run.toml:3:12:", "`ppo` already"]),
        ("env = \"x\"\nalgorithm = \"dqn\"", &[], &["run.toml:2:1:", "\"impala\", \"appo\", \"ppo\""]),
        ("env = \"x\"\n[stop]\ntime = \"5 env-steps\"", &[], &["run.toml:3:1:", "is not a duration"]),
        ("env = \"x\"\n[workers]\nnum_envs_per_worker = 0", &[], &["run.toml:3:1:", "needs an environment to step"]),
        ("env = \"x\"\n[model]\nburn_in = 50", &[], &["run.toml:3:1:", "rollout_fragment_length"]),
        ("env = \"x\"\n[algorithm.ppo]\nclip_param = 0.0", &[], &["run.toml:3:1:", "clip_param"]),
        (
            "env = \"x\"\n[workers]\nnum_envs_per_worker = -2",
            &[],
            &["`workers.num_envs_per_worker`: -2 (expected a whole number, not negative)"],
        ),
        ("env = \"x\"\nlog.videos = 1", &[], &["`log.videos`: 1 (expected true or false)"]),
        ("env = \"x\"\nlog.level = \"loud\"", &[], &["`log.level`: \"loud\" (expected one of `off`, `error`"]),
        ("lr = 1.0", &[], &["run.toml:", "`env` is missing"]),
        ("env = \"x\"", &["learner=3"], &["--set learner=3", "is a table"]),
        ("env = \"x\"", &["learner.lr=x"], &["--set learner.lr=x", "invalid value for `learner.lr`: \"x\""]),
        ("env = \"x\"", &["algorithm.lrr=x"], &["--set algorithm.lrr=x", "`learner.lr`"]),
    ];
    for (text, flags, expected) in wrong {
        let error = parse(text, flags).unwrap_err();
        for expected in *expected {
            assert!(error.contains(expected), "{text} {flags:?}: {error}");
        }
        assert!(!error.contains('\n'), "{error}");
    }
    let file = "env = \"x\"\n[learner]\nlr_schedule = [[0, 0.1], [9, 0]]\n";
    let both = "`learner.lr` has no effect beside `learner.lr_schedule` (run.toml:3:1)";
    assert!(parse(&format!("{file}lr = 0.1"), &[]).unwrap_err().starts_with(&format!("run.toml:4:1: {both}")));
    assert!(parse(file, &["lr=0.1"]).unwrap_err().starts_with(&format!("--set lr=0.1: {both}")));
    assert!(parse("env = \"x\"", &["lr=0.1", "lr_schedule=[[0, 0.1], [9, 0]]"]).is_err());
    for flag in ["lr", "=1", "a..b=1"] {
        assert!(flag.parse::<Entry>().is_err(), "{flag}");
    }
}

/// The arguments of an environment in a file with these lines, with these flags.
fn kwargs(lines: &str, flags: &[&str]) -> serde_json::Value {
    let flags: Vec<String> = flags.iter().map(|flag| format!("env_options.kwargs.{flag}")).collect();
    let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
    let file = parse(&format!("env = \"x\"\n[env_options.kwargs]\n{lines}"), &flags).unwrap();
    let written = file.to_toml().unwrap();
    assert_eq!(parse(&written, &[]).unwrap(), file, "{written}");
    file.env_options.kwargs.into()
}

#[test]
fn an_argument_is_what_it_is_in_toml_from_a_flag_as_from_the_file() {
    let [inf, minus_inf, nan] = ["inf", "-inf", "nan"].map(|float| json!({ "float": float }));
    let none = json!({ "none": true });
    let cases = [
        ("false", json!(false)),
        ("3", json!(3)),
        ("3.0", json!(3.0)),
        ("-9223372036854775808", json!(i64::MIN)),
        ("0x10", json!(16)),
        ("inf", inf.clone()),
        ("+inf", inf.clone()),
        ("-inf", minus_inf),
        ("nan", nan),
        ("\"none\"", json!("none")),
        ("\"None\"", json!("None")),
        ("\"inf\"", json!("inf")),
        ("'3'", json!("3")),
        ("\"\"", json!("")),
        ("[1, inf, \"none\", { a = inf }]", json!([1, inf, "none", { "a": inf }])),
        ("{ env = \"TOKEN\" }", json!({ "env": "TOKEN" })),
        ("{ none = true }", none.clone()),
        ("{ literal = { env = \"TOKEN\" } }", json!({ "literal": { "env": "TOKEN" } })),
    ];
    for (text, value) in cases {
        let expected = json!({ "a": value });
        assert_eq!(kwargs(&format!("a = {text}"), &[]), expected, "{text}");
        assert_eq!(kwargs("a = 7", &[&format!("a={text}")]), expected, "{text}");
    }
    // Without quotes, where no quotes are needed.
    for text in ["easy", "4x4", "3#b", "#ff0000", "./maps/a.txt", "FALSEhood", "nonesuch", "off"] {
        assert_eq!(kwargs("", &[&format!("a={text}")]), json!({ "a": text }));
    }
    assert_eq!(kwargs("b = inf", &["a=none", "b.c=1"]), json!({ "b": { "c": 1 }, "a": none }));
}

#[test]
fn an_argument_that_would_arrive_as_another_one_is_refused() {
    let cases = [
        ("False", "write false"),
        ("True", "write true"),
        ("TRUE", "write true"),
        ("None", "write none"),
        ("null", "write none"),
        ("Infinity", "inf or nan"),
        ("NaN", "inf or nan"),
        (".5", "a number"),
        ("007", "a number"),
        ("1,000", "a number"),
        ("1,", "a number"),
        ("9223372036854775808", "2^63"),
        ("[1, 2", "a list"),
        ("[False]", "a list"),
        ("(1, 2)", "a list"),
        ("\"a", "a text"),
        ("", "a value"),
        ("2026-11-29", "is a date"),
        ("[12:30:00]", "is a date"),
    ];
    for (text, expected) in cases {
        let error = format!("env_options.kwargs.a={text}").parse::<Entry>().unwrap_err();
        assert!(error.contains(expected), "{text}: {error}");
    }
    assert!(parse("env = \"x\"", &["env_options.kwargs=none"]).unwrap_err().contains("none (expected a map)"));
}

#[test]
fn the_variables_of_arguments_are_at_any_depth_and_no_literal_tables() {
    let lines = "a = { env = \"A\" }\nb = [{ c = { env = \"B\" }, d = 1 }]\nenv = \"no\"\ne = { env = 1 }\n\
                 f = { literal = { env = \"no\" } }\ng = { literal = { literal = { env = \"G\" } } }";
    let wrappers = "[[env_options.wrappers]]\nname = \"m:W\"\nkwargs = { token = { env = \"W\" } }";
    let file = parse(&format!("env = \"x\"\n[env_options.kwargs]\n{lines}\n{wrappers}"), &[]).unwrap();
    assert_eq!(file.env_options.variables(), ["A", "B", "G", "W"]);
}

#[test]
fn a_flag_counts_wherever_it_stands_or_is_refused() {
    let clip = |flags: &[&str]| match parse(FILE, flags).unwrap().config.algorithm {
        AlgorithmConfig::Ppo(ppo) => ppo.clip_param,
        AlgorithmConfig::Appo(appo) => -appo.clip_param,
        _ => 0.0,
    };
    assert_eq!(clip(&["algorithm=ppo"]), 0.3, "what the file says of the same algorithm stays");
    assert_eq!(clip(&["algorithm.ppo.clip_param=0.25", "algorithm=ppo"]), 0.25);
    assert_eq!(clip(&["algorithm.clip_param=0.25", "algorithm=appo"]), -0.25);
    assert_eq!(clip(&["algorithm=ppo", "algorithm.clip_param=0.25", "algorithm=appo"]), -0.25);
    let refused: &[(&[&str], &[&str])] = &[
        (
            &["algorithm.ppo.clip_param=0.25", "algorithm=appo"],
            &["--set algorithm.ppo.clip_param=0.25: ", "has no effect", "(--set algorithm=appo)"],
        ),
        (
            &["env_options.kwargs.a=1", "env_options.kwargs={ b = 2 }"],
            &["--set env_options.kwargs.a=1: ", "before --set env_options.kwargs={ b = 2 }"],
        ),
        (&["env_options.kwargs.a=1", "env_options.kwargs.a.b=2"], &["--set env_options.kwargs.a=1: "]),
        (&["env_options.kwargs.a=inf", "env_options.kwargs.a.b=2"], &["--set env_options.kwargs.a=inf: "]),
    ];
    for (flags, expected) in refused {
        let error = parse(FILE, flags).unwrap_err();
        assert!(expected.iter().all(|expected| error.contains(expected)), "{flags:?}: {error}");
    }
    let seeds = vec!["seed=3".parse().unwrap(), Entry::flag("--seed", "seed", 5.into())];
    let error = RunFile::parse(Path::new("run.toml"), FILE, seeds).unwrap_err().to_string();
    assert!(error.contains("--set seed=3: `seed` has no effect before --seed 5"), "{error}");
    let named = "env = \"x\"\nalgorithm = \"appo\"";
    let error = parse(named, &["algorithm.ppo.clip_param=0.25"]).unwrap_err();
    assert!(error.contains("has no effect: the algorithm is `appo` (run.toml:2:1)"), "{error}");
    let file = parse(FILE, &["env_options.kwargs={ a = 1 }", "env_options.kwargs.b=2"]).unwrap();
    assert_eq!(json!(file.env_options.kwargs), json!({ "a": 1, "b": 2 }));
}
