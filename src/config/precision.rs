//! Checks of the precision of products.

use pronk_policy::{DeviceSpec, Precision};

use super::{ConfigError, TrainerConfig};

impl TrainerConfig {
    /// Refuses a precision of a learner on a GPU.
    pub(super) fn check_precision(&self) -> Result<(), ConfigError> {
        let precision = self.learner.learning_precision;
        let is_on_cpu = self.learner.devices.iter().all(|device| *device == DeviceSpec::Cpu);
        if precision != Precision::F32 && !is_on_cpu {
            let reason = "only the CPU has a choice of precision; set it to f32, or leave it out";
            return Err(ConfigError::caused_by("learning_precision", precision, &reason));
        }
        Ok(())
    }

    /// Refuses a precision that a user's own network has no use for.
    pub(crate) fn check_own_network(&self) -> Result<(), ConfigError> {
        let (acting, learning) = (self.workers.acting_precision, self.learner.learning_precision);
        for (setting, precision) in [("acting_precision", acting), ("learning_precision", learning)] {
            if precision != Precision::F32 {
                let reason = "a network of your own has its own precision; leave it out";
                return Err(ConfigError::caused_by(setting, precision, &reason));
            }
        }
        Ok(())
    }
}
