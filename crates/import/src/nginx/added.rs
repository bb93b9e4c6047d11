//! Fields of answers: `add_header`, `expires` and `proxy_hide_header` as plugin response-rewrite.
//!
//! Without `always` nginx adds a field to some statuses only, and so it does with what `expires` says. The plugin has one condition for
//! all that it does: where both kinds stand together, and the status is not known at import, fields go to errors too, except those
//! with which errors would be kept for longer.

use serde_json::{Map, Value, json};

use super::{
    chain::Chain,
    made::Made,
    time::time,
    variables::{Variables, in_templates},
};
use crate::{At, Report};

/// Without `always` nginx adds fields to these only.
const GOOD: [&str; 10] = ["200", "201", "204", "206", "301", "302", "303", "304", "307", "308"];

const CACHE_CONTROL: &str = "Cache-Control";

struct Field<'a> {
    at: &'a At,
    name: &'a str,
    value: String,
    always: bool,
}

impl Field<'_> {
    fn is(&self, name: &str) -> bool {
        self.name.eq_ignore_ascii_case(name)
    }

    /// Whether it says how long an answer may be kept.
    fn is_about_caches(&self) -> bool {
        ["Cache-Control", "Expires", "Surrogate-Control", "CDN-Cache-Control"]
            .iter()
            .any(|name| self.is(name))
    }

    fn has_any(&self, words: &[&str]) -> bool {
        let value = self.value.to_ascii_lowercase();
        words.iter().any(|word| value.contains(word))
    }
}

/// What `expires` comes to.
struct Expires<'a> {
    at: &'a At,
    date: Option<&'static str>,
    control: String,
}

/// `status`: that of the answer, where it is known.
pub(super) fn headers(
    chain: &Chain,
    variables: &Variables,
    status: Option<u16>,
    plugins: &mut Map<String, Value>,
    report: &mut Report,
) -> Made<()> {
    let mut fields = given(chain, variables)?;
    let hidden: Vec<&str> = chain.all("proxy_hide_header").iter().map(|header| header.argument(0)).collect();
    chain.take(&["proxy_pass_header"]);
    let mut expires = expires(chain, report);
    let is_for_all = !hidden.is_empty() || fields.iter().any(|field| field.always);
    let is_mixed = is_for_all && (expires.is_some() || fields.iter().any(|field| !field.always));
    match status.filter(|_| is_mixed && chain.one("error_page").is_none()) {
        Some(status) if GOOD.contains(&status.to_string().as_str()) => {}
        Some(_) => {
            fields.retain(|field| field.always);
            expires = None;
        }
        None if is_mixed => on_errors_too(&mut fields, &mut expires, report),
        None => {}
    }
    let mut edits = edits(fields, expires, report);
    if !hidden.is_empty() {
        edits.insert("remove".to_owned(), json!(hidden));
    }
    if edits.is_empty() {
        return Ok(());
    }
    let mut conf = Map::from_iter([("headers".to_owned(), Value::Object(edits))]);
    if !is_for_all {
        conf.insert("vars".to_owned(), json!([["status", "in", GOOD]]));
    }
    plugins.insert("response-rewrite".to_owned(), conf.into());
    Ok(())
}

/// The fields of `add_header`.
fn given<'a>(chain: &Chain<'a>, variables: &Variables) -> Made<Vec<Field<'a>>> {
    let mut fields = Vec::new();
    for header in chain.all("add_header") {
        let value = in_templates(&variables.text(header.argument(1))?);
        // nginx sends no field without a value.
        if !value.is_empty() {
            let always = header.argument(2) == "always";
            fields.push(Field { at: &header.at, name: header.argument(0), value, always });
        }
    }
    Ok(fields)
}

/// Leaves what may be on answers of errors, where nginx does not send it.
fn on_errors_too(fields: &mut Vec<Field>, expires: &mut Option<Expires>, report: &mut Report) {
    const BESIDE: &str = "beside one with `always`, or `proxy_hide_header`,";
    fields.retain_mut(|field| {
        if field.always {
            return true;
        }
        let is_short = !field.is_about_caches()
            || field.has_any(&["no-store", "no-cache"])
            || (field.has_any(&["private"]) && !field.has_any(&["max-age", "s-maxage"]));
        if !is_short && field.has_any(&["private"]) {
            let how = format!("{BESIDE} it is added to answers of errors too, as `private` alone");
            report.approximated(field.at, "add_header", &how);
            "private".clone_into(&mut field.value);
        } else if !is_short {
            let how = format!("{BESIDE} `{}` is on no answer: errors would be kept as well", field.name);
            report.unsupported(field.at, "add_header", &how);
            return false;
        } else {
            report.approximated(
                field.at,
                "add_header",
                &format!("{BESIDE} it is added to answers of errors too"),
            );
        }
        true
    });
    if let Some(own) = &expires {
        if own.control == NO_CACHE {
            let how = "beside `add_header` with `always`, or `proxy_hide_header`, errors say `no-cache` too";
            report.approximated(own.at, "expires", how);
        } else {
            let how = "beside `add_header` with `always`, or `proxy_hide_header`, no answer has its Expires and \
                       Cache-Control: errors would be kept as well";
            report.unsupported(own.at, "expires", how);
            *expires = None;
        }
    }
}

/// `add` and `set` of the plugin. What it sets replaces what it adds.
fn edits(fields: Vec<Field>, expires: Option<Expires>, report: &mut Report) -> Map<String, Value> {
    let (mut add, mut set) = (Vec::new(), Map::new());
    let mut controls = Vec::new();
    let has_expires = expires.is_some();
    if let Some(Expires { at, date, control }) = expires {
        match date {
            Some(date) => _ = set.insert("Expires".to_owned(), date.into()),
            None => report.approximated(at, "expires", "Cache-Control without Expires"),
        }
        controls.push(control);
    }
    for field in fields {
        if has_expires && field.is(CACHE_CONTROL) {
            // nginx sends a second line, which means the same.
            controls.push(field.value);
        } else if set.contains_key("Expires") && field.is("Expires") {
            report.unsupported(field.at, "add_header", "`expires` has the field as well");
        } else if field.value.contains(':') || field.value.ends_with('/') {
            // The plugin's form for adding, `name: value`, has no room for these.
            report.approximated(field.at, "add_header", "it replaces a field of the same name");
            set.insert(field.name.to_owned(), field.value.into());
        } else {
            add.push(format!("{}: {}", field.name, field.value));
        }
    }
    if !controls.is_empty() {
        set.insert(CACHE_CONTROL.to_owned(), controls.join(", ").into());
    }
    let mut edits = Map::new();
    if !add.is_empty() {
        edits.insert("add".to_owned(), add.into());
    }
    if !set.is_empty() {
        edits.insert("set".to_owned(), set.into());
    }
    edits
}

const NO_CACHE: &str = "no-cache";

fn expires<'a>(chain: &Chain<'a>, report: &mut Report) -> Option<Expires<'a>> {
    let expires = chain.one("expires")?;
    let word = expires.argument(0);
    let (date, control) = match word {
        "off" => return None,
        "epoch" => (Some("Thu, 01 Jan 1970 00:00:01 GMT"), NO_CACHE.to_owned()),
        "max" => (Some("Thu, 31 Dec 2037 23:55:55 GMT"), "max-age=315360000".to_owned()),
        _ => match time(word.trim_start_matches('-')).filter(|_| expires.arguments.len() == 1) {
            Some(_) if word.starts_with('-') => (None, NO_CACHE.to_owned()),
            Some(seconds) => (None, format!("max-age={seconds:.0}")),
            None => {
                report.unsupported(&expires.at, "expires", "no Expires and Cache-Control are added");
                return None;
            }
        },
    };
    Some(Expires { at: &expires.at, date, control })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nginx::{chain::Kind, parse::parse};

    /// The plugin's configuration, and what the report says.
    fn converted(text: &str, status: Option<u16>) -> (Value, String) {
        let block = parse(text, None).expect("a block");
        let chain = Chain::new(&[(Kind::Location, &block)]);
        let (mut plugins, mut report) = (Map::new(), Report::default());
        headers(&chain, &Variables::default(), status, &mut plugins, &mut report).expect("converted");
        (plugins.remove("response-rewrite").unwrap_or_default(), report.text("f"))
    }

    #[test]
    fn errors_are_not_kept_for_longer() {
        let always = "add_header X-A 1 always;";
        let (conf, said) = converted(&format!("expires 30d; {always}"), None);
        assert_eq!(conf, json!({"headers": {"add": ["X-A: 1"]}}));
        assert!(said.contains("f:1: not supported: expires: beside"), "{said}");
        let (conf, said) = converted(&format!("expires epoch; {always}"), None);
        assert_eq!(conf["headers"]["set"]["Cache-Control"], "no-cache");
        assert!(said.contains("approximated: expires: beside"), "{said}");
        for (value, sent) in [
            ("public", None),
            ("max-age=60", None),
            ("$cookie_a", None),
            ("no-store, max-age=60", Some("no-store, max-age=60")),
            ("private", Some("private")),
            ("private, max-age=60", Some("private")),
        ] {
            let (conf, said) = converted(&format!("add_header cache-control \"{value}\"; {always}"), None);
            let first = conf["headers"]["add"][0].as_str().unwrap_or_default();
            assert_eq!(first.strip_prefix("cache-control: "), sent, "{value}: {conf}");
            assert!(!said.contains(" 0 approximated, 0 closed, 0 not supported"), "{said}");
        }
        let (conf, said) = converted("expires 1h; proxy_hide_header X-P; add_header X-B 2;", None);
        assert_eq!(conf, json!({"headers": {"add": ["X-B: 2"], "remove": ["X-P"]}}));
        assert!(said.contains("approximated: add_header: beside"), "{said}");
    }

    #[test]
    fn a_known_status_has_what_nginx_adds() {
        let text = "expires 1h; add_header X-A 1 always; add_header X-B 2;";
        let (conf, _) = converted(text, Some(200));
        assert_eq!(
            conf,
            json!({"headers": {"add": ["X-A: 1", "X-B: 2"], "set": {"Cache-Control": "max-age=3600"}}})
        );
        let (conf, said) = converted(text, Some(403));
        assert_eq!(conf, json!({"headers": {"add": ["X-A: 1"]}}));
        assert!(said.contains(" 0 approximated, 0 closed, 0 not supported"), "{said}");
    }

    #[test]
    fn an_added_cache_control_stands_beside_that_of_expires() {
        let (conf, _) = converted("expires 7d; add_header Cache-Control public; add_header X-B 2;", None);
        let edits = json!({"add": ["X-B: 2"], "set": {"Cache-Control": "max-age=604800, public"}});
        assert_eq!(conf, json!({"headers": edits, "vars": [["status", "in", GOOD]]}));
    }
}
