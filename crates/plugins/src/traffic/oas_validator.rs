//! Checks requests against an OpenAPI document: path, method, parameters and body.

mod body;
mod json_schema;
mod parameters;
mod paths;
mod remote;
mod spec;
mod values;

use std::{sync::Arc, time::Duration};

use json_schema::{Check, Failed, MOST_STEPS};
use parameters::Place;
use remote::Remote;
use serde::Deserialize;
use serde_json::Value;
use spec::Spec;
use tidegate_backtrack::SearchTime;
use tidegate_clients::http::{Body, ClientOptions, Endpoint, TlsWanted};
use tidegate_model::{header_text::Text, schema::is_secret_reference};
use tidegate_plugin_api::{
    BuildContext, Foresight, Phases, Plugin, PluginDef, Reply, Request, SchemaKind, Step, Why, aside,
    step::Verdict,
};
use tidegate_protocol::HeaderId;
use tidegate_telemetry::error_log::{self, Level};

use crate::common::conf::typed;

pub(crate) static PLUGIN: PluginDef = PluginDef {
    name: "oas-validator",
    version: 0.1,
    priority: 512,
    schema: include_str!("oas_validator.json"),
    metadata_schema: Some(include_str!("oas_validator.metadata.json")),
    phases: Phases::ACCESS,
    headers: &[("spec_url_request_headers", Text::Fields)],
    check,
    remarks,
    build,
    ..PluginDef::DEFAULT
};

/// Documents of large systems have some megabytes.
const MOST_BYTES: usize = 16 << 20;

const DEFAULT_LIFETIME: u64 = 3600;

/// Visits of schemas on a worker: about a millisecond. What needs more of a body goes on elsewhere.
const WORKER_STEPS: usize = 10_000;

/// For checks on another thread.
const PATIENT_STEPS: usize = 20 * MOST_STEPS;
const PATIENCE: Duration = Duration::from_millis(200);

#[derive(Deserialize)]
struct Conf {
    spec: Option<String>,
    spec_url: Option<String>,
    #[serde(default)]
    spec_url_request_headers: serde_json::Map<String, Value>,
    ssl_verify: bool,
    timeout: u64,
    #[serde(flatten)]
    settings: Settings,
}

#[derive(Deserialize)]
struct Settings {
    verbose_errors: bool,
    skip_request_body_validation: bool,
    skip_request_header_validation: bool,
    skip_query_param_validation: bool,
    skip_path_params_validation: bool,
    reject_if_not_match: bool,
    rejection_status_code: u16,
    max_req_body_size: usize,
}

fn check(conf: &Value, kind: SchemaKind) -> Result<(), String> {
    if kind != SchemaKind::Plugin {
        return Ok(());
    }
    if let Some(url) = conf.get("spec_url").and_then(Value::as_str).filter(|url| !is_secret_reference(url)) {
        Endpoint::parse(url).map_err(|reason| format!("property \"spec_url\": {reason}"))?;
    }
    match conf.get("spec").and_then(Value::as_str).filter(|text| !is_secret_reference(text)) {
        Some(text) => match spec::read(text.as_bytes()) {
            Ok(_) => Ok(()),
            Err(error) => Err(format!("invalid JSON string provided, err: {error}")),
        },
        None => Ok(()),
    }
}

/// A document that cannot be used makes each request a 500.
fn remarks(conf: &Value) -> Vec<String> {
    let text = conf.get("spec").and_then(Value::as_str).filter(|text| !is_secret_reference(text));
    let fault = text.and_then(|text| Spec::parse(text.as_bytes()).err());
    fault.map(|fault| format!("spec: every request is answered 500: {fault}")).into_iter().collect()
}

enum Source {
    Known(Arc<Spec>),
    Broken(String),
    Remote(Arc<Remote>),
}

struct OasValidator {
    source: Source,
    settings: Arc<Settings>,
}

fn build(conf: &Value, context: &BuildContext) -> Result<Arc<dyn Plugin>, String> {
    let conf: Conf = typed(conf)?;
    let source = match (&conf.spec, &conf.spec_url) {
        (Some(text), _) => match Spec::parse(text.as_bytes()) {
            Ok(spec) => Source::Known(Arc::new(spec)),
            Err(fault) => Source::Broken(format!("failed to compile openapi spec, err: {fault}")),
        },
        (None, Some(url)) => Source::Remote(Arc::new(remote(url, &conf, context)?)),
        (None, None) => return Err("neither spec nor spec_url".to_owned()),
    };
    Ok(Arc::new(OasValidator { source, settings: Arc::new(conf.settings) }))
}

fn remote(url: &str, conf: &Conf, context: &BuildContext) -> Result<Remote, String> {
    let header = |(name, value): (&String, &Value)| {
        (name.clone(), value.as_str().unwrap_or_default().as_bytes().to_vec())
    };
    let lifetime = context.metadata.and_then(|metadata| metadata.get("spec_url_ttl")).and_then(Value::as_u64);
    Ok(Remote {
        endpoint: Endpoint::parse(url)?,
        headers: conf.spec_url_request_headers.iter().map(header).collect(),
        options: ClientOptions {
            timeout: Duration::from_millis(conf.timeout),
            tls: TlsWanted { verify: conf.ssl_verify, client: None },
            keepalive: false,
            body: Body::Whole(MOST_BYTES),
            ..ClientOptions::default()
        },
        lifetime: Duration::from_secs(lifetime.unwrap_or(DEFAULT_LIFETIME)),
        state: Default::default(),
        turn: Default::default(),
    })
}

impl Plugin for OasValidator {
    fn access<'a>(&'a self, request: &'a mut Request) -> Step<'a> {
        Step::wait(self.validate(request))
    }

    fn foresee(&self, phase: Phases, request: &mut Request) -> Foresight {
        match &self.source {
            Source::Remote(_) => Foresight::maybe(self.settings.rejection_status_code, Why::Asks),
            Source::Known(_) | Source::Broken(_) => Foresight::by_running(self, phase, request),
        }
    }
}

impl OasValidator {
    async fn validate(&self, request: &mut Request) -> Verdict {
        let spec = match &self.source {
            Source::Known(spec) => Ok(spec.clone()),
            Source::Broken(fault) => Err(fault.clone()),
            Source::Remote(remote) => remote.spec().await,
        };
        let spec = spec.map_err(|fault| {
            error_log::log(Level::Error, format_args!("{fault}"));
            Reply::message(500, "failed to parse openapi spec")
        })?;
        let method = request.head.method.as_str().to_owned();
        let path = String::from_utf8_lossy(&request.path).into_owned();
        let checked = match self.head(&spec, request, &method, &path) {
            Ok(()) => self.body(&spec, request, &method, &path).await?,
            failed => failed,
        };
        let Err(failed) = checked else { return Ok(()) };
        error_log::log(
            Level::Error,
            format_args!("error occurred while validating request [{method} {path}], err: {failed}"),
        );
        if !self.settings.reject_if_not_match {
            return Ok(());
        }
        let detail = if self.settings.verbose_errors { failed.to_string() } else { String::new() };
        let message = format!("failed to validate request. {detail}");
        Err(Box::new(Reply::message(self.settings.rejection_status_code, &message)))
    }

    /// All but the body.
    fn head(&self, spec: &Spec, request: &Request, method: &str, path: &str) -> Result<(), Failed> {
        let (operation, values) = spec.find(method, path).map_err(Failed::Invalid)?;
        let check = Check::new(&spec.schemas, WORKER_STEPS, SearchTime::default());
        let settings = &self.settings;
        for parameter in &operation.parameters {
            let is_skipped = match parameter.place {
                Place::Path => settings.skip_path_params_validation,
                Place::Query => settings.skip_query_param_validation,
                Place::Header | Place::Cookie => settings.skip_request_header_validation,
            };
            if !is_skipped {
                parameter.check(request, &values, &check, &spec.schemas)?;
            }
        }
        Ok(())
    }

    async fn body(
        &self,
        spec: &Arc<Spec>,
        request: &mut Request,
        method: &str,
        path: &str,
    ) -> Result<Result<(), Failed>, Box<Reply>> {
        let has_rules = spec.find(method, path).is_ok_and(|(operation, _)| operation.body.is_some());
        if self.settings.skip_request_body_validation || !has_rules {
            return Ok(Ok(()));
        }
        let most = self.settings.max_req_body_size;
        let body = request.collect_body(most).await.map_err(|reply| {
            if reply.status != 413 {
                return reply;
            }
            let reason = format!("request size is greater than the maximum size {most} allowed");
            error_log::log(Level::Error, format_args!("failed reading request body, err: {reason}"));
            Box::new(Reply::message(500, &format!("error reading the request body. err: {reason}")))
        })?;
        let mut types = request.head.headers.all_known(HeaderId::ContentType);
        let content_type = types.next().unwrap_or_default().to_vec();
        if types.next().is_some() {
            return Ok(Err(Failed::Invalid("body: it has several media types".to_owned())));
        }
        let (is_coded, client, spec) = (request.has_coded_body(), request.remote_addr, spec.clone());
        let is_long = body.len() > aside::SMALL;
        let (method, path) = (method.to_owned(), path.to_owned());
        let judge = move |steps, time| {
            let check = Check::new(&spec.schemas, steps, time);
            let Ok((operation, _)) = spec.find(&method, &path) else { return Ok(()) };
            let Some(said) = &operation.body else { return Ok(()) };
            let kind = body::Kind { content_type: &content_type, is_coded, client };
            body::check(said, &body, &kind, &check, &spec.schemas)
        };
        if !is_long {
            let judged = judge(WORKER_STEPS, SearchTime::default());
            if judged != Err(Failed::Unjudged) {
                return Ok(judged);
            }
        }
        let judged = aside::run(client, move || judge(PATIENT_STEPS, SearchTime::of(PATIENCE)));
        Ok(judged.await.unwrap_or(Err(Failed::Unjudged)))
    }
}
