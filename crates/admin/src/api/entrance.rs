//! Who may ask: decided by the head of a request, before a byte of its body is read.

use serde_json::json;

use super::{
    body::{BODY_LIMIT, CONFIGURATION_LIMIT, IMPORT_LIMIT},
    revisions::Wait,
    sign_in::{CSRF, SIGN_IN_LIMIT, ended, is_foreign, is_sign_in},
};
use crate::{
    admin_api::{AdminApi, PREFIX},
    arguments,
    at_length::at_length,
    audit::Attempt,
    caller::Caller,
    console,
    message::{Head, Request, RequestBody, Response},
    permission::check,
    sessions::Found,
    settings::Access,
};

/// A request that is let in: its address and its key are right. There is no other way to [`AdminApi::answer`].
pub struct Entered {
    head: Head,
    caller: Option<Caller>,
    wait: Option<Wait>,
    attempt: Option<Attempt>,
    body_limit: u64,
    /// Arguments of the query that have no effect.
    warnings: Vec<String>,
}

impl Entered {
    /// How much of the body is worth reading.
    pub fn body_limit(&self) -> u64 {
        self.body_limit
    }

    /// Whether a key or a session was asked for, and is right.
    pub(crate) fn showed_key(&self) -> bool {
        self.caller.is_some()
    }
}

impl AdminApi {
    /// Lets a request in, or returns its answer, which is on record.
    pub fn enter(&self, head: Head) -> Result<Entered, Response> {
        if self.settings.console && console::owns(&head.path) {
            return self.enter_console(head);
        }
        let authenticated = self.authenticate(&head);
        let known = authenticated.as_ref().ok().and_then(Option::as_ref);
        let audit = self.audit.as_ref().filter(|_| changes_something(&head));
        let mut attempt = audit.map(|audit| audit.attempt("admin", &head, known));
        let permitted = self.permit(&head, authenticated);
        match permitted.and_then(|caller| Ok((caller, check_arguments(&head)?, Wait::of(&head)?))) {
            Ok((caller, warnings, wait)) => {
                let body_limit = self.body_limit(&head);
                Ok(Entered { head, caller, wait, attempt, body_limit, warnings })
            }
            Err(refused) => {
                if let Some(attempt) = &mut attempt {
                    attempt.answered(&refused);
                }
                Err(self.with_headers(&head.method, refused))
            }
        }
    }

    /// `body`: what there is of it, or what to answer because it could not be had. A change has its line in the audit log
    /// before the request waits for the workers to have it.
    pub async fn answer(&self, entered: Entered, body: Result<RequestBody, Response>) -> Response {
        let Entered { head, caller, wait, mut attempt, warnings, .. } = entered;
        if self.settings.console && console::owns(&head.path) {
            let response = console::respond(&head, &self.documents).await;
            return response.with_header("Server", self.settings.server());
        }
        let method = head.method.clone();
        let mut response = match body {
            Ok(body) => match self.still_valid(caller.as_ref()).await {
                Ok(()) => self.within_bounds(Request { head, body, caller }).await,
                Err(refused) => refused,
            },
            Err(response) => response,
        };
        if let Some(attempt) = &mut attempt {
            attempt.answered(&response);
        }
        drop(attempt);
        if let Some(wait) = &wait {
            response = self.hold(response, wait).await;
        }
        self.with_headers(&method, arguments::warn(self.said_if_behind(response), &warnings))
    }

    /// Dispatches a request whose body has not too many values.
    async fn within_bounds(&self, request: Request) -> Response {
        let held = match self.values.admit(&request) {
            Ok(held) => held,
            Err(refused) => return refused,
        };
        let response = self.dispatch(&request).await;
        drop(request);
        if held.is_large() {
            at_length(|| self.hooks.release_memory());
        }
        response
    }

    /// Pages and scripts are for every address that may ask the API: no key opens them, and they hold nothing secret.
    fn enter_console(&self, head: Head) -> Result<Entered, Response> {
        match self.permit_address(&head) {
            // Connections of who has signed in are not counted with those of strangers.
            Ok(()) => {
                let caller = self.session_of(&head, false).map(|found| found.caller);
                Ok(Entered { head, caller, wait: None, attempt: None, body_limit: 0, warnings: Vec::new() })
            }
            Err(refused) => Err(refused.with_header("Server", self.settings.server())),
        }
    }

    /// Where a request comes from, and the name that it asks.
    fn permit_address(&self, head: &Head) -> Result<(), Response> {
        let peer = head.peer.to_canonical();
        if self.settings.allow.as_ref().is_some_and(|nets| !nets.iter().any(|net| net.contains(&peer))) {
            return Err(Response::page(403));
        }
        // With CORS any page may ask anyway, as the start warns.
        if matches!(self.settings.access, Access::Open) && !self.settings.cors {
            self.settings.hosts.check(head)?;
        }
        Ok(())
    }

    /// Address, path, method, and who asks; the answer to a request that goes no further.
    fn permit(
        &self,
        head: &Head,
        authenticated: Result<Option<Caller>, Response>,
    ) -> Result<Option<Caller>, Response> {
        self.permit_address(head)?;
        if self.settings.cors && head.method == "OPTIONS" {
            return Err(preflight());
        }
        let path = head.decoded_path();
        let Some(segments) = segments(&path) else { return Err(Response::page(404)) };
        if path == PREFIX {
            return Err(if head.method == "HEAD" { Response::empty(200) } else { Response::page(404) });
        }
        let offered = match self.standalone {
            Some(_) => super::standalone::offers(&head.method, &segments),
            None => matches!(head.method.as_str(), "GET" | "PUT" | "POST" | "DELETE" | "PATCH"),
        };
        if !offered {
            return Err(match (&self.standalone, &authenticated) {
                (Some(_), Ok(_)) => super::standalone::not_offered(),
                _ => Response::page(404),
            });
        }
        if is_sign_in(&head.method, &segments) {
            return Ok(authenticated.ok().flatten());
        }
        let caller = authenticated?;
        if let Some(caller) = &caller {
            check(caller, &head.method, &segments)?;
        }
        Ok(caller)
    }

    /// Who asks: by a key, else by a session. `None` where no key is asked for.
    fn authenticate(&self, head: &Head) -> Result<Option<Caller>, Response> {
        if let Access::Open = self.settings.access {
            return Ok(None);
        }
        let refuse = |description: &str, remedy: &str| {
            let body =
                json!({"error_msg": "failed to check token", "description": description, "remedy": remedy});
            Err(Response::json(401, &body))
        };
        if let Some(token) = token(head) {
            let Some(key) = self.settings.access.key(&token) else {
                return refuse("wrong apikey", &format!("send another one: {WHERE_KEYS_ARE}"));
            };
            return Ok(Some(key.caller()));
        }
        match self.session_of(head, is_of_person(head)) {
            Some(found) => self.of_session(head, found).map(Some),
            None if self.has_cookie(head) => Err(ended()),
            None => refuse("missing apikey", &without_key(head)),
        }
    }

    /// What a browser sends by itself counts only where the console's own page asks, with the token that it got beside the cookie. A cookie
    /// also goes to other ports of the same host, and servers behind them could read it: it is not enough to read either.
    fn of_session(&self, head: &Head, found: Found) -> Result<Caller, Response> {
        self.check_transport(head, "a session")?;
        if is_foreign(head) {
            return Err(Response::error(403, "a session is for the console's own page"));
        }
        if !head.header(CSRF).is_some_and(|sent| found.has_csrf(sent)) {
            return Err(Response::error(403, "missing or wrong CSRF token"));
        }
        Ok(found.caller)
    }

    fn body_limit(&self, head: &Head) -> u64 {
        let path = head.decoded_path();
        let segments = segments(&path).unwrap_or_default();
        match (head.method.as_str(), segments.as_slice(), &self.standalone) {
            ("PUT", ["configs"], Some(_)) => CONFIGURATION_LIMIT,
            ("PUT", ["import"], None) => IMPORT_LIMIT,
            ("POST" | "PUT", ["sessions", ..], _) => SIGN_IN_LIMIT,
            _ => BODY_LIMIT,
        }
    }

    fn with_headers(&self, method: &str, mut response: Response) -> Response {
        if !response.has_header("Content-Type") {
            response = response.with_header("Content-Type", "application/json");
        }
        if self.settings.cors && method != "OPTIONS" {
            response = response
                .with_header("Access-Control-Allow-Origin", "*")
                .with_header("Access-Control-Allow-Credentials", "true")
                .with_header("Access-Control-Expose-Headers", "*")
                .with_header("Access-Control-Max-Age", "3600");
        }
        response.with_header("Server", self.settings.server())
    }
}

/// What follows the prefix of this API's paths, without empty ends; `None`: the path is not its own.
pub(super) fn segments(path: &str) -> Option<Vec<&str>> {
    let rest = path.strip_prefix(PREFIX).filter(|_| AdminApi::owns(path))?;
    let mut segments: Vec<&str> = rest.split('/').skip(1).collect();
    while segments.last().is_some_and(|segment| segment.is_empty()) {
        segments.pop();
    }
    Some(segments)
}

fn check_arguments(head: &Head) -> Result<Vec<String>, Response> {
    let path = head.decoded_path();
    arguments::check(head, &segments(&path).unwrap_or_default())
}

/// Whether a person is behind a request: the console asks for these by itself.
fn is_of_person(head: &Head) -> bool {
    let path = head.decoded_path();
    let segments = segments(&path).unwrap_or_default();
    let by_itself = matches!(
        segments.as_slice(),
        ["revision" | "stats" | "traffic" | "rejected" | "healthcheck"]
            | ["sessions"]
            | ["sessions", "current"]
    );
    head.method != "GET" || !by_itself
}

/// Questions that are asked with `POST` change nothing.
fn changes_something(head: &Head) -> bool {
    let path = head.decoded_path();
    let mut segments = path.strip_prefix(PREFIX).unwrap_or(&path).split('/').filter(|part| !part.is_empty());
    let first_two = (segments.next(), segments.next());
    match head.method.as_str() {
        "GET" | "HEAD" | "OPTIONS" => false,
        "POST" => {
            !matches!(first_two, (Some("explain"), None) | (Some("configs" | "schema"), Some("validate")))
        }
        _ => true,
    }
}

const WHERE_KEYS_ARE: &str = "a generated key is in data/admin.key of the gateway's folder, others are in deployment.admin.admin_key of config.yaml";

/// Header fields in which keys of other programs are sent.
const OTHER_FIELDS: [&str; 6] =
    ["Authorization", "apikey", "api-key", "X-API-Token", "X-Auth-Token", "X-Admin-Key"];

/// What to do about a request that has no key where it belongs.
fn without_key(head: &Head) -> String {
    match OTHER_FIELDS.into_iter().find(|name| head.header(name).is_some()) {
        Some(name) => format!("send the key in the header X-API-KEY; this request has {name}"),
        None => format!("send a key in the header X-API-KEY: {WHERE_KEYS_ARE}"),
    }
}

fn token(head: &Head) -> Option<String> {
    let token = head.argument("api_key");
    let token = token.or_else(|| head.header("x-api-key").map(str::to_owned));
    token.or_else(|| head.cookie("x_api_key").map(str::to_owned))
}

fn preflight() -> Response {
    Response::empty(200)
        .with_header("Access-Control-Allow-Origin", "*")
        .with_header("Access-Control-Allow-Methods", "POST, GET, PUT, OPTIONS, DELETE, PATCH")
        .with_header("Access-Control-Max-Age", "3600")
        .with_header("Access-Control-Allow-Headers", "*")
        .with_header("Access-Control-Allow-Credentials", "true")
        .with_header("Content-Type", "text/plain")
}
