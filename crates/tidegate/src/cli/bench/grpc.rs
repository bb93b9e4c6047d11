//! `--grpc`: calls in place of requests.

use bytes::Bytes;
use tidegate_bench::{Problem, grpc, request::RequestSpec};

use super::{files, load::Load};

/// The message of `--body` as it is sent: bytes, in which nothing is replaced. Without one it is empty.
pub(super) fn message(arguments: &Load) -> Result<Bytes, Problem> {
    match arguments.body.as_deref() {
        None => grpc::frame(b""),
        Some(text) => match text.strip_prefix('@') {
            Some(file) => grpc::frame(&files::read_bytes(file.as_ref())?),
            None => grpc::frame(text.as_bytes()),
        },
    }
}

/// Adds what each call has; refuses what cannot be one.
pub(super) fn into_call(request: &mut RequestSpec) -> Result<(), Problem> {
    grpc::check_path(&request.path)?;
    if request.method != "POST" {
        return Err(Problem::usage(format!(
            "{} {}: a call of gRPC is a POST; leave the method out",
            request.method, request.path
        )));
    }
    for (name, value) in [("content-type", "application/grpc"), ("te", "trailers")] {
        if !request.headers.iter().any(|(given, _)| given.eq_ignore_ascii_case(name)) {
            request.headers.push((name.into(), value.into()));
        }
    }
    Ok(())
}
