//! What a CAS server says: answers of `serviceValidate` (CAS protocol, section 2.5), and logout requests (section 2.3.3).

use quick_xml::{
    NsReader,
    escape::unescape,
    events::Event,
    name::{Namespace, ResolveResult},
};
use tidegate_protocol::uri::{percent_decode, query_pairs};

/// More than any such document has.
const MAX_ELEMENTS: usize = 1_000;
const MAX_DEPTH: usize = 32;
/// Of answers.
const NAMESPACE: &str = "http://www.yale.edu/tp/cas";

/// The user of a ticket.
pub(super) fn user(answer: &str) -> Result<String, &'static str> {
    const ROOT: &str = "/serviceResponse";
    let elements = elements(answer)?;
    let of = |path: String| elements.iter().filter(move |element| element.is_of_cas && element.path == path);
    let parts = elements.iter().filter(|element| element.path.matches('/').count() == 2).count();
    if parts != 1 || of(format!("{ROOT}/authenticationSuccess")).count() != 1 {
        return Err("serviceValidate answered no success");
    }
    let mut users = of(format!("{ROOT}/authenticationSuccess/user"));
    match (users.next(), users.next()) {
        (Some(user), None) if !user.text.trim().is_empty() => Ok(user.text.trim().to_owned()),
        _ => Err("serviceValidate answered no user"),
    }
}

/// The tickets whose sessions are to end: of the document alone, or of the field `logoutRequest` of a form.
pub(super) fn tickets(body: &[u8]) -> Vec<String> {
    let is_document = body.trim_ascii_start().starts_with(b"<");
    let document = match is_document {
        true => Some(body.to_vec()),
        false => query_pairs(body)
            .find(|(name, _)| *name == b"logoutRequest")
            .map(|(_, value)| percent_decode(value.unwrap_or_default(), true)),
    };
    let document = document.and_then(|document| String::from_utf8(document).ok());
    let elements = document.and_then(|document| elements(&document).ok()).unwrap_or_default();
    let indexes = elements.into_iter().filter(|element| {
        // Whatever its namespace: not every server declares it, and a session that ends grants nothing.
        element.path.rsplit('/').next() == Some("SessionIndex")
    });
    indexes.map(|element| element.text.trim().to_owned()).filter(|ticket| !ticket.is_empty()).collect()
}

struct Element {
    /// Local names from the root on, each behind a slash.
    path: String,
    /// It and all around it are in CAS's namespace.
    is_of_cas: bool,
    /// Without that of its children.
    text: String,
}

/// What servers write for the namespace of CAS, even where they do not declare it.
const PREFIX: &str = "cas";

const INVALID: &str = "a document is not XML";

/// All elements of a whole document. One that declares its type is none: what a reference stands for must not be up to it.
fn elements(document: &str) -> Result<Vec<Element>, &'static str> {
    let mut reader = NsReader::from_str(document.trim_start_matches('\u{feff}'));
    reader.config_mut().expand_empty_elements = true;
    let (mut open, mut found): (Vec<Element>, Vec<Element>) = (Vec::new(), Vec::new());
    loop {
        let (namespace, event) = reader.read_resolved_event().map_err(|_| INVALID)?;
        // Not every server declares the prefix.
        let is_of_cas = match &namespace {
            ResolveResult::Bound(namespace) => *namespace == Namespace(NAMESPACE),
            ResolveResult::Unknown(prefix) => &prefix[..] == PREFIX,
            ResolveResult::Unbound => false,
        };
        match event {
            Event::Start(tag) => {
                let is_second_root = open.is_empty() && !found.is_empty();
                if is_second_root || open.len() >= MAX_DEPTH || open.len() + found.len() >= MAX_ELEMENTS {
                    return Err(INVALID);
                }
                let above = open.last().map_or("", |element| element.path.as_str());
                let path = format!("{above}/{}", tag.local_name().into_inner());
                let is_of_cas = is_of_cas && open.last().is_none_or(|element| element.is_of_cas);
                open.push(Element { path, is_of_cas, text: String::new() });
            }
            Event::End(_) => found.extend(open.pop()),
            Event::Text(text) => add(&mut open, &text.into_inner())?,
            Event::GeneralRef(name) => add(&mut open, &format!("&{};", name.into_inner()))?,
            Event::CData(section) => add(&mut open, &section.into_inner().replace('&', "&amp;"))?,
            Event::DocType(_) => return Err("a document declares its type"),
            Event::Eof => break,
            _ => {}
        }
    }
    if !open.is_empty() || found.is_empty() {
        return Err(INVALID);
    }
    for element in &mut found {
        element.text = unescape(&element.text).map_err(|_| INVALID)?.into_owned();
    }
    Ok(found)
}

fn add(open: &mut [Element], text: &str) -> Result<(), &'static str> {
    match open.last_mut() {
        Some(element) => element.text.push_str(text),
        // Around the root there is white space alone.
        None if text.trim().is_empty() => {}
        None => return Err(INVALID),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn response(inner: &str) -> String {
        format!("<cas:serviceResponse xmlns:cas='http://www.yale.edu/tp/cas'>{inner}</cas:serviceResponse>")
    }

    fn success(user: &str) -> String {
        response(&format!("<cas:authenticationSuccess>{user}</cas:authenticationSuccess>"))
    }

    #[test]
    fn users() {
        for (answer, expected) in [
            (success("<cas:user> a&amp;b </cas:user>"), Some("a&b")),
            (
                success("<cas:user>a<!-- x -->b</cas:user><cas:attributes><cas:x>1</cas:x></cas:attributes>"),
                Some("ab"),
            ),
            (success("<cas:user><![CDATA[a&b]]></cas:user>"), Some("a&b")),
            (success("<cas:user></cas:user>"), None),
            (success("<cas:user/>"), None),
            (success("<cas:user>a</cas:user><cas:user>b</cas:user>"), None),
            (success("<cas:x><cas:user>a</cas:user></cas:x>"), None),
            (success("<cas:user>&x;</cas:user>"), None),
            (response("<cas:authenticationFailure code='x'>no</cas:authenticationFailure>"), None),
            (
                response(
                    "<cas:authenticationFailure>\
                     <cas:authenticationSuccess><cas:user>a</cas:user></cas:authenticationSuccess>\
                     </cas:authenticationFailure>",
                ),
                None,
            ),
            (
                response(
                    "<cas:authenticationFailure/>\
                     <cas:authenticationSuccess><cas:user>a</cas:user></cas:authenticationSuccess>",
                ),
                None,
            ),
            (format!("<!DOCTYPE x [<!ENTITY x 'a'>]>{}", success("<cas:user>&x;</cas:user>")), None),
            (format!("{}{}", response(""), success("<cas:user>a</cas:user>")), None),
            (
                "<!-- <cas:authenticationSuccess><cas:user>a</cas:user></cas:authenticationSuccess> -->"
                    .to_owned(),
                None,
            ),
            (success("<cas:user>a</cas:user>").replace("</cas:serviceResponse>", ""), None),
            (format!("<html>{}</html>", success("<cas:user>a</cas:user>")), None),
            (String::new(), None),
            (format!("{} and more", success("<cas:user>a</cas:user>")), None),
            (format!("\n{}\n", success("<cas:user>a</cas:user>")), Some("a")),
            (success("<cas:user>a</cas:user>").replace("cas:", "c:").replace(":cas=", ":c="), Some("a")),
            (success("<cas:user>a</cas:user>").replace("cas:", "").replace(":cas=", "="), Some("a")),
            (success("<cas:user>a</cas:user>").replace("/tp/cas", "/tp/other"), None),
            (success("<cas:user>a</cas:user>").replace(" xmlns:cas='http://www.yale.edu/tp/cas'", ""), Some("a")),
            ("<c:serviceResponse><c:authenticationSuccess><c:user>a</c:user></c:authenticationSuccess></c:serviceResponse>".to_owned(), None),
            (success("<user>a</user>"), None),
        ] {
            assert_eq!(user(&answer).ok().as_deref(), expected, "{answer}");
        }
        let deep = "<a>".repeat(100_000);
        assert!(user(&deep).is_err());
        assert!(user(&success(&"<a/>".repeat(100_000))).is_err());
    }

    #[test]
    fn tickets_of_logouts() {
        let document =
            "<samlp:LogoutRequest ID='1'><samlp:SessionIndex>ST-1</samlp:SessionIndex></samlp:LogoutRequest>";
        let form = format!("x=1&logoutRequest={}", tidegate_protocol::uri::encoded_component(document));
        for (body, expected) in [
            (document, vec!["ST-1"]),
            (form.as_str(), vec!["ST-1"]),
            ("<samlp:SessionIndex>ST-2</samlp:SessionIndex>", vec!["ST-2"]),
            ("<samlp:SessionIndex></samlp:SessionIndex>", vec![]),
            ("<samlp:SessionIndex>ST-3", vec![]),
            ("", vec![]),
            ("logoutRequest=", vec![]),
        ] {
            assert_eq!(tickets(body.as_bytes()), expected, "{body}");
        }
    }
}
