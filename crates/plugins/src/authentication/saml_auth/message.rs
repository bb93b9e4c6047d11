//! What an identity provider says (SAML 2.0 core and profiles, section 4.1): who a user is, or that a session has ended.

use chrono::DateTime;
use serde_json::{Map, Value};

use super::{
    signature::{self, ProviderKey},
    tree::{self, Element},
};

const PROTOCOL: &str = "urn:oasis:names:tc:SAML:2.0:protocol";
const ASSERTION: &str = "urn:oasis:names:tc:SAML:2.0:assertion";
const SUCCESS: &str = "urn:oasis:names:tc:SAML:2.0:status:Success";
const BEARER: &str = "urn:oasis:names:tc:SAML:2.0:cm:bearer";
/// How far the provider's clock may be from ours.
const SKEW_MS: i64 = 60_000;

/// Why a message does not count; the text is for the operator.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    /// It cannot be read, or has no signature that counts.
    Malformed(String),
    /// The provider says that it failed.
    Failed(String),
    /// It is not for this login.
    Foreign(String),
}

impl Refusal {
    pub(super) fn status(&self) -> u16 {
        match self {
            Refusal::Malformed(_) => 400,
            Refusal::Failed(_) => 500,
            Refusal::Foreign(_) => 401,
        }
    }

    pub(super) fn reason(&self) -> &str {
        match self {
            Refusal::Malformed(reason) | Refusal::Failed(reason) | Refusal::Foreign(reason) => reason,
        }
    }
}

/// What a response must answer.
pub(super) struct Expected<'a> {
    /// Where it may be presented.
    pub(super) recipient: &'a str,
    /// Whom it is for.
    pub(super) audience: &'a str,
    /// The request that it answers.
    pub(super) request: &'a str,
    pub(super) now_ms: i64,
}

/// Whom the provider vouches for.
#[derive(Debug)]
pub(super) struct Vouched {
    pub(super) name_id: String,
    pub(super) session_index: Option<String>,
    /// One value as a text, several as a list.
    pub(super) attributes: Map<String, Value>,
    pub(super) issuer: String,
    pub(super) session_ends_ms: Option<i64>,
    pub(super) assertion_id: String,
    /// The assertion could be presented until then.
    pub(super) usable_until_ms: i64,
}

/// A message, and whether its target has a signature that counts.
pub(super) struct Message {
    pub(super) document: Vec<u8>,
    pub(super) is_signed: bool,
}

fn malformed(reason: impl Into<String>) -> Refusal {
    Refusal::Malformed(reason.into())
}

/// Reads an answer to a login.
pub(super) fn vouched(message: &Message, key: &ProviderKey, expected: &Expected) -> Result<Vouched, Refusal> {
    let root = tree::parse(&message.document).map_err(malformed)?;
    if !root.is(PROTOCOL, "Response") || root.attribute("Version") != Some("2.0") {
        return Err(malformed("it is not a response of SAML 2.0"));
    }
    check_status(&root)?;
    let assertion = only_assertion(&root).map_err(malformed)?;
    signature::check_places(&root, &[&root, assertion]).map_err(malformed)?;
    // Each signature that is there has to count.
    let root_is_signed = signature::is_signed(&root, key).map_err(malformed)?;
    let assertion_is_signed = signature::is_signed(assertion, key).map_err(malformed)?;
    if !(root_is_signed || assertion_is_signed || message.is_signed) {
        return Err(malformed("it is not signed"));
    }
    let answers = |name: &str, value: &str| match root.attribute(name).is_none_or(|found| found == value) {
        true => Ok(()),
        false => Err(Refusal::Foreign(format!("its {name} is {:?}", root.attribute(name)))),
    };
    answers("InResponseTo", expected.request)?;
    answers("Destination", expected.recipient)?;
    read(assertion, expected).map_err(Refusal::Foreign)
}

/// All others are refused, wherever they stand.
fn only_assertion(root: &Element) -> Result<&Element, String> {
    let of_assertions =
        |element: &&Element| element.name.local == "Assertion" || element.name.local == "EncryptedAssertion";
    if root.descendants().into_iter().filter(of_assertions).count() != 1 {
        return Err("it has not one assertion".to_owned());
    }
    root.only(ASSERTION, "Assertion")
        .map_err(|_| "its assertion is encrypted, or not where it belongs".to_owned())
}

fn check_status(root: &Element) -> Result<(), Refusal> {
    let code = root.only(PROTOCOL, "Status").and_then(|status| status.only(PROTOCOL, "StatusCode"));
    match code.map_err(malformed)?.attribute("Value") {
        Some(SUCCESS) => Ok(()),
        other => Err(Refusal::Failed(format!("the identity provider answered status {other:?}"))),
    }
}

fn read(assertion: &Element, expected: &Expected) -> Result<Vouched, String> {
    let conditions = assertion.only(ASSERTION, "Conditions")?;
    check_conditions(conditions, expected)?;
    let subject = assertion.only(ASSERTION, "Subject")?;
    let name_id = subject.only(ASSERTION, "NameID")?.text()?.to_owned();
    if name_id.trim().is_empty() {
        return Err("its NameID is empty".to_owned());
    }
    let confirmed =
        subject.all(ASSERTION, "SubjectConfirmation").find_map(|it| confirmed_until(it, expected));
    let confirmed_until_ms = confirmed.ok_or("no confirmation of its subject is for this login")?;
    let mut statements = assertion.all(ASSERTION, "AuthnStatement");
    let statement = statements.next().ok_or("it has no AuthnStatement")?;
    let conditions_end_ms = time(conditions, "NotOnOrAfter")?.unwrap_or(confirmed_until_ms);
    Ok(Vouched {
        name_id,
        session_index: statement.attribute("SessionIndex").map(str::to_owned),
        attributes: attributes(assertion),
        issuer: trimmed(assertion.only(ASSERTION, "Issuer")?.text()?).to_owned(),
        session_ends_ms: time(statement, "SessionNotOnOrAfter")?,
        assertion_id: assertion.attribute("ID").filter(|id| !id.is_empty()).ok_or("it has no ID")?.to_owned(),
        usable_until_ms: confirmed_until_ms.max(conditions_end_ms).saturating_add(SKEW_MS),
    })
}

fn check_conditions(conditions: &Element, expected: &Expected) -> Result<(), String> {
    check_times(conditions, expected.now_ms)?;
    let known = ["AudienceRestriction", "OneTimeUse", "ProxyRestriction"];
    if conditions.elements().any(|condition| !known.iter().any(|name| condition.is(ASSERTION, name))) {
        return Err("it has a condition that is not known".to_owned());
    }
    let mut restrictions = conditions.all(ASSERTION, "AudienceRestriction").peekable();
    if restrictions.peek().is_none() {
        return Err("it does not say whom it is for".to_owned());
    }
    let is_ours = |restriction: &Element| {
        restriction
            .all(ASSERTION, "Audience")
            .any(|audience| audience.text().map(trimmed) == Ok(expected.audience))
    };
    match restrictions.all(is_ours) {
        true => Ok(()),
        false => Err("it is for another audience".to_owned()),
    }
}

/// `None`: it does not hold here.
fn confirmed_until(confirmation: &Element, expected: &Expected) -> Option<i64> {
    let data = confirmation.only(ASSERTION, "SubjectConfirmationData").ok()?;
    let is_ours = confirmation.attribute("Method") == Some(BEARER)
        && data.attribute("Recipient") == Some(expected.recipient)
        && data.attribute("InResponseTo") == Some(expected.request)
        && check_times(data, expected.now_ms).is_ok();
    time(data, "NotOnOrAfter").ok()?.filter(|_| is_ours)
}

fn check_times(element: &Element, now_ms: i64) -> Result<(), String> {
    let (begin, end) = (time(element, "NotBefore")?, time(element, "NotOnOrAfter")?);
    if begin.is_some_and(|begin| now_ms.saturating_add(SKEW_MS) < begin) {
        return Err("it does not hold yet".to_owned());
    }
    if end.is_some_and(|end| now_ms.saturating_sub(SKEW_MS) >= end || begin.is_some_and(|begin| begin > end))
    {
        return Err("it does not hold any more".to_owned());
    }
    Ok(())
}

/// An address, without the spaces that a document may have around it. Names of users have none that do not count.
fn trimmed(text: &str) -> &str {
    text.trim_matches([' ', '\t', '\r', '\n'])
}

/// In milliseconds since 1970.
fn time(element: &Element, name: &str) -> Result<Option<i64>, String> {
    let Some(text) = element.attribute(name) else { return Ok(None) };
    let time =
        DateTime::parse_from_rfc3339(text).map_err(|_| format!("its {name} is not a time: {text:?}"))?;
    Ok(Some(time.timestamp_millis()))
}

fn attributes(assertion: &Element) -> Map<String, Value> {
    let mut found = Map::new();
    let statements = assertion.all(ASSERTION, "AttributeStatement");
    for attribute in statements.flat_map(|statement| statement.all(ASSERTION, "Attribute")) {
        let Some(name) = attribute.attribute("Name") else { continue };
        // One that has elements in it is not a text, and is left out.
        let values = attribute.all(ASSERTION, "AttributeValue").filter_map(|value| value.text().ok());
        let mut values: Vec<Value> = values.map(Value::from).collect();
        if let Some(last) = values.pop() {
            let value = if values.is_empty() { last } else { values.into_iter().chain([last]).collect() };
            found.insert(name.to_owned(), value);
        }
    }
    found
}

/// A message about a logout.
#[derive(Debug)]
pub(super) enum Logout {
    /// The provider asks for it; its id, which the answer names.
    Request { id: String, name_id: String, session_index: Option<String> },
    /// The provider answers that it is done.
    Response,
}

/// Reads a message about a logout.
pub(super) fn logout(message: &Message, key: &ProviderKey, now_ms: i64) -> Result<Logout, Refusal> {
    let root = tree::parse(&message.document).map_err(malformed)?;
    signature::check_places(&root, &[&root]).map_err(malformed)?;
    if !signature::is_signed(&root, key).map_err(malformed)? && !message.is_signed {
        return Err(malformed("it is not signed"));
    }
    if root.is(PROTOCOL, "LogoutResponse") {
        return check_status(&root).map(|()| Logout::Response);
    }
    if !root.is(PROTOCOL, "LogoutRequest") {
        return Err(malformed("it is not a message about a logout"));
    }
    check_times(&root, now_ms).map_err(Refusal::Foreign)?;
    let name_id = root.only(ASSERTION, "NameID").and_then(|name| name.text().map(str::to_owned));
    let index = root.all(PROTOCOL, "SessionIndex").next().map(|index| index.text().map(str::to_owned));
    Ok(Logout::Request {
        id: root.attribute("ID").unwrap_or_default().to_owned(),
        name_id: name_id.map_err(malformed)?,
        session_index: index.transpose().map_err(malformed)?,
    })
}
