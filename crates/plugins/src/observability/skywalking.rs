//! Reports sampled requests to SkyWalking (OAP, over HTTP), and passes the trace on in the header `sw8`.

mod reporter;
mod sw8;

use std::{
    sync::Arc,
    time::{SystemTime, UNIX_EPOCH},
};

use reporter::Reporter;
use serde::Deserialize;
use serde_json::{Value, json};
use sw8::Origin;
use tidegate_clients::batch::Batch;
use tidegate_model::random::random_fraction;
use tidegate_plugin_api::{
    BuildContext, Foresight, Phases, Plugin, PluginDef, Request, Step, Variable, host::plugin_attribute,
    variables::Named,
};

use crate::common::{conf::typed, skywalking::instance, uuid};

pub(crate) static PLUGIN: PluginDef = PluginDef {
    name: "skywalking",
    version: 0.1,
    priority: 12010,
    on_by_default: false,
    guards: false,
    prefer_route: true,
    schema: include_str!("skywalking.json"),
    phases: Phases::REWRITE.and(Phases::HEADER_FILTER).and(Phases::LOG),
    build,
    ..PluginDef::DEFAULT
};

/// What SkyWalking calls OpenResty.
const COMPONENT: u32 = 6002;
/// How nodes are called in their own traces.
const PEER: &str = "upstream service";

#[derive(Deserialize)]
struct Conf {
    sample_ratio: f64,
}

struct Skywalking {
    sample_ratio: f64,
    reporter: &'static Reporter,
    segments: Batch<Value>,
}

fn build(conf: &Value, _: &BuildContext) -> Result<Arc<dyn Plugin>, String> {
    let Conf { sample_ratio } = typed(conf)?;
    let reporter = reporter::of(plugin_attribute(PLUGIN.name))?;
    let segments = reporter.batch(PLUGIN.name)?;
    Ok(Arc::new(Skywalking { sample_ratio, reporter, segments }))
}

/// A request's segment, until it is logged. Times in milliseconds since 1970.
struct Segment {
    trace_id: String,
    id: String,
    origin: Option<Origin>,
    path: String,
    url: String,
    started: u64,
    answered: Option<u64>,
}

fn now() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis();
    u64::try_from(now).unwrap_or(u64::MAX)
}

fn text(request: &Request, named: Named) -> String {
    String::from_utf8_lossy(&request.variable(&Variable::Named(named)).unwrap_or_default()).into_owned()
}

fn id() -> String {
    uuid::v4().as_str().replace('-', "")
}

impl Plugin for Skywalking {
    fn rewrite<'a>(&'a self, request: &'a mut Request) -> Step<'a> {
        if self.sample_ratio < 1.0 && random_fraction() >= self.sample_ratio {
            return Step::Next;
        }
        let origin = request.header("sw8").and_then(sw8::parse);
        let path = String::from_utf8_lossy(&request.path).into_owned();
        let segment = Segment {
            trace_id: origin.as_ref().map_or_else(id, |origin| origin.trace_id.clone()),
            id: id(),
            url: format!(
                "{}://{}{}",
                text(request, Named::Scheme),
                text(request, Named::Host),
                text(request, Named::RequestUri)
            ),
            path,
            origin,
            started: now(),
            answered: None,
        };
        let onward = Origin {
            trace_id: segment.trace_id.clone(),
            segment_id: segment.id.clone(),
            // Of the span towards the node.
            span_id: 1,
            service: self.reporter.service.clone(),
            instance: self.reporter.instance.clone(),
            endpoint: segment.path.clone(),
            address: PEER.to_owned(),
        };
        request.assert_header("sw8", [onward.header()]);
        request.extensions.insert(segment);
        Step::Next
    }

    fn header_filter(&self, request: &mut Request) {
        if let Some(segment) = request.extensions.get_mut::<Segment>() {
            segment.answered = Some(now());
        }
    }

    fn log(&self, request: &mut Request) {
        let Some(segment) = request.extensions.take::<Segment>() else { return };
        self.reporter.begin();
        self.segments.push(request, self.report(&segment, request));
    }

    fn foresee(&self, _: Phases, _: &mut Request) -> Foresight {
        Foresight::Continues
    }
}

impl Skywalking {
    fn report(&self, segment: &Segment, request: &Request) -> Value {
        let end = now();
        let tag = |key: &str, value: &str| json!({"key": key, "value": value});
        let span = |number: u8, kind: &str, end: u64, status: Option<u16>| {
            json!({
                "operationName": segment.path,
                "startTime": segment.started,
                "endTime": end,
                "spanType": kind,
                "spanId": number,
                "parentSpanId": i16::from(number) - 1,
                "spanLayer": "Http",
                "componentId": COMPONENT,
                "isError": status.is_some_and(|status| status >= 500),
                "tags": status.map(|status| tag("http.status", &status.to_string())).into_iter().collect::<Vec<_>>(),
                "logs": [],
                "refs": [],
            })
        };
        let mut entry = span(0, "Entry", end, Some(request.response.status));
        if let Some(tags) = entry.get_mut("tags").and_then(Value::as_array_mut) {
            tags.splice(
                0..0,
                [tag("http.method", &text(request, Named::RequestMethod)), tag("http.params", &segment.url)],
            );
        }
        if let Some(origin) = &segment.origin {
            entry["refs"] = json!([{
                "refType": "CrossProcess",
                "traceId": origin.trace_id,
                "parentTraceSegmentId": origin.segment_id,
                "parentSpanId": origin.span_id,
                "parentService": origin.service,
                "parentServiceInstance": origin.instance,
                "parentEndpoint": origin.endpoint,
                "networkAddressUsedAtPeer": origin.address,
            }]);
        }
        let attempt = request.outcome.attempts.last();
        let status = attempt.map(|attempt| attempt.status).filter(|status| *status >= 100);
        let mut exit = span(1, "Exit", segment.answered.unwrap_or(end), status);
        exit["peer"] = PEER.into();
        json!({
            "traceId": segment.trace_id,
            "traceSegmentId": segment.id,
            "service": self.reporter.service,
            "serviceInstance": self.reporter.instance,
            "spans": [entry, exit],
        })
    }
}
