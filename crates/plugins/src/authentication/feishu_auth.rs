//! Lets users of Feishu (Lark) through, whom it names for the code that they bring.

use std::sync::Arc;

use serde::Deserialize;
use serde_json::{Value, json};
use tidegate_clients::http::{Endpoint, Outgoing};
use tidegate_model::header_text::Text;
use tidegate_plugin_api::{
    BuildContext, Foresight, Phases, Plugin, PluginDef, Reply, Request, SchemaKind, Step,
};
use tidegate_telemetry::error_log::Level;

use super::code_login::{self, CodeLogin};
use crate::common::{conf::typed, cookies, service};

pub(crate) static PLUGIN: PluginDef = PluginDef {
    name: "feishu-auth",
    version: 0.1,
    priority: 2420,
    schema: include_str!("feishu_auth.json"),
    encrypt_fields: &["app_secret", "secret", "secret_fallbacks"],
    phases: Phases::REWRITE.and(Phases::HEADER_FILTER),
    headers: &[("code_header", Text::Name), ("redirect_uri", Text::Value)],
    check,
    build,
    ..PluginDef::DEFAULT
};

struct FeishuAuth {
    login: CodeLogin,
    app: App,
}

#[derive(Deserialize)]
struct App {
    app_id: String,
    app_secret: String,
    auth_redirect_uri: String,
}

fn check(conf: &Value, _: SchemaKind) -> Result<(), String> {
    code_login::check(conf)
}

fn build(conf: &Value, _: &BuildContext) -> Result<Arc<dyn Plugin>, String> {
    let app: App = typed(conf)?;
    Ok(Arc::new(FeishuAuth { login: CodeLogin::new(PLUGIN.name, "feishu_session", &app.app_id, conf)?, app }))
}

impl Plugin for FeishuAuth {
    fn rewrite<'a>(&'a self, request: &'a mut Request) -> Step<'a> {
        Step::wait(self.login.run(request, async |code| {
            self.user(code).await.map_err(|reason| {
                self.login.log(Level::Warn, &format!("no user for a code: {reason}"));
                Box::new(Reply::message(401, "Invalid authorization code"))
            })
        }))
    }

    fn header_filter(&self, request: &mut Request) {
        cookies::send(request);
    }

    fn foresee(&self, _: Phases, request: &mut Request) -> Foresight {
        self.login.foreseen(request)
    }
}

impl FeishuAuth {
    async fn user(&self, code: &str) -> Result<Value, String> {
        let url = self.login.token_url();
        let question = json!({
            "grant_type": "authorization_code",
            "client_id": self.app.app_id,
            "client_secret": self.app.app_secret,
            "redirect_uri": self.app.auth_redirect_uri,
            "code": code,
        });
        let answer = self.login.post(url, &question).await?;
        if answer.status != 200 {
            return Err(format!("{url} answered {}", answer.status));
        }
        let token = service::json(url, &answer).await?;
        let text = token.get("access_token").and_then(Value::as_str);
        let Some(text) = text.filter(|_| token.get("expires_in").is_some_and(Value::is_number)) else {
            return Err(format!("{url} answered no access_token or expires_in"));
        };
        let url = self.login.user_url();
        let outgoing = Outgoing::get(Endpoint::parse(url)?).header("Content-Type", "application/json");
        let answer = self.login.send(outgoing.header("Authorization", format!("Bearer {text}"))).await?;
        if answer.status != 200 {
            return Err(format!("{url} answered {}", answer.status));
        }
        let mut value = service::json(url, &answer).await?;
        match (value.get("code").and_then(Value::as_i64), value.get_mut("data").map(Value::take)) {
            (Some(0), Some(Value::Object(user))) if !user.is_empty() => Ok(Value::Object(user)),
            (code, _) => Err(format!("{url} answered code {code:?}")),
        }
    }
}
