//! The messages of an event file.
//!
//! *Source*: TensorBoard's `event.proto`, `summary.proto`, `histogram.proto`, `tensor.proto` and
//! `tensor_shape.proto`.

use prost::Message;

use super::histogram::Histogram;

/// The event of a step.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Event {
    /// Seconds since 1970.
    #[prost(double, tag = "1")]
    pub(super) wall_time: f64,
    #[prost(int64, tag = "2")]
    pub(super) step: i64,
    /// Only in the first event of a file.
    #[prost(string, optional, tag = "3")]
    pub(super) file_version: Option<String>,
    #[prost(message, optional, tag = "5")]
    pub(super) summary: Option<Summary>,
    #[prost(message, optional, tag = "7")]
    pub(super) session: Option<SessionLog>,
}

/// A process begins or continues the run.
#[derive(Clone, PartialEq, Message)]
pub(super) struct SessionLog {
    #[prost(int32, tag = "1")]
    pub(super) status: i32,
}

impl SessionLog {
    /// From the step of the event on.
    pub(super) const START: i32 = 1;
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Summary {
    #[prost(message, repeated, tag = "1")]
    pub(super) values: Vec<TaggedValue>,
}

/// One scalar, histogram or text: exactly one of the last three fields.
#[derive(Clone, PartialEq, Message)]
pub(super) struct TaggedValue {
    #[prost(string, tag = "1")]
    pub(super) tag: String,
    #[prost(message, optional, tag = "9")]
    pub(super) metadata: Option<Metadata>,
    #[prost(float, optional, tag = "2")]
    pub(super) simple_value: Option<f32>,
    #[prost(message, optional, tag = "5")]
    pub(super) histogram: Option<Histogram>,
    #[prost(message, optional, tag = "8")]
    pub(super) tensor: Option<Tensor>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Metadata {
    #[prost(message, optional, tag = "1")]
    pub(super) plugin: Option<Plugin>,
}

/// The plug-in of TensorBoard that shows the value.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Plugin {
    #[prost(string, tag = "1")]
    pub(super) name: String,
    #[prost(bytes = "vec", tag = "2")]
    pub(super) content: Vec<u8>,
}

/// A tensor of strings.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Tensor {
    #[prost(int32, tag = "1")]
    pub(super) dtype: i32,
    #[prost(message, optional, tag = "2")]
    pub(super) shape: Option<Shape>,
    #[prost(bytes = "vec", repeated, tag = "8")]
    pub(super) strings: Vec<Vec<u8>>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Shape {
    #[prost(message, repeated, tag = "2")]
    pub(super) dims: Vec<Dim>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Dim {
    #[prost(int64, tag = "1")]
    pub(super) size: i64,
}

impl TaggedValue {
    /// A point of a curve; beyond the range of `f32` it is infinite.
    pub(super) fn scalar(tag: String, value: f64) -> TaggedValue {
        TaggedValue { tag, simple_value: Some(value as f32), ..TaggedValue::default() }
    }

    /// A histogram.
    pub(super) fn histogram(tag: String, histogram: Histogram) -> TaggedValue {
        TaggedValue { tag, histogram: Some(histogram), ..TaggedValue::default() }
    }

    /// A text in Markdown.
    pub(super) fn text(tag: String, text: &str) -> TaggedValue {
        const DT_STRING: i32 = 7;
        // An empty `content` means the plug-in's first version.
        let plugin = Plugin { name: "text".to_owned(), content: Vec::new() };
        let tensor = Tensor {
            dtype: DT_STRING,
            shape: Some(Shape { dims: vec![Dim { size: 1 }] }),
            strings: vec![text.as_bytes().to_vec()],
        };
        TaggedValue {
            tag,
            metadata: Some(Metadata { plugin: Some(plugin) }),
            tensor: Some(tensor),
            ..TaggedValue::default()
        }
    }
}
