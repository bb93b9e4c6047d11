//! Puts pages of the operator in place of those with which the gateway itself says that something failed.

use std::sync::Arc;

use serde::Deserialize;
use serde_json::Value;
use tidegate_model::header_text::Text;
use tidegate_plugin_api::{BodyChunk, BuildContext, Phases, Plugin, PluginDef, Request, Source};
use tidegate_protocol::Method;

use crate::common::{conf::typed, instance_state};

pub(crate) static PLUGIN: PluginDef = PluginDef {
    name: "error-page",
    version: 0.1,
    priority: 450,
    guards: false,
    // As in APISIX.
    on_by_default: false,
    schema: include_str!("error_page.json"),
    metadata_schema: Some(include_str!("error_page.metadata.json")),
    metadata_headers: &[
        ("error_404.content_type", Text::Value),
        ("error_500.content_type", Text::Value),
        ("error_502.content_type", Text::Value),
        ("error_503.content_type", Text::Value),
    ],
    phases: Phases::HEADER_FILTER.and(Phases::BODY_FILTER),
    build,
    ..PluginDef::DEFAULT
};

#[derive(Default, Deserialize)]
struct ErrorPage {
    enable: bool,
    error_404: Option<Page>,
    error_500: Option<Page>,
    error_502: Option<Page>,
    error_503: Option<Page>,
}

#[derive(Deserialize)]
struct Page {
    body: String,
    content_type: String,
}

/// The answer of this request is replaced; its page is sent with the first piece.
struct Replaced {
    status: u16,
    begun: bool,
}

fn build(_: &Value, context: &BuildContext) -> Result<Arc<dyn Plugin>, String> {
    let pages: ErrorPage = context.metadata.map(typed).transpose()?.unwrap_or_default();
    Ok(Arc::new(pages))
}

impl ErrorPage {
    fn page(&self, status: u16) -> Option<&Page> {
        let page = match status {
            404 => &self.error_404,
            500 => &self.error_500,
            502 => &self.error_502,
            503 => &self.error_503,
            _ => &None,
        };
        page.as_ref().filter(|page| self.enable && !page.body.is_empty())
    }
}

impl Plugin for ErrorPage {
    fn header_filter(&self, request: &mut Request) {
        if request.response.source == Source::Upstream {
            return;
        }
        let status = request.response.status;
        let Some(page) = self.page(status) else { return };
        let is_head = request.head.method == Method::Head;
        let response = &mut request.response;
        response.body_modified();
        response.assign("Content-Type", &page.content_type);
        if is_head {
            // Nothing follows; the length is that of the page.
            response.headers.set("Content-Length", page.body.len().to_string());
        }
        instance_state::set(request, self, Replaced { status, begun: false });
    }

    fn body_filter(&self, request: &mut Request, chunk: &mut BodyChunk) {
        let Some(replaced) = instance_state::get_mut::<_, Replaced>(request, self) else { return };
        let first = !std::mem::replace(&mut replaced.begun, true);
        let page = self.page(replaced.status).filter(|_| first);
        chunk.data = page.map(|page| page.body.clone().into_bytes()).unwrap_or_default();
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::common::test_request;

    fn pages(metadata: &Value) -> ErrorPage {
        typed(metadata).expect("metadata")
    }

    /// Type and body of the answer behind the plugin.
    fn answer(pages: &ErrorPage, status: u16, source: Source) -> (Option<String>, String) {
        let mut request = test_request::request("GET / HTTP/1.1\r\nHost: a.test\r\n\r\n");
        (request.response.status, request.response.source) = (status, source);
        pages.header_filter(&mut request);
        let mut body = Vec::new();
        for (piece, last) in [("one", false), ("two", true)] {
            let mut chunk = BodyChunk::new(piece.as_bytes().to_vec(), last);
            pages.body_filter(&mut request, &mut chunk);
            body.extend(chunk.data);
        }
        let kind = request.response.headers.get("Content-Type");
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (kind.map(text), text(&body))
    }

    #[test]
    fn which_answers_are_replaced() {
        let page = |body: &str| json!({"body": body, "content_type": "application/json"});
        let on = pages(&json!({"enable": true, "error_404": page("{}"), "error_500": page("")}));
        let kept = (None, "onetwo".to_owned());
        for source in [Source::Gateway, Source::ErrorPage] {
            assert_eq!(answer(&on, 404, source), (Some("application/json".to_owned()), "{}".to_owned()));
        }
        assert_eq!(answer(&on, 404, Source::Upstream), kept);
        for status in [200, 403, 405, 500, 502, 503] {
            assert_eq!(answer(&on, status, Source::Gateway), kept, "{status}");
        }
        let off = pages(&json!({"enable": false, "error_404": page("{}")}));
        assert_eq!(answer(&off, 404, Source::Gateway), kept);
        assert_eq!(answer(&ErrorPage::default(), 404, Source::Gateway), kept);
    }
}
