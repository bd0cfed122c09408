//! Settings of traces.

use super::milliseconds;
use crate::config::kind::Kind;
use crate::config::setting::Setting;

pub(super) static SETTINGS: &[Setting] = &[
    Setting::new(
        "traces.endpoint",
        Kind::Optional("URL"),
        "A collector that takes OTLP over HTTP as JSON, such as http://127.0.0.1:4318/v1/traces. With it, calls that are sampled are told to it as spans.",
        |v, _| &mut v.traces.endpoint,
    )
    .at_start()
    .example("http://127.0.0.1:4318/v1/traces"),
    Setting::new(
        "traces.headers_file",
        Kind::Optional("FILE"),
        "A file with headers for the collector, one in a line, such as authorization: Bearer TOKEN.",
        |v, _| &mut v.traces.headers_file,
    )
    .at_start()
    .example("/etc/tasklane/collector.headers"),
    Setting::new(
        "traces.ca",
        Kind::Optional("FILE"),
        "Certificates of the authorities that a collector with https is trusted by, in PEM; without it, those of the system.",
        |v, _| &mut v.traces.ca,
    )
    .at_start()
    .example("/etc/tasklane/collector.pem"),
    Setting::new(
        "traces.service_name",
        Kind::Text("NAME"),
        "What the server is called there.",
        |v, _| &mut v.traces.service_name,
    )
    .at_start()
    .example("tasklane-eu"),
    Setting::new(
        "traces.sample_ratio",
        Kind::Decimal { min: 0.0, max: 1.0 },
        "The share of calls without a traceparent that is told. Those with one are told if it says that they are sampled.",
        |v, _| &mut v.traces.sample_ratio,
    )
    .at_start()
    .example("0.5"),
    Setting::new(
        "traces.export_every_ms",
        milliseconds(1),
        "How long spans are gathered before they are sent.",
        |v, _| &mut v.traces.export_every,
    )
    .at_start(),
];
