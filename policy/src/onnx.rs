//! Policies as ONNX models, which other runtimes act with.
//!
//! The messages are protocol buffers of the published schema, with the operators of opset 17: runtimes have
//! known them since 2022. What a policy does to raw observations and to the mode of its distribution is part
//! of the graph, so a program that runs it needs nothing of this library.

mod action;
mod graph;
mod observations;
mod schema;
mod tower;

use prost::Message;

use self::graph::{Graph, Tensor};
use self::schema::{DataType, ModelProto, OperatorSetIdProto, StringStringEntryProto};
use self::tower::{Layers, LstmState};
use crate::{Gaussian, GaussianConfig, NetworkSpec, ObsNormalizer, Params, PolicyError, Space};

/// What a model is made of.
#[derive(Clone, Copy)]
pub(crate) struct Export<'a> {
    pub(crate) spec: &'a NetworkSpec,
    pub(crate) params: &'a Params,
    pub(crate) action: &'a Space,
    pub(crate) gaussian: GaussianConfig,
    pub(crate) normalizer: Option<&'a ObsNormalizer>,
}

/// The version of the format that came with [`OPSET`].
const IR_VERSION: i64 = 8;

const OPSET: i64 = 17;

/// The most that a protocol buffer may hold.
const MAX_BYTES: usize = i32::MAX as usize;

impl Export<'_> {
    /// The bytes of the file. Equal policies give equal bytes.
    ///
    /// # Errors
    /// A model of 2 GiB or more.
    pub(crate) fn to_bytes(self) -> Result<Vec<u8>, PolicyError> {
        let model = self.model()?;
        let bytes = model.encoded_len();
        if bytes > MAX_BYTES {
            let reason = format!(
                "the model would have {bytes} bytes, and an ONNX file has less than 2 GiB: export the weights by \
                 Params::to_safetensors"
            );
            return Err(PolicyError::Export { reason });
        }
        Ok(model.encode_to_vec())
    }

    fn model(self) -> Result<ModelProto, PolicyError> {
        Ok(ModelProto {
            ir_version: IR_VERSION,
            producer_name: "pronk".to_owned(),
            producer_version: env!("CARGO_PKG_VERSION").to_owned(),
            doc_string: "A policy. It takes raw observations; `action` is the most likely action. Apply masks of \
                         actions to `logits`: minus infinity where an action is forbidden."
                .to_owned(),
            graph: Some(self.graph()?.finish("policy")),
            opset_import: vec![OperatorSetIdProto { version: OPSET }],
            metadata_props: self.metadata(),
        })
    }

    fn graph(self) -> Result<Graph, PolicyError> {
        let Self { spec, params, action, gaussian, normalizer } = self;
        let mut graph = Graph::default();
        let obs = observations::floats(&mut graph, &spec.obs, normalizer);
        let obs_rank = observations::shape(&spec.obs).len();
        let towers = spec.towers();
        let mut states = state_in(&mut graph, spec).into_iter();
        let mut states_after = Vec::new();
        for (tower, torso) in towers.iter().zip(spec.torso.names()) {
            let mut layers = Layers { graph: &mut graph, params };
            let mut features = layers.encoder(&tower.encoder, torso, &obs, obs_rank)?;
            if let Some((lstm, before)) = tower.lstm.as_ref().zip(states.next()) {
                let after = layers.lstm(lstm, &features, &before)?;
                features.clone_from(&after.hidden);
                states_after.extend([after.hidden, after.cell]);
            }
            if let Some(head) = &tower.policy {
                layers.dense(head, &features, "logits")?;
            }
            if let Some(head) = &tower.value {
                let column = layers.dense(head, &features, "values.column")?;
                let axis = graph.indices("values.axis", &[1], &[1]);
                graph.node("Squeeze", &[&column, &axis], "values");
            }
        }
        graph.output("logits", DataType::Float, &[spec.dist_len], "The inputs of the action distribution");
        graph.output("values", DataType::Float, &[], "The estimated values");
        if !states_after.is_empty() {
            graph.concat(&states_after, "state_out");
            let doc = "The recurrent state, to be `state_in` of the next step";
            graph.output("state_out", DataType::Float, &[spec.state_len()], doc);
        }
        action::mode(&mut graph, action, gaussian.gaussian, "logits");
        Ok(graph)
    }

    fn metadata(self) -> Vec<StringStringEntryProto> {
        let Self { spec, action, gaussian, normalizer, .. } = self;
        let json = |value: serde_json::Result<String>| value.unwrap_or_default();
        let mut entries = vec![
            ("pronk_version", env!("CARGO_PKG_VERSION").to_owned()),
            ("observation", spec.obs.to_string()),
            ("action", action.to_string()),
            ("encoder", json(serde_json::to_string(&spec.encoder))),
            ("torso", json(serde_json::to_string(&spec.torso))),
            ("lstm", json(serde_json::to_string(&spec.lstm))),
            ("normalized", normalizer.is_some().to_string()),
        ];
        if !action.has_discrete_actions() {
            let range = gaussian.log_std_range;
            let name = match gaussian.gaussian {
                Gaussian::Diagonal => "diagonal",
                Gaussian::Squashed => "squashed",
            };
            entries.push(("gaussian", name.to_owned()));
            entries.push(("log_std_range", format!("[{}, {}]", range.lowest(), range.highest())));
        }
        let entry = |(key, value): (&str, String)| StringStringEntryProto { key: key.to_owned(), value };
        entries.into_iter().map(entry).collect()
    }
}

/// The states of the LSTMs before the step, tower by tower: the pieces of the input `state_in`. None without
/// an LSTM.
fn state_in(graph: &mut Graph, spec: &NetworkSpec) -> Vec<LstmState> {
    let Some(width) = spec.lstm else { return Vec::new() };
    let doc = "The recurrent state; zeros at the start of an episode";
    let state = graph.input("state_in", DataType::Float, &[spec.state_len()], doc);
    let name = |torso: &str, part: &str| -> Tensor { format!("{torso}.lstm.{part}_before") };
    let of = |torso: &str| LstmState { hidden: name(torso, "hidden"), cell: name(torso, "cell") };
    let states: Vec<LstmState> = spec.torso.names().iter().map(|torso| of(torso)).collect();
    let pieces: Vec<Tensor> = states.iter().flat_map(|state| [state.hidden.clone(), state.cell.clone()]).collect();
    graph.split(&state, &vec![width; pieces.len()], pieces);
    states
}

#[cfg(test)]
mod tests;
