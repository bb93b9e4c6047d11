//! Lets users of DingTalk through, whom it names for the code that they bring.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use parking_lot::Mutex;
use serde::Deserialize;
use serde_json::{Value, json};
use tidegate_model::header_text::Text;
use tidegate_plugin_api::{
    BuildContext, Foresight, Phases, Plugin, PluginDef, Reply, Request, SchemaKind, Step,
};
use tidegate_telemetry::error_log::Level;

use super::code_login::{self, CodeLogin};
use crate::common::{
    conf::typed,
    cookies,
    flight::{self, Flights},
    service,
};

pub(crate) static PLUGIN: PluginDef = PluginDef {
    name: "dingtalk-auth",
    version: 0.1,
    priority: 2430,
    schema: include_str!("dingtalk_auth.json"),
    encrypt_fields: &["app_secret", "secret", "secret_fallbacks"],
    phases: Phases::REWRITE.and(Phases::HEADER_FILTER),
    headers: &[("code_header", Text::Name), ("redirect_uri", Text::Value)],
    check,
    build,
    ..PluginDef::DEFAULT
};

/// DingTalk's tokens count for 7,200 seconds.
const TOKEN_LIFETIME: Duration = Duration::from_secs(7000);

/// Error codes about the app's token: wrong, invalid, expired.
const TOKEN_ERRORS: [i64; 3] = [40_001, 40_014, 42_001];

struct DingtalkAuth {
    login: CodeLogin,
    app: App,
    /// The app's own, for all its users.
    token: Mutex<Option<(Arc<str>, Instant)>>,
    asking: Flights<Arc<str>>,
}

#[derive(Deserialize)]
struct App {
    app_key: String,
    app_secret: String,
}

fn check(conf: &Value, _: SchemaKind) -> Result<(), String> {
    code_login::check(conf)
}

fn build(conf: &Value, _: &BuildContext) -> Result<Arc<dyn Plugin>, String> {
    let app: App = typed(conf)?;
    Ok(Arc::new(DingtalkAuth {
        login: CodeLogin::new(PLUGIN.name, "dingtalk_session", &app.app_key, conf)?,
        app,
        token: Mutex::default(),
        asking: Flights::default(),
    }))
}

impl Plugin for DingtalkAuth {
    fn rewrite<'a>(&'a self, request: &'a mut Request) -> Step<'a> {
        Step::wait(self.login.run(request, async |code| self.user(code).await))
    }

    fn header_filter(&self, request: &mut Request) {
        cookies::send(request);
    }

    fn foresee(&self, _: Phases, request: &mut Request) -> Foresight {
        self.login.foreseen(request)
    }
}

impl DingtalkAuth {
    async fn user(&self, code: &str) -> Result<Value, Box<Reply>> {
        let failed = |status: u16, message: &str, reason: &str| {
            self.login.log(Level::Error, reason);
            Box::new(Reply::message(status, message))
        };
        let token = flight::join(&self.asking, "", self.token()).await;
        let token = token.map_err(|reason| failed(500, "Failed to obtain access token", &reason))?;
        let url = self.login.user_url();
        let asked = async {
            let url_with_token = service::with_arguments(url, [("access_token", &*token)]);
            let answer = self.login.post(&url_with_token, &json!({ "code": code })).await?;
            if answer.status != 200 {
                return Err(format!("{url} answered {}", answer.status));
            }
            service::json(url, &answer).await
        };
        let unavailable = "Failed to obtain user info from DingTalk";
        let mut answer = asked.await.map_err(|reason: String| failed(503, unavailable, &reason))?;
        match answer.get("errcode").and_then(Value::as_i64) {
            Some(0) => match answer.get_mut("result").map(Value::take) {
                Some(Value::Object(user)) if !user.is_empty() => Ok(Value::Object(user)),
                _ => Err(failed(503, unavailable, &format!("{url} answered no result"))),
            },
            Some(error) => {
                if TOKEN_ERRORS.contains(&error) {
                    // The next request asks for another.
                    *self.token.lock() = None;
                }
                self.login.log(Level::Warn, &format!("{url} answered errcode {error}"));
                Err(Box::new(Reply::message(401, "Invalid authorization code")))
            }
            None => Err(failed(503, unavailable, &format!("{url} answered no errcode"))),
        }
    }

    async fn token(&self) -> Result<Arc<str>, String> {
        let known = self.token.lock().clone().filter(|(_, since)| since.elapsed() < TOKEN_LIFETIME);
        if let Some((token, _)) = known {
            return Ok(token);
        }
        let url = self.login.token_url();
        let question = json!({"appKey": self.app.app_key, "appSecret": self.app.app_secret});
        let answer = self.login.post(url, &question).await?;
        if answer.status != 200 {
            return Err(format!("{url} answered {}", answer.status));
        }
        let value = service::json(url, &answer).await?;
        let token = value.get("accessToken").and_then(Value::as_str).filter(|token| !token.is_empty());
        let token: Arc<str> = token.ok_or_else(|| format!("{url} answered no accessToken"))?.into();
        *self.token.lock() = Some((token.clone(), Instant::now()));
        Ok(token)
    }
}
