//! `GET /v1/profile` and `GET /v1/heap`: a look inside the running process, for those who may look at its memory anyway.

use std::net::IpAddr;

use bytes::Bytes;
use serde_json::Value;
use tidegate_store::BoxFuture;

use crate::message::{Head, Response, arguments};

/// What `seconds` may be, and is by default.
const SECONDS: std::ops::RangeInclusive<u64> = 1..=60;
const DEFAULT_SECONDS: u64 = 10;

/// What the process can say of itself while it runs.
pub trait Inspect: Send + Sync {
    /// A CPU profile over so many seconds. It ends when the future is dropped.
    fn profile(&self, seconds: u64, form: ProfileForm) -> BoxFuture<'_, Result<Vec<u8>, NoProfile>>;
    /// What the allocator knows.
    fn heap(&self) -> Value;
}

/// How a profile is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProfileForm {
    /// Compressed protobuf of pprof.
    Pprof,
    /// A line for each stack.
    Folded,
}

/// Why a profile was not taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoProfile {
    /// One is being taken.
    Busy,
    /// The system does not allow it, for this reason.
    Failed(String),
}

/// The response to `GET /v1/profile`.
pub(super) async fn profile(inspect: Option<&dyn Inspect>, request: &Head) -> Response {
    let inspect = match allowed(inspect, request) {
        Ok(inspect) => inspect,
        Err(refused) => return refused,
    };
    let (seconds, form) = match asked(request) {
        Ok(asked) => asked,
        Err(message) => return Response::error(400, &message),
    };
    match inspect.profile(seconds, form).await {
        Ok(bytes) => written(bytes, form),
        Err(NoProfile::Busy) => {
            Response::error(409, "another profile is being taken; one is taken at a time")
        }
        Err(NoProfile::Failed(reason)) => {
            Response::error(503, &format!("a profile cannot be taken: {reason}"))
        }
    }
}

/// The response to `GET /v1/heap`.
pub(super) fn heap(inspect: Option<&dyn Inspect>, request: &Head) -> Response {
    match allowed(inspect, request) {
        Ok(inspect) => Response::json(200, &inspect.heap()),
        Err(refused) => refused,
    }
}

fn allowed<'a>(inspect: Option<&'a dyn Inspect>, request: &Head) -> Result<&'a dyn Inspect, Response> {
    let Some(inspect) = inspect else {
        let message = "profiling is off; it needs apisix.control.profiling: true in config.yaml";
        return Err(Response::error(403, message));
    };
    match is_loopback(request.peer) {
        true => Ok(inspect),
        false => Err(Response::error(403, "profiles are for clients on this machine; ask 127.0.0.1")),
    }
}

/// Also where an IPv6 socket shows an IPv4 client.
fn is_loopback(peer: IpAddr) -> bool {
    peer.to_canonical().is_loopback()
}

fn asked(request: &Head) -> Result<(u64, ProfileForm), String> {
    if let Some(name) = arguments(&request.query)
        .into_iter()
        .map(|(name, _)| name)
        .find(|name| name != "seconds" && name != "format")
    {
        return Err(format!("unknown argument {name}; there are seconds and format"));
    }
    let seconds = match request.argument("seconds") {
        None => DEFAULT_SECONDS,
        Some(text) => text.parse().ok().filter(|seconds| SECONDS.contains(seconds)).ok_or_else(|| {
            format!("seconds must be a whole number from {} to {}", SECONDS.start(), SECONDS.end())
        })?,
    };
    match request.argument("format").as_deref() {
        None | Some("pprof") => Ok((seconds, ProfileForm::Pprof)),
        Some("folded") => Ok((seconds, ProfileForm::Folded)),
        Some(_) => Err("format must be pprof or folded".to_owned()),
    }
}

fn written(bytes: Vec<u8>, form: ProfileForm) -> Response {
    let response = Response { body: Bytes::from(bytes), ..Response::empty(200) };
    match form {
        ProfileForm::Folded => response.with_header("Content-Type", "text/plain; charset=utf-8"),
        ProfileForm::Pprof => response
            .with_header("Content-Type", "application/octet-stream")
            .with_header("Content-Disposition", "attachment; filename=\"profile.pb.gz\""),
    }
}
