//! `PUT /sessions/current/password`: a user's own. A person who finds an open page does not know the old one.

use std::time::Instant;

use serde_json::Value;
use tidegate_store::Users;

use super::{body::read_body, sign_in::described, users};
use crate::{
    admin_api::AdminApi,
    caller::{Caller, Origin},
    message::{Request, RequestBody, Response},
    sessions::{Found, Person, password},
};

struct Asked {
    before: String,
    after: String,
}

impl AdminApi {
    /// Ends all sessions of the user, and begins another one.
    pub(super) async fn change_password(&self, request: &Request) -> Result<Response, Response> {
        let caller = request
            .caller
            .as_ref()
            .filter(|caller| caller.origin == Origin::User && caller.session.is_some());
        let caller = caller.ok_or_else(|| {
            let message = "only users who have signed in with a password have one; keys are in config.yaml";
            Response::error(403, message)
        })?;
        let asked = asked(request)?;
        let (attempts, name) = (&self.sessions.attempts, Some(caller.name.as_str()));
        attempts.begin(request.peer, name, Instant::now()).map_err(|seconds| {
            Response::error(429, "too many wrong passwords; try again later")
                .with_header("Retry-After", seconds.to_string())
        })?;
        let (store, user) = (self.store.clone(), caller.name.clone());
        let work = move || match store.users() {
            Some(users) => replace(users, &user, &asked),
            None => Err(users::without()),
        };
        // Hashes twice, so it takes its turn.
        let changed = self.sessions.passwords.run(work).await?;
        if !matches!(&changed, Err(refused) if refused.status == 403) {
            attempts.succeeded(request.peer, name);
        }
        let (caller, stamp): (Caller, String) = changed?;
        self.sessions.end_all(&caller);
        let begun = self.sessions.begin(Person::of(caller.clone(), stamp), Instant::now());
        let begun = begun.map_err(|reason| Response::error(503, &reason))?;
        let found = Found { caller, csrf: begun.csrf, ends_in: begun.ends_in };
        Ok(Response::json(200, &described(&found)).with_header("Set-Cookie", self.cookie(&begun.token, "")))
    }
}

fn asked(request: &Request) -> Result<Asked, Response> {
    let refuse = |message: &str| Err(Response::error(400, message));
    if let RequestBody::TooLarge(size) = request.body {
        return refuse(&format!("{size} bytes are too many for two passwords"));
    }
    let body = read_body(request)?.unwrap_or_default();
    let text = |name: &str| body.get(name).and_then(Value::as_str).map(str::to_owned);
    let is_whole = body.as_object().is_some_and(|fields| fields.len() == 2);
    match (text("current"), text("new")) {
        (Some(before), Some(after)) if is_whole && before.len() <= password::LONGEST => {
            match password::fault(&after) {
                Some(fault) => refuse(&format!("invalid password: {fault}")),
                None if after == before => refuse("the new password is the current one"),
                None => Ok(Asked { before, after }),
            }
        }
        _ => refuse("send {\"current\": \"...\", \"new\": \"...\"}"),
    }
}

fn replace(users: &dyn Users, name: &str, asked: &Asked) -> Result<(Caller, String), Response> {
    let record = users::find(users, name)?.unwrap_or_default();
    if !password::verify(&asked.before, record.get("password")) {
        return Err(Response::error(403, "the current password is wrong"));
    }
    let record = users::with_password(users, name, &record, &asked.after)?;
    users::caller(name, &record).ok_or_else(|| Response::error(503, "the user's record cannot be read"))
}
