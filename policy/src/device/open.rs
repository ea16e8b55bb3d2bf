use std::str::FromStr;

use candle_core::Device;

use super::DeviceSpec;
use crate::PolicyError;

impl DeviceSpec {
    /// Opens the device.
    ///
    /// # Errors
    /// A build without support for it, or no such device.
    pub fn open(&self) -> Result<Device, PolicyError> {
        let missing = |library, feature| Err(PolicyError::DeviceNotBuilt { library, feature });
        let opened = match *self {
            Self::Cpu => Ok(Device::Cpu),
            Self::Cuda(_) if !cfg!(feature = "cuda") => return missing("CUDA", "cuda"),
            Self::Metal if !cfg!(feature = "metal") => return missing("Metal", "metal"),
            Self::Cuda(number) => Device::new_cuda(number),
            Self::Metal => Device::new_metal(0),
        };
        opened.map_err(|source| PolicyError::Device { device: *self, source: Box::new(source) })
    }
}

impl FromStr for DeviceSpec {
    type Err = PolicyError;

    fn from_str(text: &str) -> Result<Self, PolicyError> {
        let number = |text: &str| text.strip_prefix("cuda:").and_then(|number| number.parse().ok());
        match text {
            "cpu" => Ok(Self::Cpu),
            "cuda" => Ok(Self::Cuda(0)),
            "metal" => Ok(Self::Metal),
            _ => number(text).map(Self::Cuda).ok_or_else(|| PolicyError::UnknownDevice { text: text.to_owned() }),
        }
    }
}

impl TryFrom<String> for DeviceSpec {
    type Error = PolicyError;

    fn try_from(text: String) -> Result<Self, PolicyError> {
        text.parse()
    }
}
