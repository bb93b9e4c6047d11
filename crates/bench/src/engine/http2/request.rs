//! A request of HTTP/2: names and values in place of the text of a head.

use bytes::Bytes;
use http::{HeaderName, HeaderValue, Method, Uri};

use crate::{
    Problem,
    request::RequestSpec,
    target::Origin,
    template::{Source, Template},
};

/// Fields that belong to one connection of HTTP/1 (RFC 9113 section 8.2.2).
pub(crate) const CONNECTION_FIELDS: [&str; 5] =
    ["connection", "keep-alive", "proxy-connection", "transfer-encoding", "upgrade"];

#[derive(Debug)]
pub(crate) struct Http2Request {
    method: Method,
    /// Everything before the path: scheme and authority.
    base: String,
    path: Template,
    headers: Vec<(HeaderName, Template)>,
    body: Option<Template>,
}

impl Http2Request {
    pub(crate) fn new(spec: &RequestSpec, origin: &Origin) -> Result<Http2Request, Problem> {
        let wrong = |what: &str| Problem::usage(format!("{what:?} cannot be sent with HTTP/2"));
        let method = Method::from_bytes(spec.method.as_bytes()).map_err(|_| wrong(&spec.method))?;
        let (mut headers, mut authority) = (Vec::new(), origin.host_field());
        for (name, value) in &spec.headers {
            if name.eq_ignore_ascii_case("host") {
                authority.clone_from(value);
                continue;
            }
            if CONNECTION_FIELDS.iter().any(|field| name.eq_ignore_ascii_case(field)) {
                return Err(wrong(name));
            }
            let name = HeaderName::from_bytes(name.as_bytes()).map_err(|_| wrong(name))?;
            headers.push((name, Template::parse(value)?));
        }
        let base = format!("{}://{authority}", if origin.tls { "https" } else { "http" });
        let request = Http2Request {
            method,
            base,
            path: Template::parse(&spec.path)?,
            headers,
            body: spec.body.as_deref().map(Template::parse).transpose()?,
        };
        // What is wrong is said before the run and not by each request.
        request.try_render(&mut Source::nobody()).ok_or_else(|| wrong(&spec.path))?;
        Ok(request)
    }

    pub(crate) fn render(&self, source: &mut Source) -> (http::Request<()>, Bytes) {
        // A placeholder that made something unsendable: the root is asked for.
        self.try_render(source).unwrap_or_default()
    }

    fn try_render(&self, source: &mut Source) -> Option<(http::Request<()>, Bytes)> {
        let mut text = self.base.clone().into_bytes();
        self.path.render(&mut text, source);
        let mut request = http::Request::new(());
        *request.method_mut() = self.method.clone();
        *request.uri_mut() = Uri::from_maybe_shared(text).ok()?;
        for (name, value) in &self.headers {
            let mut text = Vec::new();
            value.render(&mut text, source);
            request
                .headers_mut()
                .append(name.clone(), HeaderValue::from_maybe_shared(Bytes::from(text)).ok()?);
        }
        let mut body = Vec::new();
        if let Some(template) = &self.body {
            template.render(&mut body, source);
        }
        Some((request, Bytes::from(body)))
    }
}
