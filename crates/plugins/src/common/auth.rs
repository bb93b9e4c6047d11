//! What the authentication plugins share: the anonymous consumer and how a rejection looks.

use hyper::header::HeaderName;
use serde_json::Value;
use tidegate_model::schema::is_secret_reference;
use tidegate_plugin_api::{Reply, Request, Step, Verdict};
use tidegate_protocol::claims::same_name;
use tidegate_telemetry::error_log;

/// Set while plugin `multi-auth` tries one plugin after the other: a failure then must say its real reason.
pub(crate) struct UnderMultiAuth;

pub(crate) fn under_multi_auth(request: &Request) -> bool {
    request.extensions.get::<UnderMultiAuth>().is_some()
}

/// 401 `{"message":...}` with `WWW-Authenticate: SCHEME realm="REALM"`.
pub fn rejected(scheme: &str, realm: &str, message: &str) -> Verdict {
    Err(rejection(scheme, realm, message))
}

/// As [`rejected`].
pub(crate) fn rejection(scheme: &str, realm: &str, message: &str) -> Box<Reply> {
    let challenge = format!("{scheme} realm=\"{realm}\"");
    Box::new(Reply::message(401, message).header("WWW-Authenticate", challenge))
}

pub(crate) fn unauthorized<'a>(scheme: &str, realm: &str, message: &str) -> Step<'a> {
    rejected(scheme, realm, message).into()
}

pub(crate) fn as_anonymous<'a>(
    request: &mut Request,
    plugin: &str,
    consumer: &str,
    scheme: &str,
    realm: &str,
) -> Step<'a> {
    anonymous(request, plugin, consumer, scheme, realm).into()
}

/// The field with a client's credentials. `Err`: there are two, and the upstream might believe the other one.
pub fn credentials<'a>(request: &'a Request, name: &'a str) -> Result<Option<&'a [u8]>, String> {
    let mut values = request.head.headers.get_all(name);
    match (values.next(), values.next()) {
        (_, Some(_)) => Err(format!("header \"{name}\" is repeated")),
        (first, None) => Ok(first),
    }
}

/// The lines of a field for a service that decides: all, since the upstream gets them all, and with them those that it may take
/// for the same. Each as it is spelled: the service must not take for a field what only some upstreams do.
pub fn lines<'a>(request: &'a Request, name: &'a str) -> impl Iterator<Item = (String, Vec<u8>)> + 'a {
    let lines = request.head.headers.iter().filter(|(line, _)| same_name(line, name.as_bytes()));
    lines.map(|(line, value)| match line.eq_ignore_ascii_case(name.as_bytes()) {
        true => (name.to_owned(), value.to_vec()),
        false => (String::from_utf8_lossy(line).into_owned(), value.to_vec()),
    })
}

/// Lets the request through as the anonymous consumer, or rejects it when there is none of that name.
pub fn anonymous(request: &mut Request, plugin: &str, consumer: &str, scheme: &str, realm: &str) -> Verdict {
    let snapshot = request.snapshot.clone();
    match snapshot.consumers.by_name(consumer) {
        Some(consumer) => {
            request.attach_consumer(consumer, None);
            Ok(())
        }
        None => {
            let reason = format!("failed to get anonymous consumer {consumer}");
            if under_multi_auth(request) {
                return rejected(scheme, realm, &reason);
            }
            error_log::log(
                error_log::Level::Error,
                format_args!("{plugin} failed to authenticate the request, code: 401. error: {reason}"),
            );
            rejected(scheme, realm, "Invalid user authorization")
        }
    }
}

/// What a rejection says: the real reason to `multi-auth`, something less telling to the client.
pub fn reason(request: &Request, real: String, public: &str) -> String {
    if under_multi_auth(request) {
        return real;
    }
    error_log::log(error_log::Level::Warn, format_args!("{real}"));
    public.to_owned()
}

/// A user that an identity provider vouches for, who need not be a consumer. Set by openid-connect, read by acl.
pub(crate) struct ExternalUser(pub serde_json::Value);

/// The upstream learns who sent the request, by more than a consumer's name and without `Authorization`. Set by
/// openid-connect, forward-auth, opa and jwt-auth, read by proxy-cache: what comes back may be for that one only.
pub(crate) struct Identified;

/// Remarks about names that no header field has (RFC 9110 section 5.6.2).
pub(crate) fn remarks_of_names<'a>(names: impl IntoIterator<Item = &'a str>) -> Vec<String> {
    let wrong = names.into_iter().filter(|name| HeaderName::from_bytes(name.as_bytes()).is_err());
    wrong.map(|name| format!("no request has a header {name:?}: it is not a valid field name")).collect()
}

/// Of plugins that look for a key in a header field, and of the keys themselves.
pub(crate) fn remarks_of_key(conf: &Value) -> Vec<String> {
    let text = |name: &str| conf.get(name).and_then(Value::as_str);
    let no_value = text("key")
        .filter(|key| !is_secret_reference(key) && (key.trim() != *key || key.chars().any(char::is_control)));
    // An empty name says that no header is looked at.
    remarks_of_names(text("header").filter(|name| !name.is_empty()))
        .into_iter()
        .chain(no_value.map(|_| {
            "no header can carry the key: it has leading or trailing spaces, or control characters".to_owned()
        }))
        .collect()
}
