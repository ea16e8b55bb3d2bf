//! Families of metrics as OpenMetrics text.

use std::fmt;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric, MetricEncoder, text};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::{Registry, Unit};

use super::figures::{Families, Kind, Labels};

impl Families {
    /// The body of a scrape's response.
    pub(super) fn into_text(self) -> String {
        let mut registry = Registry::with_prefix("pronk");
        registry.register_collector(Box::new(self));
        let mut text = String::new();
        // Writing into a string cannot fail, and names and labels come from maps, so they are unique as the
        // format requires.
        if text::encode(&mut text, &registry).is_err() {
            tracing::error!("the figures of a result could not be encoded as OpenMetrics text");
        }
        text
    }
}

impl Collector for Families {
    fn encode(&self, mut encoder: DescriptorEncoder) -> fmt::Result {
        for (name, family) in self.iter() {
            let (kind, unit) = match family.kind {
                Kind::Counter => (MetricType::Counter, None),
                Kind::SecondsCounter => (MetricType::Counter, Some(&Unit::Seconds)),
                Kind::Gauge => (MetricType::Gauge, None),
                Kind::SecondsGauge => (MetricType::Gauge, Some(&Unit::Seconds)),
            };
            let mut metric = encoder.encode_descriptor(name, &family.help, unit, kind)?;
            if let Some(&value) = family.samples.get(&Labels::new()) {
                // A family would write a sample without labels with empty braces.
                family.kind.encode(value, metric)?;
                continue;
            }
            for (labels, &value) in &family.samples {
                family.kind.encode(value, metric.encode_family(labels)?)?;
            }
        }
        Ok(())
    }
}

impl Kind {
    fn encode(self, value: f64, sample: MetricEncoder) -> fmt::Result {
        match self {
            Kind::Counter | Kind::SecondsCounter => ConstCounter::new(value).encode(sample),
            Kind::Gauge | Kind::SecondsGauge => ConstGauge::new(value).encode(sample),
        }
    }
}
