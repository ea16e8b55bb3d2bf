//! The handshake: two lines of JSON each way.

use pronk_policy::Space;
use pronk_rollout::{AgentSpec, MultiAgentSpec};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::layout::Layout;

/// The version of the protocol.
pub(crate) const PROTOCOL: u32 = 1;

/// The parent's first line.
#[derive(Serialize)]
pub(crate) struct Greeting<'a> {
    pub(crate) protocol: u32,
    pub(crate) envs: usize,
    pub(crate) autoreset: bool,
    pub(crate) config: &'a Map<String, Value>,
    /// Left out if not, and last, for programs that know nothing of it.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(crate) render: bool,
}

/// The second line of either side.
#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Size {
    pub(crate) shared_bytes: usize,
}

/// The child's first line.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Hello {
    #[serde(rename = "protocol")]
    _protocol: u32,
    name: String,
    max_episode_steps: Option<u32>,
    agents: Vec<Agent>,
    #[serde(default)]
    one_by_one: bool,
    #[serde(default)]
    render: bool,
}

/// What the child's first line says.
#[derive(Debug)]
pub struct Introduction {
    /// Its environments.
    pub spec: MultiAgentSpec,
    /// Whether it obeys orders for one environment alone.
    pub one_by_one: bool,
    /// Whether it obeys orders to draw.
    pub renders: bool,
}

impl Introduction {
    /// The layout of the memory for `n_envs` of its environments.
    ///
    /// # Errors
    /// More than any memory holds, or several agents where one is due.
    pub fn layout(&self, n_envs: usize, autoreset: bool) -> Result<Layout, BadLine> {
        let Self { spec, renders, .. } = self;
        if autoreset && spec.agents.len() != 1 {
            return Err(BadLine::Broken(not_one(spec)));
        }
        let layout = Layout::of(&spec.agents, n_envs, autoreset, *renders);
        layout.ok_or_else(|| BadLine::Broken(format!("no memory holds {n_envs} environments of {spec}")))
    }
}

/// What is wrong with several agents where one is due.
pub(crate) fn not_one(spec: &MultiAgentSpec) -> String {
    format!("it has {} agents where one was due", spec.agents.len())
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Agent {
    name: String,
    observation: Space,
    action: Space,
    action_mask: bool,
}

/// Why a line of the child was not accepted.
#[derive(Debug)]
pub enum BadLine {
    /// The child refused, with this reason.
    Refused(String),
    /// It breaks the protocol.
    Broken(String),
}

/// Reads the child's first line: its environments.
///
/// # Errors
/// A refusal, or what breaks the protocol.
pub fn hello(line: &[u8]) -> Result<Introduction, BadLine> {
    let line: Value = parse(line)?;
    match line.get("protocol").and_then(Value::as_u64) {
        Some(protocol) if protocol == u64::from(PROTOCOL) => {}
        Some(other) => {
            let text = format!("it speaks version {other} of the protocol, this is version {PROTOCOL}");
            return Err(BadLine::Broken(text));
        }
        None => return Err(BadLine::Broken("its first line does not say which version it speaks".to_owned())),
    }
    let hello = Hello::deserialize(line).map_err(|error| BadLine::Broken(format!("its first line: {error}")))?;
    let agent = |Agent { name, observation, action, action_mask }| AgentSpec { name, observation, action, action_mask };
    let spec = MultiAgentSpec {
        name: hello.name,
        agents: hello.agents.into_iter().map(agent).collect(),
        max_episode_steps: hello.max_episode_steps,
    };
    spec.check().map_err(|error| BadLine::Broken(format!("its first line: {error}")))?;
    Ok(Introduction { spec, one_by_one: hello.one_by_one, renders: hello.render })
}

/// Checks the child's second line: the size of the memory.
///
/// # Errors
/// A refusal, another size, or what breaks the protocol.
pub fn agreed(line: &[u8], shared_bytes: usize) -> Result<(), BadLine> {
    let line: Value = parse(line)?;
    match Size::deserialize(line) {
        Ok(theirs) if theirs.shared_bytes == shared_bytes => Ok(()),
        Ok(theirs) => {
            Err(BadLine::Broken(format!("the memory has {shared_bytes} bytes, it computed {}", theirs.shared_bytes)))
        }
        Err(error) => Err(BadLine::Broken(format!("its second line: {error}"))),
    }
}

/// A line as JSON, unless it is a refusal.
fn parse(line: &[u8]) -> Result<Value, BadLine> {
    let value: Value = serde_json::from_slice(line)
        .map_err(|_| BadLine::Broken(format!("it wrote {} where a line of JSON was due", excerpt(line))))?;
    if !value.is_object() {
        return Err(BadLine::Broken(format!("it wrote {} where an object of JSON was due", excerpt(line))));
    }
    match value.get("error") {
        Some(error) => Err(BadLine::Refused(error.as_str().map_or_else(|| error.to_string(), str::to_owned))),
        None => Ok(value),
    }
}

/// Bytes of an excerpt.
const SHOWN: usize = 80;

/// The beginning of a text, in quotes.
pub(crate) fn excerpt(bytes: &[u8]) -> String {
    let shown = String::from_utf8_lossy(&bytes[..bytes.len().min(SHOWN)]);
    match bytes.len().saturating_sub(SHOWN) {
        0 => format!("{shown:?}"),
        more => format!("{shown:?} and {more} bytes more"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const AGENT: &str = r#"{"name":"agent","observation":{"box":{"low":[0.0,"-inf"],"high":[1.0,"inf"],"shape":[2],"dtype":"f32"}},"action":{"discrete":{"n":2}},"action_mask":false}"#;

    fn line(agents: &str) -> String {
        format!(r#"{{"protocol":1,"name":"Corridor","max_episode_steps":null,"agents":[{agents}]}}"#)
    }

    fn broken(line: &str) -> String {
        match hello(line.as_bytes()) {
            Err(BadLine::Broken(text)) => text,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_line_that_is_no_object_is_refused() {
        assert!(agreed(br#"{"shared_bytes":64}"#, 64).is_ok());
        for line in ["[64]", "64", "null"] {
            assert!(agreed(line.as_bytes(), 64).is_err(), "{line}");
        }
    }

    #[test]
    fn a_first_line_says_what_the_environments_are() {
        let Introduction { spec, one_by_one, renders } = hello(line(AGENT).as_bytes()).unwrap();
        assert!(!one_by_one && !renders);
        assert_eq!((spec.name.as_str(), spec.max_episode_steps, spec.agents.len()), ("Corridor", None, 1));
        let observation = Space::boxed(vec![0.0, f32::NEG_INFINITY], vec![1.0, f32::INFINITY], vec![2]).unwrap();
        assert_eq!(spec.agents[0].observation, observation);
    }

    #[test]
    fn programs_are_told_of_frames_only_where_some_will_be_asked_for() {
        let greeting = |render| {
            let config = &Map::new();
            serde_json::to_string(&Greeting { protocol: PROTOCOL, envs: 2, autoreset: true, config, render }).unwrap()
        };
        assert_eq!(greeting(false), r#"{"protocol":1,"envs":2,"autoreset":true,"config":{}}"#);
        assert_eq!(greeting(true), r#"{"protocol":1,"envs":2,"autoreset":true,"config":{},"render":true}"#);
    }

    #[test]
    fn what_is_no_first_line_is_named() {
        assert_eq!(broken("hello"), r#"it wrote "hello" where a line of JSON was due"#);
        assert_eq!(broken(r#"{"name":"x"}"#), "its first line does not say which version it speaks");
        assert!(broken(r#"{"protocol":2,"novelty":1}"#).contains("version 2"));
        assert!(broken(&line("")).contains("there is no agent"));
        assert!(broken(&line(&format!("{AGENT},{AGENT}"))).contains("two agents are called `agent`"));
        assert!(broken(&line(&AGENT.replace("\"n\":2", "\"n\":0"))).contains("at least one thing"));
        assert!(broken(&line(&AGENT.replace("action_mask", "mask"))).contains("unknown field `mask`"));
    }

    #[test]
    fn a_refusal_is_in_the_words_of_the_child() {
        let refused = hello(br#"{"protocol":1,"error":"no licence"}"#);
        assert!(matches!(refused, Err(BadLine::Refused(text)) if text == "no licence"));
    }

    #[test]
    fn another_size_is_refused() {
        assert!(agreed(br#"{"shared_bytes":4096}"#, 4096).is_ok());
        let text = match agreed(br#"{"shared_bytes":4160}"#, 4096) {
            Err(BadLine::Broken(text)) => text,
            other => panic!("{other:?}"),
        };
        assert_eq!(text, "the memory has 4096 bytes, it computed 4160");
    }
}
