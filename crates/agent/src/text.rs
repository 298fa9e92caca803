//! The metrics as text: OpenMetrics, or Prometheus's own format for those that do not ask for it.

use std::fmt;
use std::sync::Arc;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, MetricEncoder, prometheus_text, text};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::{Registry, Unit as NameEnd};

use crate::families::{Family, Kind, Unit, Value};

/// A format of text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    OpenMetrics,
    Prometheus,
}

impl Format {
    /// The one that a request's `Accept` wants.
    pub(crate) fn accepted(accept: &str) -> Self {
        if accept.contains("application/openmetrics-text") { Self::OpenMetrics } else { Self::Prometheus }
    }

    /// The answer's `Content-Type`.
    pub(crate) fn content_type(self) -> &'static str {
        match self {
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
            Self::Prometheus => prometheus_text::CONTENT_TYPE,
        }
    }

    /// Writes the metrics.
    pub(crate) fn write(self, families: Arc<Vec<Family>>, own: Vec<Family>) -> String {
        let mut registry = Registry::default();
        registry.register_collector(Box::new(Families(families, own)));
        let mut out = String::new();
        let written = match self {
            Self::OpenMetrics => text::encode(&mut out, &registry),
            Self::Prometheus => prometheus_text::encode(&mut out, &registry),
        };
        // Only a `Write` that fails makes it fail, and a text does not.
        debug_assert!(written.is_ok());
        out
    }
}

/// Those of the machine and those of the agent.
#[derive(Debug)]
struct Families(Arc<Vec<Family>>, Vec<Family>);

impl Collector for Families {
    fn encode(&self, mut encoder: DescriptorEncoder) -> Result<(), fmt::Error> {
        self.0.iter().chain(&self.1).filter(|family| !family.points.is_empty()).try_for_each(|family| {
            let unit = match family.unit {
                Unit::None => None,
                Unit::Seconds => Some(NameEnd::Seconds),
                Unit::Bytes => Some(NameEnd::Bytes),
                Unit::BytesPerSecond => Some(NameEnd::Other("bytes_per_second".into())),
            };
            let kind = match family.kind {
                Kind::Counter => MetricType::Counter,
                Kind::Gauge => MetricType::Gauge,
            };
            let encoder = encoder.encode_descriptor(family.name, family.help, unit.as_ref(), kind)?;
            points(family, encoder)
        })
    }
}

fn points(family: &Family, mut encoder: MetricEncoder) -> Result<(), fmt::Error> {
    for point in &family.points {
        let labels: Vec<(&str, &str)> = point.labels.iter().map(|(name, value)| (*name, &**value)).collect();
        if labels.is_empty() {
            figure(&mut encoder, family.kind, point.value)?;
        } else {
            figure(&mut encoder.encode_family(&labels)?, family.kind, point.value)?;
        }
    }
    Ok(())
}

fn figure(encoder: &mut MetricEncoder, kind: Kind, value: Value) -> Result<(), fmt::Error> {
    type Labels = Vec<(&'static str, &'static str)>;
    // An empty sum of floats is -0.
    let value = if let Value::Number(number) = value { Value::Number(number + 0.0) } else { value };
    match (kind, value) {
        (Kind::Counter, Value::Count(count)) => encoder.encode_counter::<Labels, _, f64>(&count, None),
        (Kind::Counter, Value::Number(number)) => encoder.encode_counter::<Labels, _, f64>(&number, None),
        (Kind::Gauge, Value::Count(count)) => encoder.encode_gauge(&count),
        (Kind::Gauge, Value::Number(number)) => encoder.encode_gauge(&number),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::families::Point;

    fn family() -> Family {
        let point = |service: &str, s: f64| Point {
            labels: vec![("service", Arc::from(service))],
            value: Value::Number(s),
            begin_ns: 0,
        };
        Family {
            name: "faultless_fault",
            help: "Time.",
            unit: Unit::Seconds,
            kind: Kind::Counter,
            points: vec![point("a", 1.5), point("b\"\\", 2.0)],
        }
    }

    #[test]
    fn both_formats_name_unit_and_total() {
        let open = Format::OpenMetrics.write(Arc::new(vec![family()]), Vec::new());
        let expected = "# HELP faultless_fault_seconds Time.\n# TYPE faultless_fault_seconds counter\n\
                        # UNIT faultless_fault_seconds seconds\nfaultless_fault_seconds_total{service=\"a\"} 1.5\n\
                        faultless_fault_seconds_total{service=\"b\\\"\\\\\"} 2.0\n# EOF\n";
        assert_eq!(open, expected);
        let plain = Format::Prometheus.write(Arc::new(Vec::new()), vec![family()]);
        assert!(plain.contains("# TYPE faultless_fault_seconds_total counter\n"), "{plain}");
        assert!(!plain.contains("# EOF"), "{plain}");
    }

    #[test]
    fn who_does_not_ask_gets_what_everyone_reads() {
        let prometheus = "application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4;q=0.4";
        assert_eq!(Format::accepted(prometheus), Format::OpenMetrics);
        assert_eq!(Format::accepted("*/*"), Format::Prometheus);
    }
}
