//! What a store has measured of itself, as a histogram.

use std::fmt;

use prometheus_client::encoding::{EncodeMetric, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use tasklane_store::Spread;

/// A spread in its base unit.
#[derive(Debug)]
pub(super) struct Measured {
    spread: Spread,
    unit: f64,
}

impl Measured {
    /// Of numbers.
    pub(super) fn numbers(spread: &Spread) -> Self {
        Self { spread: spread.clone(), unit: 1.0 }
    }

    /// Of microseconds, shown as seconds.
    pub(super) fn micros(spread: &Spread) -> Self {
        Self { spread: spread.clone(), unit: 1e-6 }
    }
}

impl EncodeMetric for Measured {
    fn encode(&self, mut encoder: MetricEncoder<'_>) -> Result<(), fmt::Error> {
        let Self { spread, unit } = self;
        let last = Spread::SLOTS - 1;
        let bound =
            |slot: usize| if slot == last { f64::INFINITY } else { 2f64.powi(slot as i32) * unit };
        let buckets: Vec<_> =
            spread.counts.iter().enumerate().map(|(slot, count)| (bound(slot), *count)).collect();
        let (sum, count) = (spread.sum as f64 * unit, spread.counts.iter().sum());
        encoder.encode_histogram::<NoLabelSet>(sum, count, &buckets, None)
    }

    fn metric_type(&self) -> MetricType {
        MetricType::Histogram
    }
}
