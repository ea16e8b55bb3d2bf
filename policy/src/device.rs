//! Devices by name.

mod open;

use std::fmt;

use serde::{Deserialize, Serialize};

/// The device of a [`CandleNetwork`](crate::CandleNetwork), in configurations `cpu`, `cuda:0` (or `cuda`),
/// `metal`.
///
/// ```
/// use pronk_policy::DeviceSpec;
///
/// let device: DeviceSpec = "cuda".parse()?;
/// assert_eq!(device, DeviceSpec::Cuda(0));
/// assert_eq!(device.to_string(), "cuda:0");
/// assert!(DeviceSpec::Cpu.open()?.is_cpu());
/// # Ok::<(), pronk_policy::PolicyError>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum DeviceSpec {
    /// The CPU.
    #[default]
    Cpu,
    /// An NVIDIA GPU by its number.
    Cuda(usize),
    /// The GPU of an Apple computer.
    Metal,
}

impl fmt::Display for DeviceSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cpu => write!(f, "cpu"),
            Self::Cuda(number) => write!(f, "cuda:{number}"),
            Self::Metal => write!(f, "metal"),
        }
    }
}

impl From<DeviceSpec> for String {
    fn from(device: DeviceSpec) -> Self {
        device.to_string()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]

    use super::DeviceSpec;

    #[test]
    fn devices_are_read_and_written_by_name() {
        for (text, device) in [
            ("cpu", DeviceSpec::Cpu),
            ("cuda:0", DeviceSpec::Cuda(0)),
            ("cuda:13", DeviceSpec::Cuda(13)),
            ("metal", DeviceSpec::Metal),
        ] {
            assert_eq!(text.parse::<DeviceSpec>().unwrap(), device);
            let json = serde_json::to_string(&device).unwrap();
            assert_eq!(json, format!("\"{text}\""));
            assert_eq!(serde_json::from_str::<DeviceSpec>(&json).unwrap(), device);
        }
        assert_eq!("cuda".parse::<DeviceSpec>().unwrap(), DeviceSpec::Cuda(0));
    }

    #[test]
    fn another_name_is_refused_with_those_that_there_are() {
        for text in ["", "gpu", "CPU", "cuda:", "cuda:x", "cuda:-1", "cuda 1"] {
            let error = text.parse::<DeviceSpec>().unwrap_err().to_string();
            assert_eq!(error, format!("there is no device `{text}`: choose cpu, cuda:0 (or another number) or metal"));
            let json = serde_json::to_string(text).unwrap();
            assert!(serde_json::from_str::<DeviceSpec>(&json).unwrap_err().to_string().contains(&error));
        }
    }

    #[cfg(not(any(feature = "cuda", feature = "metal")))]
    #[test]
    fn a_device_that_was_not_built_in_names_the_feature() {
        let refusal = |device: DeviceSpec| device.open().unwrap_err().to_string();
        assert_eq!(refusal(DeviceSpec::Cuda(0)), "this build has no CUDA: build with --features cuda");
        assert_eq!(refusal(DeviceSpec::Metal), "this build has no Metal: build with --features metal");
    }
}
