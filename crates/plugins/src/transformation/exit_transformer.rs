//! Remakes the answers that the gateway itself makes, by Lua functions of status, body and headers.

use std::sync::Arc;

use serde::Deserialize;
use serde_json::Value;
use tidegate_plugin_api::{
    BuildContext, Foresight, Phases, Plugin, PluginDef, Reply, Request, SchemaKind, Step, aside,
    remaking::Remaker, reply::ReplyBody,
};
use tidegate_protocol::HeaderId;

use crate::{
    common::conf::typed,
    lua::{Answer, Body, Exits, Remade},
};

pub(crate) static PLUGIN: PluginDef = PluginDef {
    name: "exit-transformer",
    version: 0.1,
    priority: 22950,
    guards: false,
    // As in APISIX.
    on_by_default: false,
    schema: include_str!("exit_transformer.json"),
    phases: Phases::REWRITE,
    check,
    build,
    for_admins: Some("it is code"),
    ..PluginDef::DEFAULT
};

#[derive(Deserialize)]
struct Conf {
    functions: Vec<String>,
}

fn check(conf: &Value, kind: SchemaKind) -> Result<(), String> {
    if kind != SchemaKind::Plugin {
        return Ok(());
    }
    typed::<Conf>(conf)?.functions.iter().try_for_each(|source| Exits::check(source))
}

fn build(conf: &Value, _: &BuildContext) -> Result<Arc<dyn Plugin>, String> {
    let conf: Conf = typed(conf)?;
    Ok(Arc::new(ExitTransformer(Arc::new(Functions(Exits::new(PLUGIN.name, conf.functions))))))
}

struct ExitTransformer(Arc<Functions>);

impl Plugin for ExitTransformer {
    fn rewrite<'a>(&'a self, request: &'a mut Request) -> Step<'a> {
        request.remake_with(self.0.clone());
        Step::Next
    }

    fn foresee(&self, phase: Phases, request: &mut Request) -> Foresight {
        Foresight::by_running(self, phase, request)
    }

    fn may_change_status(&self) -> bool {
        true
    }
}

struct Functions(Exits);

impl Remaker for Functions {
    fn remake(&self, request: &mut Request, reply: Reply) -> Reply {
        let body = match &reply.body {
            ReplyBody::Page | ReplyBody::OfHead => None,
            ReplyBody::Bytes(text) => {
                let document = document(text).map(Body::Document);
                Some(document.unwrap_or_else(|| Body::Text(text.clone())))
            }
            // What static-files serves.
            ReplyBody::File(_) => return reply,
        };
        match self.0.remake(request, Answer { status: reply.status, body }) {
            Some(remade) => answer(reply, remade),
            None => reply,
        }
    }
}

/// What a plugin answered as a table: JSON with a line break behind it. Texts of configurations have none.
fn document(text: &[u8]) -> Option<Value> {
    let text = text.strip_suffix(b"\n").filter(|text| text.len() <= aside::SMALL)?;
    if !matches!(text.first(), Some(b'{' | b'[')) {
        return None;
    }
    serde_json::from_slice(text).ok()
}

/// The fields of the first answer stay unless the functions name them.
fn answer(first: Reply, remade: Remade) -> Reply {
    let mut headers = first.headers;
    let mut reply = match remade.body {
        Some(body) => Reply::bytes(remade.status, body),
        None => {
            headers.remove_known(HeaderId::ContentType);
            Reply::page(remade.status)
        }
    };
    for (name, values) in remade.headers {
        // The length is that of what is sent.
        if matches!(
            HeaderId::of(&name),
            HeaderId::ContentLength | HeaderId::TransferEncoding | HeaderId::Connection
        ) {
            continue;
        }
        headers.remove(&name);
        for value in values.iter().filter(|value| !value.is_empty()) {
            headers.add(&name, value);
        }
    }
    reply.headers = headers;
    reply
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::common::test_request;

    /// Status, body and the field `X-A` of what becomes of an answer.
    fn remade(functions: &[&str], reply: Reply) -> (u16, Option<String>, Option<String>) {
        let conf = json!({ "functions": functions });
        check(&conf, SchemaKind::Plugin).expect("functions");
        let functions =
            Functions(Exits::new(PLUGIN.name, typed::<Conf>(&conf).expect("functions").functions));
        let mut request = test_request::request("GET / HTTP/1.1\r\nHost: h\r\nX-Kind: k\r\n\r\n");
        request.remake_with(Arc::new(functions));
        let reply = request.remade(reply);
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let body = match &reply.body {
            ReplyBody::Bytes(body) => Some(text(body)),
            _ => None,
        };
        (reply.status, body, reply.headers.get("X-A").map(text))
    }

    fn of(expression: &str) -> String {
        format!(
            "return (function(code, body, header) do {expression} end return code, body, header end)(...)"
        )
    }

    #[test]
    fn what_becomes_of_an_answer() {
        let text = |text: &str| Some(text.to_owned());
        let refusal = || Reply::message(401, "no key").header("X-A", "first");
        let cases = [
            ("if code == 404 then return 405 end", (401, text("{\"message\":\"no key\"}\n"), text("first"))),
            ("return 403", (403, None, text("first"))),
            ("return 403, 'no'", (403, text("no"), text("first"))),
            ("body.message = body.message .. '!'", (401, text("{\"message\":\"no key!\"}\n"), text("first"))),
            (
                "header['x-a'] = 'second' header.content_length = 3",
                (401, text("{\"message\":\"no key\"}\n"), text("second")),
            ),
            ("header['x-a'] = ''", (401, text("{\"message\":\"no key\"}\n"), None)),
            ("return 500, ngx.req.get_headers()['x-kind']", (500, text("k"), text("first"))),
            // It stays.
            ("return", (401, text("{\"message\":\"no key\"}\n"), text("first"))),
            ("return 99", (401, text("{\"message\":\"no key\"}\n"), text("first"))),
            ("return code()", (401, text("{\"message\":\"no key\"}\n"), text("first"))),
            ("ngx.exit(200)", (401, text("{\"message\":\"no key\"}\n"), text("first"))),
            ("while true do end", (401, text("{\"message\":\"no key\"}\n"), text("first"))),
        ];
        for (expression, expected) in cases {
            assert_eq!(remade(&[&of(expression)], refusal()), expected, "{expression}");
        }
        assert_eq!(remade(&[&of("body = type(body)")], Reply::page(404)), (404, text("nil"), None));
        assert_eq!(remade(&[&of("body = type(body)")], Reply::bytes(200, "{}")), (200, text("string"), None));
    }

    #[test]
    fn functions_in_a_row() {
        let chain = [of("return code + 1, 'one'"), of("return code()"), of("return code + 1, body .. 'two'")];
        let chain: Vec<&str> = chain.iter().map(String::as_str).collect();
        assert_eq!(remade(&chain, Reply::page(500)), (502, Some("onetwo".to_owned()), None));
    }

    #[test]
    fn what_lua_cannot_load_is_refused() {
        let conf = json!({"functions": ["return (function(code) if code == then return 1 end end)(...)"]});
        let error = check(&conf, SchemaKind::Plugin).expect_err("an error");
        assert!(
            error.starts_with("failed to loadstring: ") && error.contains("unexpected symbol"),
            "{error}"
        );
    }
}
