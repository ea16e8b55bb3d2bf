//! A graph while it is built: nodes in the order of the computation, constants, inputs and outputs.

use super::schema::{
    AttributeProto, DataType, DimensionProto, GraphProto, NodeProto, TensorProto, TensorShapeProto, TensorTypeProto,
    TypeProto, ValueInfoProto,
};

/// A tensor of the graph, by its name, which is unique.
pub(super) type Tensor = String;

/// The graph so far. A node has the name of its first output.
#[derive(Debug, Default)]
pub(super) struct Graph {
    proto: GraphProto,
}

/// The name of the number of rows, which the caller of the model chooses.
const BATCH: &str = "batch";

impl Graph {
    /// A node with one output.
    pub(super) fn node(&mut self, op: &str, inputs: &[&str], output: impl Into<Tensor>) -> Tensor {
        self.node_with(op, inputs, output, Vec::new())
    }

    /// A node with one output, and with settings.
    pub(super) fn node_with(
        &mut self,
        op: &str,
        inputs: &[&str],
        output: impl Into<Tensor>,
        attribute: Vec<AttributeProto>,
    ) -> Tensor {
        let output = output.into();
        self.push(op, inputs, vec![output.clone()], attribute);
        output
    }

    /// Cuts the columns of `x`, `[batch, …]`, into pieces of these lengths.
    pub(super) fn split(&mut self, x: &str, lengths: &[usize], outputs: Vec<Tensor>) {
        let lengths = self.indices(format!("{x}.split"), &[lengths.len()], lengths);
        self.push("Split", &[x, &lengths], outputs, vec![AttributeProto::int("axis", 1)]);
    }

    /// The columns of `pieces`, `[batch, …]`, side by side.
    pub(super) fn concat(&mut self, pieces: &[Tensor], output: &str) -> Tensor {
        let pieces: Vec<&str> = pieces.iter().map(String::as_str).collect();
        self.node_with("Concat", &pieces, output, vec![AttributeProto::int("axis", 1)])
    }

    fn push(&mut self, op: &str, inputs: &[&str], output: Vec<Tensor>, attribute: Vec<AttributeProto>) {
        self.proto.node.push(NodeProto {
            input: inputs.iter().map(|&input| input.to_owned()).collect(),
            name: output.first().cloned().unwrap_or_default(),
            output,
            op_type: op.to_owned(),
            attribute,
        });
    }

    /// A constant of floats.
    pub(super) fn floats(&mut self, name: impl Into<Tensor>, shape: &[usize], values: &[f32]) -> Tensor {
        let raw_data = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        self.constant(name.into(), shape, DataType::Float, raw_data)
    }

    /// A constant of indices and lengths.
    pub(super) fn indices(&mut self, name: impl Into<Tensor>, shape: &[usize], values: &[usize]) -> Tensor {
        let raw_data = values.iter().flat_map(|&value| (value as i64).to_le_bytes()).collect();
        self.constant(name.into(), shape, DataType::Int64, raw_data)
    }

    /// A constant of truth values.
    pub(super) fn flags(&mut self, name: impl Into<Tensor>, shape: &[usize], values: &[bool]) -> Tensor {
        let raw_data = values.iter().map(|&value| u8::from(value)).collect();
        self.constant(name.into(), shape, DataType::Bool, raw_data)
    }

    fn constant(&mut self, name: Tensor, shape: &[usize], data_type: DataType, raw_data: Vec<u8>) -> Tensor {
        let dims = shape.iter().map(|&len| len as i64).collect();
        let tensor = TensorProto { dims, data_type: data_type as i32, name: name.clone(), raw_data };
        self.proto.initializer.push(tensor);
        name
    }

    /// An input `[batch, …shape]`.
    pub(super) fn input(&mut self, name: &str, data_type: DataType, shape: &[usize], doc: &str) -> Tensor {
        self.proto.input.push(interface(name, data_type, shape, doc));
        name.to_owned()
    }

    /// Makes the tensor `name` an output `[batch, …shape]`.
    pub(super) fn output(&mut self, name: &str, data_type: DataType, shape: &[usize], doc: &str) {
        self.proto.output.push(interface(name, data_type, shape, doc));
    }

    /// The finished graph.
    pub(super) fn finish(self, name: &str) -> GraphProto {
        GraphProto { name: name.to_owned(), ..self.proto }
    }
}

fn interface(name: &str, data_type: DataType, shape: &[usize], doc: &str) -> ValueInfoProto {
    let batch = DimensionProto { dim_value: None, dim_param: Some(BATCH.to_owned()) };
    let lens = shape.iter().map(|&len| DimensionProto { dim_value: Some(len as i64), dim_param: None });
    let shape = TensorShapeProto { dim: std::iter::once(batch).chain(lens).collect() };
    let tensor = TensorTypeProto { elem_type: data_type as i32, shape: Some(shape) };
    ValueInfoProto {
        name: name.to_owned(),
        kind: Some(TypeProto { tensor_type: Some(tensor) }),
        doc_string: doc.to_owned(),
    }
}
