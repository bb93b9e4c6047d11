//! How far a write has got: `GET /revision`, and `?wait=applied` on anything that writes.
//!
//! A write is answered when it is durable and compiled. Workers take the new configuration with their next request; an
//! idle one a moment later. A caller that must know that the last of them has it waits.

use std::time::Duration;

use serde_json::json;

use crate::{
    admin_api::AdminApi,
    message::{Head, REVISION, Response, WARNING},
};

const DEFAULT_LIMIT: Duration = Duration::from_secs(5);
const LONGEST_LIMIT_S: f64 = 60.0;

/// `wait=applied`, and for how long at most.
pub(super) struct Wait(Duration);

impl Wait {
    pub(super) fn of(request: &Head) -> Result<Option<Wait>, Response> {
        if request.method == "GET" {
            return Ok(None);
        }
        match request.argument("wait").as_deref() {
            None => return Ok(None),
            Some("applied") => {}
            Some(_) => return Err(Response::error(400, "invalid argument wait: should be applied")),
        }
        let Some(text) = request.argument("wait_timeout") else { return Ok(Some(Wait(DEFAULT_LIMIT))) };
        match text.trim().parse::<f64>() {
            Ok(seconds) if seconds > 0.0 && seconds <= LONGEST_LIMIT_S => {
                Ok(Some(Wait(Duration::from_secs_f64(seconds))))
            }
            _ => Err(Response::error(
                400,
                "invalid argument wait_timeout: should be a number of seconds above 0, at most 60",
            )),
        }
    }
}

impl AdminApi {
    pub(super) fn revision(&self) -> Response {
        let stored = self.stored_revision();
        let progress = self.hooks.progress();
        Response::json(
            200,
            &json!({"stored": stored, "compiled": progress.compiled, "applied": progress.applied}),
        )
    }

    pub(crate) fn stored_revision(&self) -> u64 {
        let mut revision = 0;
        self.store.read(&mut |state| revision = state.revision);
        revision
    }

    /// What was written stands: the compiler has not come to it in the time that a write waits, which makes no error of it.
    pub(super) fn said_if_behind(&self, mut response: Response) -> Response {
        let Some(revision) = revision_of(&response) else { return response };
        if response.status >= 300 || self.hooks.progress().compiled >= revision {
            return response;
        }
        let behind = format!(
            "revision {revision} is stored but not compiled yet, so requests do not use it; GET \
             /apisix/admin/revision reports when they do"
        );
        match response.headers.iter_mut().find(|(name, _)| *name == WARNING) {
            Some((_, others)) => {
                *others = format!("{behind}; {others}");
                response
            }
            None => response.with_header(WARNING, behind),
        }
    }

    /// Keeps an answer to a write until every worker has what was written. What wrote nothing is passed on at once.
    pub(super) async fn hold(&self, response: Response, wait: &Wait) -> Response {
        let Some(revision) = revision_of(&response) else { return response };
        if tokio::time::timeout(wait.0, self.hooks.wait_applied(revision)).await.is_ok() {
            return response;
        }
        let progress = self.hooks.progress();
        let behind = progress.applied.iter().enumerate().filter(|(_, used)| **used < revision);
        let behind: Vec<usize> = behind.map(|(worker, _)| worker).collect();
        let message = format!(
            "revision {revision} is stored, but after {} s workers {behind:?} do not use it yet; GET \
             /apisix/admin/revision reports when they do",
            wait.0.as_secs_f64()
        );
        let body = json!({
            "error_msg": message, "revision": revision, "compiled": progress.compiled, "applied": progress.applied,
        });
        Response::json(504, &body).with_header(REVISION, revision.to_string())
    }
}

/// That an answer to a write names; what wrote nothing names none.
fn revision_of(response: &Response) -> Option<u64> {
    let written = response.headers.iter().find(|(name, _)| *name == REVISION);
    written.and_then(|(_, value)| value.parse().ok())
}

#[cfg(test)]
mod tests {
    use crate::Progress;
    use std::sync::Arc;

    use tidegate_store::BoxFuture;

    use super::*;
    use crate::{
        Hooks, Parts,
        testing::{body, open, parts, request},
    };

    /// The second worker never gets further than revision 0.
    struct Stuck;

    impl Hooks for Stuck {
        fn progress(&self) -> Progress {
            Progress { compiled: 1, applied: vec![1, 0] }
        }
        fn wait_applied(&self, _: u64) -> BoxFuture<'_, ()> {
            Box::pin(std::future::pending())
        }
    }

    #[test]
    fn a_worker_that_does_not_get_there_is_named() {
        let api = AdminApi::new(Parts { hooks: Arc::new(Stuck), ..parts(open()) });
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
        let target = "/apisix/admin/routes/1?wait=applied&wait_timeout=0.01";
        let route = r#"{"uri": "/a", "upstream": {"nodes": {"127.0.0.1:1": 1}}}"#;
        let response = runtime.block_on(api.handle(request("PUT", target, route)));
        assert_eq!(response.status, 504);
        let body = body(&response);
        assert_eq!((&body["revision"], &body["applied"]), (&json!(1), &json!([1, 0])));
        assert!(body["error_msg"].as_str().is_some_and(|text| text.contains("workers [1]")), "{body}");
        assert!(api.store.get(tidegate_model::Kind::Route, "1").is_some(), "the write stands");
    }
}
