//! A plugin made with the SDK for Rust: tags both heads, asks a service where the configuration names one, and rewrites bodies.

use std::time::Duration;

use proxy_wasm::{
    traits::{Context, HttpContext, RootContext},
    types::{Action, ContextType, LogLevel},
};

proxy_wasm::main! {{
    proxy_wasm::set_log_level(LogLevel::Trace);
    proxy_wasm::set_root_context(|_| Box::new(Root::default()));
}}

#[derive(Default)]
struct Root {
    service: String,
}

impl Context for Root {}

impl RootContext for Root {
    fn on_configure(&mut self, _: usize) -> bool {
        self.service = String::from_utf8(self.get_plugin_configuration().unwrap_or_default()).unwrap_or_default();
        self.service != "refuse"
    }

    fn create_http_context(&self, _: u32) -> Option<Box<dyn HttpContext>> {
        Some(Box::new(Tagging { service: self.service.clone() }))
    }

    fn get_type(&self) -> Option<ContextType> {
        Some(ContextType::HttpContext)
    }
}

struct Tagging {
    service: String,
}

impl Context for Tagging {
    fn on_http_call_response(&mut self, _: u32, _: usize, body_size: usize, _: usize) {
        let body = self.get_http_call_response_body(0, body_size).unwrap_or_default();
        if body == b"yes" {
            return self.resume_http_request();
        }
        self.send_http_response(403, vec![("x-by", "rust")], Some(b"no\n"));
    }
}

impl HttpContext for Tagging {
    fn on_http_request_headers(&mut self, _: usize, _: bool) -> Action {
        log::warn!("path {:?}", self.get_http_request_header(":path"));
        self.set_http_request_header("x-tag", Some("rust"));
        if self.service == "none" {
            return Action::Continue;
        }
        let head = vec![(":method", "GET"), (":path", "/"), (":authority", "auth")];
        match self.dispatch_http_call(&self.service, head, None, vec![], Duration::from_secs(5)) {
            Ok(_) => Action::Pause,
            Err(_) => Action::Continue,
        }
    }

    fn on_http_response_headers(&mut self, _: usize, _: bool) -> Action {
        self.set_http_response_header("x-tag", Some("rust"));
        self.set_http_response_header("content-length", None);
        Action::Continue
    }

    fn on_http_response_body(&mut self, size: usize, end_of_stream: bool) -> Action {
        if !end_of_stream {
            return Action::Pause;
        }
        let body = self.get_http_response_body(0, size).unwrap_or_default();
        self.set_http_response_body(0, size, &body.to_ascii_uppercase());
        Action::Continue
    }
}
