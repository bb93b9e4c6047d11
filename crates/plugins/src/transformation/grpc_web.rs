//! gRPC-Web: what browsers send instead of gRPC, for a gRPC upstream.
//!
//! Browsers see no trailers, so those of the answer follow its last message as a frame with the high bit set.

use std::sync::Arc;

use serde::Deserialize;
use serde_json::Value;
use tidegate_clients::nginx_base64;
use tidegate_model::header_text::Text;
use tidegate_plugin_api::{
    BodyChunk, BodyError, BuildContext, Foresight, Phases, Plugin, PluginDef, Reply, Request, RequestBody,
    Step, Verdict, aside,
    memory::{self, Spent},
};
use tidegate_protocol::{HeaderId, Method};
use tidegate_telemetry::error_log;

use crate::common::{conf::typed, instance_state};

pub(crate) static PLUGIN: PluginDef = PluginDef {
    name: "grpc-web",
    version: 0.1,
    priority: 505,
    guards: false,
    schema: include_str!("grpc_web.json"),
    phases: Phases::ACCESS.and(Phases::HEADER_FILTER).and(Phases::BODY_FILTER),
    headers: &[("cors_allow_headers", Text::Value)],
    schemes: &["grpc", "grpcs"],
    build,
    ..PluginDef::DEFAULT
};

#[derive(Deserialize)]
struct GrpcWeb {
    max_req_body_size: usize,
    cors_allow_headers: String,
}

/// A request that was taken for gRPC-Web.
struct Call {
    content_type: Vec<u8>,
    /// Bodies are base64.
    text: bool,
    /// The status is in the head: the body stays empty.
    status_sent: bool,
}

fn build(conf: &Value, _: &BuildContext) -> Result<Arc<dyn Plugin>, String> {
    Ok(Arc::new(typed::<GrpcWeb>(conf)?))
}

impl Plugin for GrpcWeb {
    fn access<'a>(&'a self, request: &'a mut Request) -> Step<'a> {
        Step::wait(self.translate(request))
    }

    fn header_filter(&self, request: &mut Request) {
        let status_sent = request.response.headers.contains("grpc-status");
        let headers = &mut request.response.headers;
        if request.head.method == Method::Options {
            headers.set("Access-Control-Allow-Methods", "POST");
            headers.set("Access-Control-Allow-Headers", &self.cors_allow_headers);
        }
        // Plugin cors has run before and knows better.
        if !headers.contains("Access-Control-Allow-Origin") {
            headers.set("Access-Control-Allow-Origin", "*");
        }
        headers.set("Access-Control-Expose-Headers", "grpc-message,grpc-status");
        let Some(call) = instance_state::get_mut::<_, Call>(request, self) else { return };
        call.status_sent = status_sent;
        let content_type = call.content_type.clone();
        request.response.headers.set("Content-Type", content_type);
        request.response.length_modified();
    }

    fn body_filter(&self, request: &mut Request, chunk: &mut BodyChunk) {
        let Some(call) = instance_state::get_mut::<_, Call>(request, self) else { return };
        let (text, status_sent) = (call.text, call.status_sent);
        if text && !chunk.data.is_empty() {
            chunk.data = nginx_base64::encode(&chunk.data).into_bytes();
        }
        if !chunk.last || status_sent {
            return;
        }
        let frame = trailer_frame(&request.response.trailers);
        request.response.trailers.clear();
        if text {
            chunk.data.extend_from_slice(nginx_base64::encode(frame).as_bytes());
        } else {
            chunk.data.extend_from_slice(&frame);
        }
    }

    fn foresee(&self, phase: Phases, request: &mut Request) -> Foresight {
        Foresight::by_running(self, phase, request)
    }
}

impl GrpcWeb {
    async fn translate(&self, request: &mut Request) -> Verdict {
        let refuse = |status: u16, reason: std::fmt::Arguments<'_>| {
            if status >= 400 {
                error_log::log(error_log::Level::Error, format_args!("grpc-web: {reason}"));
            }
            Err(Box::new(Reply::page(status)))
        };
        match request.head.method {
            Method::Options => return refuse(204, format_args!("preflight")),
            Method::Post => {}
            _ => {
                let method = request.head.method.as_str().to_owned();
                return refuse(405, format_args!("request method {method} is not POST or OPTIONS"));
            }
        }
        let content_type = request.head.headers.known(HeaderId::ContentType).unwrap_or_default().to_vec();
        let text = match content_type.as_slice() {
            b"application/grpc-web" | b"application/grpc-web+proto" => false,
            b"application/grpc-web-text" | b"application/grpc-web-text+proto" => true,
            other => {
                let other = String::from_utf8_lossy(other);
                return refuse(400, format_args!("request Content-Type {other} is not one of gRPC-Web"));
            }
        };
        let body = request.collect_body(self.max_req_body_size).await;
        if let Err(reply) = &body
            && [BodyError::Overloaded, BodyError::Timeout, BodyError::Closed, BodyError::LargeTrailers]
                .map(BodyError::status)
                .contains(&reply.status)
        {
            return body.map(|_| ());
        }
        let Ok(mut body) = body else {
            return refuse(400, format_args!("the request body could not be read"));
        };
        if text {
            let (client, length) = (request.remote_addr, body.len());
            let decode = move || nginx_base64::decode(&body);
            let decoded = aside::run_by_size(client, length, decode).await;
            let held = decoded.ok().flatten().map(|decoded| memory::hold(decoded, client));
            match held {
                Some(Ok(decoded)) => body = decoded,
                Some(Err(Spent)) => return Err(Box::new(Reply::page(503))),
                None => return refuse(400, format_args!("the request body is not base64")),
            }
        }
        request.body = RequestBody::Collected(body);
        request.head.headers.set("Content-Type", "application/grpc");
        request.edits.target = call_path(request).or(request.edits.target.take());
        instance_state::set(request, self, Call { content_type, text, status_sent: false });
        Ok(())
    }
}

/// What the route's `*` stands for is the call: `/package.Service/Method`.
fn call_path(request: &Request) -> Option<Vec<u8>> {
    let parameters = &request.matched.parameters;
    let (_, call) = parameters.iter().find(|(name, call)| &**name == ":ext" && !call.is_empty())?;
    let mut path = Vec::with_capacity(call.len() + 1);
    if call.first() != Some(&b'/') {
        path.push(b'/');
    }
    tidegate_protocol::uri::encode_path(call, &mut path);
    if let Some(query) = request.head.query() {
        path.push(b'?');
        path.extend_from_slice(query);
    }
    Some(path)
}

fn trailer_frame(trailers: &tidegate_protocol::Head) -> Vec<u8> {
    let status = trailers.get_str("grpc-status").filter(|status| !status.is_empty());
    let (status, message) = match status {
        Some(status) => (status, trailers.get("grpc-message").unwrap_or_default()),
        None => ("2", &b"upstream grpc status not received"[..]),
    };
    let mut text = format!("grpc-status:{status}\r\ngrpc-message:").into_bytes();
    text.extend_from_slice(message);
    text.extend_from_slice(b"\r\n");
    let mut frame = vec![0x80];
    frame.extend_from_slice(&u32::try_from(text.len()).unwrap_or(u32::MAX).to_be_bytes());
    frame.extend_from_slice(&text);
    frame
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trailers_become_a_frame() {
        let mut trailers = tidegate_protocol::Head::new();
        assert_eq!(
            trailer_frame(&trailers),
            b"\x80\0\0\0\x3fgrpc-status:2\r\ngrpc-message:upstream grpc status not received\r\n"
        );
        trailers.add("grpc-status", "0");
        assert_eq!(trailer_frame(&trailers), b"\x80\0\0\0\x1egrpc-status:0\r\ngrpc-message:\r\n");
    }
}
