//! Metrics as an OTLP request.
//!
//! Names: `faultless.page_faults` here is `faultless_page_faults_total` in Prometheus, as its OTLP receiver and the
//! collector's exporter translate names, units and sums.

use std::io::Write;

use flate2::Compression;
use flate2::write::GzEncoder;
use prost::Message;

use super::Batch;
use super::proto::{
    AnyValue, Data, ExportMetricsServiceRequest, Gauge, KeyValue, Metric, Number, NumberDataPoint, Resource,
    ResourceMetrics, Scope, ScopeMetrics, Sum,
};
use crate::families::{Family, Kind, Point, Value};

const CUMULATIVE: i32 = 2;

/// Metrics as of a time, ns since 1970.
pub(super) fn batch(families: &[&Family], time_ns: u64) -> Batch {
    let plain = request(families, time_ns);
    let mut packed = GzEncoder::new(Vec::new(), Compression::fast());
    // A vector takes every write.
    let bytes = packed.write_all(&plain).and_then(|()| packed.finish()).unwrap_or_default();
    Batch { target: "/v1/metrics".into(), kind: "application/x-protobuf", is_gzip: true, bytes }
}

fn request(families: &[&Family], time_ns: u64) -> Vec<u8> {
    let version = env!("CARGO_PKG_VERSION");
    let host_name = faultless_prof::host_name();
    let attributes = [
        ("service.name", "faultless-agent"),
        ("service.version", version),
        ("host.name", &host_name),
        ("os.type", "linux"),
    ];
    let filled = families.iter().filter(|family| !family.points.is_empty());
    let scope_metrics = ScopeMetrics {
        scope: Some(Scope { name: "faultless".into(), version: version.into() }),
        metrics: filled.map(|family| metric(family, time_ns)).collect(),
    };
    let resource = Resource { attributes: attributes.map(|(key, value)| pair(key, value)).into() };
    let metrics = ResourceMetrics { resource: Some(resource), scope_metrics: vec![scope_metrics] };
    ExportMetricsServiceRequest { resource_metrics: vec![metrics] }.encode_to_vec()
}

fn metric(family: &Family, time_ns: u64) -> Metric {
    let data_points: Vec<_> = family.points.iter().map(|point| data_point(point, time_ns)).collect();
    let data = match family.kind {
        Kind::Counter => {
            Data::Sum(Sum { data_points, aggregation_temporality: CUMULATIVE, is_monotonic: true })
        }
        Kind::Gauge => Data::Gauge(Gauge { data_points }),
    };
    Metric {
        name: family.name.replacen('_', ".", 1),
        description: family.help.into(),
        unit: family.unit.ucum().into(),
        data: Some(data),
    }
}

fn data_point(point: &Point, time_ns: u64) -> NumberDataPoint {
    NumberDataPoint {
        attributes: point.labels.iter().map(|(name, value)| pair(name, value)).collect(),
        start_time_unix_nano: point.begin_ns,
        time_unix_nano: time_ns,
        value: Some(match point.value {
            Value::Count(count) => Number::Int(i64::try_from(count).unwrap_or(i64::MAX)),
            Value::Number(number) => Number::Double(number),
        }),
    }
}

fn pair(key: &str, value: &str) -> KeyValue {
    KeyValue { key: key.into(), value: Some(AnyValue { string_value: Some(value.into()) }) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::families::Unit;

    #[test]
    fn a_counter_is_a_cumulative_sum_with_a_begin() {
        let point = Point { labels: vec![("service", "a".into())], value: Value::Count(7), begin_ns: 3 };
        let family = Family {
            name: "faultless_page_faults",
            help: "Faults.",
            unit: Unit::None,
            kind: Kind::Counter,
            points: vec![point],
        };
        let empty = Family { points: Vec::new(), ..family.clone() };
        let bytes = request(&[&family, &empty], 9);
        let read = ExportMetricsServiceRequest::decode(&*bytes).unwrap();
        let metrics = &read.resource_metrics[0].scope_metrics[0].metrics;
        assert_eq!((metrics.len(), metrics[0].name.as_str()), (1, "faultless.page_faults"));
        let Some(Data::Sum(sum)) = &metrics[0].data else { panic!("{metrics:?}") };
        let point = &sum.data_points[0];
        assert_eq!((point.start_time_unix_nano, point.time_unix_nano), (3, 9));
        assert_eq!((point.value, sum.is_monotonic), (Some(Number::Int(7)), true));
        // A field number in one byte, a length in the next: what any reader of protocol buffers takes.
        assert_eq!(bytes[0], 0x0a);
    }
}
