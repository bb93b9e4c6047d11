//! The wolf server of a consumer: <https://github.com/iGeeky/wolf>.

use std::time::Duration;

use bytes::Bytes;
use serde::Deserialize;
use serde_json::Value;
use tidegate_clients::http::{self, ClientOptions, Endpoint, Error, Method, Outgoing, TlsWanted};
use tidegate_telemetry::error_log::{self, Level};

use crate::common::{conf::typed, service};

/// By which consumers are found.
pub(super) const PLUGIN: &str = "wolf-rbac";

/// A server that fails is asked so often.
const TRIES: usize = 3;
const PAUSE: Duration = Duration::from_millis(100);
const CHECK_TIME: Duration = Duration::from_secs(10);
const CALL_TIME: Duration = Duration::from_secs(5);

pub(super) struct Server {
    pub(super) app_id: String,
    pub(super) header_prefix: String,
    address: String,
    options: ClientOptions,
}

/// What wolf says about a request.
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) reason: Option<Value>,
    pub(super) user: Option<Value>,
}

impl Answer {
    fn failed(reason: &str) -> Answer {
        error_log::log(Level::Error, format_args!("wolf-rbac: {reason}"));
        Answer { status: 500, reason: Some(reason.into()), user: None }
    }
}

impl Server {
    pub(super) fn new(conf: &Value) -> Result<Server, String> {
        #[derive(Deserialize)]
        struct Conf {
            appid: String,
            server: String,
            header_prefix: String,
            #[serde(default)]
            ssl_verify: bool,
        }
        let conf: Conf = typed(conf)?;
        Ok(Server {
            app_id: conf.appid,
            header_prefix: conf.header_prefix,
            address: conf.server,
            options: ClientOptions {
                timeout: CALL_TIME,
                tls: TlsWanted { verify: conf.ssl_verify, client: None },
                ..ClientOptions::default()
            },
        })
    }

    /// Whether the user of the token may send a request; `[method, address of the client, path]`.
    pub(super) async fn check(&self, app_id: &str, token: &str, [action, client, path]: [&str; 3]) -> Answer {
        let pairs = [("action", action), ("appID", app_id), ("clientIP", client), ("resName", path)];
        let target = format!("/wolf/rbac/access_check?{}", service::arguments(pairs));
        let options = ClientOptions { timeout: CHECK_TIME, ..self.options.clone() };
        let mut status = 0;
        for attempt in 1..=TRIES {
            let answer = match self.send(Method::GET, &target, Some(token), Bytes::new(), &options).await {
                Ok(answer) => answer,
                Err(reason) => {
                    return Answer::failed(&format!("request to wolf-server failed, err:{reason}"));
                }
            };
            status = answer.status;
            if status < 500 {
                return read(&self.address, &answer).await;
            }
            if attempt < TRIES {
                tokio::time::sleep(PAUSE).await;
            }
        }
        Answer::failed(&format!("request to wolf-server failed, status:{status}"))
    }

    /// A call that asks nothing about a request: what wolf answers, or the status for the client.
    pub(super) async fn call(
        &self,
        method: Method,
        target: &str,
        token: Option<&str>,
        body: impl Into<Bytes>,
    ) -> Result<Value, u16> {
        let failed = |status: u16, reason: &str| {
            error_log::log(Level::Error, format_args!("wolf-rbac: request to {target} failed: {reason}"));
            status
        };
        let answer = self.send(method, target, token, body.into(), &self.options).await;
        let answer = answer.map_err(|reason| failed(500, reason))?;
        if answer.status != 200 {
            return Err(failed(500, &format!("status {}", answer.status)));
        }
        let value = service::json(&self.address, &answer).await.map_err(|reason| failed(500, &reason))?;
        match value.get("ok") {
            Some(Value::Bool(true)) => Ok(value),
            // As in APISIX, where the status says nothing about the result.
            _ => Err(failed(200, value.get("reason").and_then(Value::as_str).unwrap_or("no reason"))),
        }
    }

    /// The reason of a failure is for the client, and names no address.
    async fn send(
        &self,
        method: Method,
        target: &str,
        token: Option<&str>,
        body: Bytes,
        options: &ClientOptions,
    ) -> Result<http::Incoming, &'static str> {
        let endpoint = Endpoint::parse(&format!("{}{target}", self.address.trim_end_matches('/')));
        let endpoint = endpoint.map_err(|_| "invalid address")?;
        let mut outgoing = Outgoing { method, endpoint, headers: Vec::new(), body, client: None };
        outgoing = outgoing.header("Content-Type", "application/json; charset=utf-8");
        if let Some(token) = token {
            outgoing = outgoing.header("X-Rbac-Token", token);
        }
        http::send(outgoing, options).await.map_err(|error| {
            error_log::log(
                Level::Error,
                format_args!("wolf-rbac: request to {} failed: {error}", self.address),
            );
            match error {
                Error::NotConnected(_) => "no connection",
                Error::TimedOut => "timeout",
                Error::Ended(_) => "connection ended",
            }
        })
    }
}

async fn read(address: &str, answer: &http::Incoming) -> Answer {
    let Ok(value) = service::json(address, answer).await else {
        // Whatever its status: what cannot be read lets nothing through.
        let status = if answer.status < 400 { 500 } else { answer.status };
        return Answer { status, ..Answer::failed("check permission failed! parse response json failed!") };
    };
    let said = |name: &str| value.get(name).filter(|value| !value.is_null()).cloned();
    let user = value.pointer("/data/userInfo").filter(|user| user.is_object()).cloned();
    let status = match answer.status {
        200 if said("ok") == Some(Value::Bool(true)) => 200,
        // Nothing but a plain yes lets through.
        200 => 403,
        // No status of a refusal.
        ..400 => return Answer::failed(&format!("request to wolf-server failed, status:{}", answer.status)),
        status => status,
    };
    let silent = || (status == 403).then(|| "check permission failed! wolf-server does not permit it".into());
    Answer { status, reason: said("reason").or_else(silent), user }
}
