//! `/sessions`: signing in to the console, and out of it. A session is a cookie that no script reads, and a token that its
//! writes have to repeat.

use std::time::{Instant, SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};

use super::{
    body::read_body,
    oidc::{ProviderAnswer, cookie_of},
    users,
};
use crate::{
    admin_api::{AdminApi, PREFIX},
    caller::{Caller, Origin},
    message::{Head, Request, RequestBody, Response},
    role::Role,
    sessions::{Found, Person, password},
    settings::Access,
};

pub(super) const CSRF: &str = "X-CSRF-Token";

/// A body that names a key, or a user and a password.
pub(super) const SIGN_IN_LIMIT: u64 = 8 * 1024;

/// Whether a request is one that needs neither key nor session.
pub(super) fn is_sign_in(method: &str, segments: &[&str]) -> bool {
    matches!((method, segments), ("GET" | "POST", ["sessions"]) | ("POST", ["sessions", "oidc"]))
}

enum Shown {
    Key(String),
    Password { user: String, password: String },
    Provider(ProviderAnswer),
}

impl Shown {
    /// Whose failures are counted together.
    fn name(&self) -> Option<&str> {
        match self {
            Shown::Password { user, .. } if users::is_name(user) => Some(user),
            _ => None,
        }
    }
}

impl AdminApi {
    pub(super) async fn answer_sessions(&self, request: &Request, segments: &[&str]) -> Response {
        let answered = match (request.method.as_str(), segments) {
            ("GET", ["sessions"]) => Ok(self.ways_in()),
            ("POST", ["sessions"]) => self.sign_in(request).await,
            ("POST", ["sessions", "oidc"]) => self.leave_for_provider(request).await,
            ("GET", ["sessions", "current"]) => Ok(self.current(request)),
            ("DELETE", ["sessions", "current"]) => Ok(self.sign_out(request, false).await),
            ("PUT", ["sessions", "current", "password"]) => self.change_password(request).await,
            ("DELETE", ["sessions"]) => Ok(self.sign_out(request, true).await),
            _ => Err(Response::error(404, "not found")),
        };
        answered.unwrap_or_else(|refused| refused).with_header("Cache-Control", "no-store")
    }

    /// How people may sign in, for the page that asks them.
    fn ways_in(&self) -> Response {
        let oidc = self.settings.oidc.as_ref().map(|oidc| json!({"name": oidc.display_name}));
        Response::json(200, &json!({"users": self.store.users().is_some(), "oidc": oidc}))
    }

    async fn sign_in(&self, request: &Request) -> Result<Response, Response> {
        self.check_own_page(request)?;
        let shown = shown(request)?;
        let admitted = match &shown {
            // Nothing of it can be guessed, so that no failure is counted against those of the same address.
            Shown::Provider(answer) => self.by_provider(request, answer).await,
            _ => self.admitted(request, &shown).await,
        };
        let person = admitted.map_err(|refused| match refused.signer {
            None => refused.of_signer(shown.name(), None),
            Some(_) => refused,
        })?;
        // Whatever session the browser had ends here: a session that was there before is never signed in to.
        if let Some(before) = self.session_of(request, false).and_then(|found| found.caller.session) {
            self.sessions.end(before);
        }
        let caller = person.caller.clone();
        let (name, role) = (caller.name.clone(), caller.role);
        let begun = self.sessions.begin(person, Instant::now());
        let begun = begun.map_err(|reason| Response::error(503, &reason))?;
        let found = Found { caller, csrf: begun.csrf, ends_in: begun.ends_in };
        let response = Response::json(201, &described(&found)).of_signer(Some(&name), Some(role));
        let response = response.with_header("Set-Cookie", self.cookie(&begun.token, ""));
        Ok(match shown {
            Shown::Provider(_) => response.with_header("Set-Cookie", self.login_cookie("", 0)),
            _ => response,
        })
    }

    /// What has to hold before anything is looked at that signs in.
    pub(super) fn check_own_page(&self, request: &Request) -> Result<(), Response> {
        self.check_transport(request, "signing in")?;
        // Another page must not sign a browser in under another name, either.
        match is_foreign(request) {
            true => Err(Response::error(403, "signing in is for the console's own page")),
            false => Ok(()),
        }
    }

    async fn admitted(&self, request: &Request, shown: &Shown) -> Result<Person, Response> {
        // It opens the API anyway, and guesses of others must not keep its owner out.
        if let Shown::Key(key) = shown
            && let Some(key) = self.settings.access.key(key)
        {
            return Ok(Person::of(key.caller(), String::new()));
        }
        let (attempts, name) = (&self.sessions.attempts, shown.name());
        attempts.begin(request.peer, name, Instant::now()).map_err(|seconds| {
            let message =
                "too many failed attempts to sign in; try again later, or use an admin key as X-API-KEY";
            Response::error(429, message).with_header("Retry-After", seconds.to_string())
        })?;
        let known = match shown {
            Shown::Password { user, password } => self.identify(user.clone(), password.clone()).await,
            _ => Ok(None),
        };
        // Else nothing was found out about who it is.
        if !matches!(&known, Ok(None))
            && !matches!(&known, Err(refused) if matches!(refused.status, 401 | 403))
        {
            attempts.succeeded(request.peer, name);
        }
        known?.ok_or_else(|| wrong(shown))
    }

    /// A password or session that travels in plain is known to all on the way.
    pub(super) fn check_transport(&self, head: &Head, what: &str) -> Result<(), Response> {
        if self.settings.tls || head.peer.to_canonical().is_loopback() {
            return Ok(());
        }
        let body = json!({
            "error_msg": format!("{what} from another machine needs TLS"),
            "description": "what is sent to this address can be read on its way, passwords and sessions included",
            "remedy": "set https_admin and admin_api_mtls of deployment.admin, or use ssh -L 9180:127.0.0.1:9180",
        });
        Err(Response::json(403, &body))
    }

    /// `None`: the password is wrong.
    async fn identify(&self, user: String, password: String) -> Result<Option<Person>, Response> {
        let store = self.store.clone();
        let work = move || -> Result<Option<Person>, Response> {
            let record = match store.users() {
                Some(users) if users::is_name(&user) => users::find(users, &user)?,
                Some(_) => None,
                None => return Err(users::without()),
            };
            // As long for a name that no user has.
            let is_right =
                password::verify(&password, record.as_ref().and_then(|record| record.get("password")));
            let record = record.filter(|_| is_right);
            let known = record.and_then(|record| users::caller(&user, &record));
            Ok(known.map(|(caller, stamp)| Person::of(caller, stamp)))
        };
        self.sessions.passwords.run(work).await?
    }

    fn current(&self, request: &Request) -> Response {
        match self.session_of(request, false).filter(|_| request.is_of_session()) {
            Some(found) => Response::json(200, &described(&found)),
            None => Response::json(200, &without_session(request.caller.as_ref())),
        }
    }

    async fn sign_out(&self, request: &Request, everywhere: bool) -> Response {
        match &request.caller {
            Some(caller) if everywhere => self.sessions.end_all(caller),
            Some(Caller { session: Some(id), .. }) => self.sessions.end(*id),
            _ => {}
        }
        let response = match self.sign_out_of_provider(request.caller.as_ref()).await {
            Some(location) => Response::json(200, &json!({"location": location})),
            None => Response::empty(204),
        };
        response.with_header("Set-Cookie", self.cookie("", "; Max-Age=0"))
    }

    /// The session whose cookie a request has.
    pub(super) fn session_of(&self, head: &Head, uses: bool) -> Option<Found> {
        if matches!(self.settings.access, Access::Open) {
            return None;
        }
        let token = cookie_of(head, &self.settings.cookie)?;
        self.sessions.find(token, uses, Instant::now())
    }

    /// Whether a request has the cookie of a session, over or not.
    pub(super) fn has_cookie(&self, head: &Head) -> bool {
        cookie_of(head, &self.settings.cookie).is_some()
    }

    pub(super) fn cookie(&self, token: &str, more: &str) -> String {
        let secure = if self.settings.tls { "; Secure" } else { "" };
        let name = &self.settings.cookie;
        format!("{name}={token}; HttpOnly; SameSite=Strict; Path={PREFIX}{secure}{more}")
    }

    /// Looks a user up again: one that was deleted or changed, perhaps through another gateway, is signed out.
    pub(super) async fn still_valid(&self, caller: Option<&Caller>) -> Result<(), Response> {
        let Some((caller, id)) = caller.and_then(|caller| Some((caller, caller.session?))) else {
            return Ok(());
        };
        if !self.sessions.is_open(id, Instant::now()) {
            return Err(ended());
        }
        let Some(stamp) = self.sessions.to_check(id, Instant::now()) else { return Ok(()) };
        let (store, name) = (self.store.clone(), caller.name.clone());
        let look_up = move || match store.users() {
            Some(users) => users::find(users, &name),
            None => Err(users::without()),
        };
        let record = tokio::task::spawn_blocking(look_up).await;
        let record = record.map_err(|_| Response::error(503, "the user could not be looked up"))??;
        let now = record.and_then(|record| users::caller(&caller.name, &record)).map(|(_, stamp)| stamp);
        if now.as_deref() == Some(stamp.as_str()) {
            self.sessions.checked(id, Instant::now());
            return Ok(());
        }
        self.sessions.end(id);
        Err(ended())
    }
}

pub(super) fn ended() -> Response {
    let body = json!({
        "error_msg": "failed to check token", "description": "the session has ended", "remedy": "sign in again",
    });
    Response::json(401, &body)
}

fn wrong(shown: &Shown) -> Response {
    let (what, remedy) = match shown {
        Shown::Key(_) => ("wrong apikey", "keys are in deployment.admin.admin_key of config.yaml"),
        Shown::Password { .. } | Shown::Provider(_) => {
            ("wrong user or password", "an admin can write another password")
        }
    };
    Response::json(401, &json!({"error_msg": "failed to check token", "description": what, "remedy": remedy}))
}

fn shown(request: &Request) -> Result<Shown, Response> {
    if let RequestBody::TooLarge(size) = request.body {
        return Err(Response::error(400, &format!("{size} bytes are too many for a key or a password")));
    }
    let body = read_body(request)?.unwrap_or_default();
    if let Some(answer) =
        body.get("oidc").filter(|_| body.as_object().is_some_and(|fields| fields.len() == 1))
    {
        return ProviderAnswer::read(answer).map(Shown::Provider);
    }
    let text = |name: &str| body.get(name).and_then(Value::as_str).map(str::to_owned);
    let names = || body.as_object().map(|fields| fields.keys().map(String::as_str).collect::<Vec<_>>());
    match (names().unwrap_or_default().as_slice(), text("key"), text("user"), text("password")) {
        (["key"], Some(key), _, _) => Ok(Shown::Key(key)),
        (["user", "password"] | ["password", "user"], _, Some(user), Some(password))
            if password.len() <= password::LONGEST =>
        {
            Ok(Shown::Password { user, password })
        }
        _ => {
            Err(Response::error(400, "send {\"key\": \"...\"} or {\"user\": \"...\", \"password\": \"...\"}"))
        }
    }
}

/// Whether a browser says that another page than the console's own asks.
pub(super) fn is_foreign(head: &Head) -> bool {
    head.header("sec-fetch-site").is_some_and(|site| !matches!(site.trim(), "same-origin" | "none"))
}

pub(super) fn described(found: &Found) -> Value {
    let Caller { name, role, origin, scope, .. } = &found.caller;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let expires = (now + found.ends_in).as_secs();
    json!({
        "name": name,
        "role": role.name(),
        "user": *origin == Origin::User,
        "csrf": found.csrf,
        "expires": expires,
        "scopes": scope.as_ref().map(|scope| scope.shown()).unwrap_or_default(),
    })
}

/// Of a request with a key; without a caller no key is asked for.
fn without_session(caller: Option<&Caller>) -> Value {
    let role = caller.map_or(Role::Admin, |caller| caller.role);
    let name = caller.map(|caller| caller.name.as_str());
    let scopes = caller.and_then(|caller| caller.scope.as_ref()).map(|scope| scope.shown());
    let scopes = scopes.unwrap_or_default();
    json!({"name": name, "role": role.name(), "user": false, "csrf": null, "expires": null, "scopes": scopes})
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use super::*;
    use crate::{
        AdminKey, AdminSettings,
        testing::{body, finish, parts, request},
    };

    #[test]
    fn keys_do_not_travel_in_plain() {
        let with = |tls, peer: [u8; 4], path: &str, body: &str| {
            let keys = AdminKey::new("ops", "k", Role::Admin).into_iter().collect();
            let settings = AdminSettings { access: Access::Keys(keys), tls, ..AdminSettings::default() };
            let api = AdminApi::new(parts(settings));
            let mut request = request("POST", &format!("/apisix/admin{path}"), body);
            request.head.peer = IpAddr::from(peer);
            finish(api.handle(request))
        };
        let ask = |tls, peer| with(tls, peer, "/sessions", r#"{"key":"k"}"#);
        // Nor does what an identity provider says.
        for (path, body) in [
            ("/sessions/oidc", r#"{"redirect_uri":"http://192.0.2.9/ui/oidc"}"#),
            ("/sessions", r#"{"oidc":{"code":"c","state":"s"}}"#),
        ] {
            let plain = with(false, [192, 0, 2, 1], path, body);
            let said = self::body(&plain);
            assert!(
                plain.status == 403 && said["error_msg"].as_str().is_some_and(|text| text.contains("TLS")),
                "{said}"
            );
            assert_eq!(with(true, [192, 0, 2, 1], path, body).status, 404, "no provider here");
        }
        let cookie = |response: &Response| {
            let found = response.headers.iter().find(|(name, _)| *name == "Set-Cookie");
            found.map(|(_, value)| value.clone()).unwrap_or_default()
        };
        let local = ask(false, [127, 0, 0, 1]);
        assert!(local.status == 201 && !cookie(&local).contains("Secure"));
        let secure = ask(true, [192, 0, 2, 1]);
        assert!(secure.status == 201 && cookie(&secure).ends_with("; Secure"));
        // Nor does a session that began on this machine.
        for (tls, peer, status) in
            [(false, [127, 0, 0, 1], 200), (false, [192, 0, 2, 1], 403), (true, [192, 0, 2, 1], 200)]
        {
            let keys = AdminKey::new("ops", "k", Role::Admin).into_iter().collect();
            let settings = AdminSettings { access: Access::Keys(keys), tls, ..AdminSettings::default() };
            let api = AdminApi::new(parts(settings));
            let begun = finish(api.handle(request("POST", "/apisix/admin/sessions", r#"{"key":"k"}"#)));
            let mut used = request("GET", "/apisix/admin/sessions/current", "");
            used.head.peer = IpAddr::from(peer);
            let csrf = body(&begun)["csrf"].as_str().map(str::to_owned).unwrap_or_default();
            let pair = cookie(&begun).split(';').next().unwrap_or_default().to_owned();
            used.head.headers.extend([("Cookie".to_owned(), pair), (CSRF.to_owned(), csrf)]);
            let answer = finish(api.handle(used));
            assert_eq!(answer.status, status, "{tls} {peer:?} {}", body(&answer));
        }
        let plain = ask(false, [192, 0, 2, 1]);
        assert!(plain.status == 403 && cookie(&plain).is_empty());
        assert!(body(&plain)["remedy"].as_str().is_some_and(|remedy| remedy.contains("https_admin")));
    }
}
