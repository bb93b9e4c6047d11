//! What users do beside requests: log in, change their password, see who they are. Behind plugin public-api.

use std::sync::Arc;

use serde_json::{Map, Value, json};
use tidegate_clients::http::Method;
use tidegate_plugin_api::{AuthEntry, Reply, Request, Step, Verdict, document::Allowance};

use super::{
    server::{self, Server},
    token::{self, Token},
};
use crate::common::{form, json as json_text};

/// Of a login or a change of a password.
const MAX_BODY_BYTES: usize = 1 << 20;

type Answered = Result<Reply, Box<Reply>>;

pub(super) fn login(request: &mut Request) -> Step<'_> {
    answer(log_in(request))
}

pub(super) fn change_password(request: &mut Request) -> Step<'_> {
    answer(change(request))
}

pub(super) fn user_info(request: &mut Request) -> Step<'_> {
    answer(user(request))
}

fn answer<'a>(made: impl Future<Output = Answered> + 'a) -> Step<'a> {
    Step::wait(async move { Verdict::Err(made.await.map_or_else(|reply| reply, Box::new)) })
}

async fn log_in(request: &mut Request) -> Answered {
    let arguments = arguments(request).await?;
    let Some(app_id) = arguments.get("appid").filter(|app_id| !app_id.is_null()) else {
        return Err(refused(400, "appid is missing"));
    };
    let app_id = app_id.as_str().unwrap_or_default();
    let entry = consumer(request, app_id)?;
    let body = Value::Object(arguments.clone()).to_string();
    let answer = server_of(&entry)?.call(Method::POST, "/wolf/rbac/login.rest", None, body).await;
    let answer = answer.map_err(failed)?;
    let Some(secret) = answer.pointer("/data/token").and_then(Value::as_str) else { return Err(failed(500)) };
    let mut result = json!({ "rbac_token": token::written(app_id, secret) });
    if let Some(user) = answer.pointer("/data/userInfo") {
        result["user_info"] = user.clone();
    }
    Ok(Reply::json(200, &result))
}

async fn change(request: &mut Request) -> Answered {
    let arguments = arguments(request).await?;
    let Token { app_id, secret } = token::of(request).map_err(|reason| refused(401, reason))?;
    let entry = consumer(request, &app_id)?;
    let body = Value::Object(arguments).to_string();
    let changed = server_of(&entry)?.call(Method::POST, "/wolf/rbac/change_pwd", Some(&secret), body).await;
    changed.map_err(failed)?;
    Ok(Reply::message(200, "success to change password"))
}

async fn user(request: &mut Request) -> Answered {
    let Token { app_id, secret } = token::of(request).map_err(|reason| refused(401, reason))?;
    let entry = consumer(request, &app_id)?;
    let answer = server_of(&entry)?.call(Method::GET, "/wolf/rbac/user_info", Some(&secret), "").await;
    let answer = answer.map_err(failed)?;
    let user = answer.pointer("/data/userInfo").cloned().unwrap_or(Value::Null);
    Ok(Reply::json(200, &json!({ "user_info": user })))
}

fn refused(status: u16, reason: &str) -> Box<Reply> {
    Box::new(Reply::message(status, reason))
}

fn failed(status: u16) -> Box<Reply> {
    refused(status, "request to wolf-server failed!")
}

fn consumer(request: &Request, app_id: &str) -> Result<Arc<AuthEntry>, Box<Reply>> {
    let index = request.snapshot.consumers.index(server::PLUGIN).ok_or_else(|| Box::new(Reply::page(500)))?;
    index.find(app_id).cloned().ok_or_else(|| refused(400, "appid not found"))
}

fn server_of(entry: &AuthEntry) -> Result<&Server, Box<Reply>> {
    entry.data::<Server>().ok_or_else(|| Box::new(Reply::page(500)))
}

/// The members of a JSON object, or the fields of a form.
async fn arguments(request: &mut Request) -> Result<Map<String, Value>, Box<Reply>> {
    let is_json = request.header_str("Content-Type").is_some_and(|kind| kind.contains("application/json"));
    let body = request.collect_body(MAX_BODY_BYTES).await?;
    let allowance = Allowance::of_a_body(Some(request.remote_addr));
    let read = match is_json {
        true => json_text::decode(&body, &allowance).ok(),
        false => form::decode(&body, &allowance).ok(),
    };
    match read {
        Some(Value::Object(members)) => Ok(members),
        _ => Err(refused(400, "invalid request")),
    }
}
