//! Messages of syslog, as RFC 5424 has them.

use std::fmt::Write;

use tidegate_telemetry::clock::{self, RFC3339};

#[derive(Clone, Copy, Debug)]
pub(crate) enum Facility {
    User = 1,
    Syslog = 5,
}

/// In the order of their numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Severity {
    Emergency,
    Alert,
    Critical,
    Error,
    Warning,
    Notice,
    Informational,
    Debug,
}

impl Severity {
    /// Of a name in a configuration, in capitals or small letters. `EMEGR` is how APISIX spells it.
    pub(crate) fn named(name: &str) -> Option<Severity> {
        match name.to_ascii_uppercase().as_str() {
            "EMEGR" => Some(Severity::Emergency),
            "ALERT" => Some(Severity::Alert),
            "CRIT" => Some(Severity::Critical),
            "ERR" => Some(Severity::Error),
            "WARNING" => Some(Severity::Warning),
            "NOTICE" => Some(Severity::Notice),
            "INFO" => Some(Severity::Informational),
            "DEBUG" => Some(Severity::Debug),
            _ => None,
        }
    }
}

/// A message of this process about a request to `host`. `data` are structured data: see [`element`].
pub(crate) fn message(facility: Facility, severity: Severity, host: &str, data: &str, text: &str) -> String {
    let priority = facility as u8 * 8 + severity as u8;
    let now = clock::utc(clock::unix_ms(), RFC3339);
    let host = if host.is_empty() { "-" } else { host };
    format!("<{priority}>1 {now} {host} apisix {} - {data} {text}", std::process::id())
}

/// Where there are no structured data.
pub(crate) const NO_DATA: &str = "-";

/// An element of structured data: `[id name="value" …]`.
pub(crate) fn element<'a>(id: &str, parameters: impl IntoIterator<Item = (&'a str, &'a str)>) -> String {
    let mut text = format!("[{id}");
    for (name, value) in parameters {
        let _ = write!(text, " {name}=\"");
        for letter in value.chars() {
            // Section 6.3.3.
            if matches!(letter, '"' | '\\' | ']') {
                text.push('\\');
            }
            text.push(letter);
        }
        text.push('"');
    }
    text.push(']');
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn form_of_a_message() {
        let message = message(Facility::Syslog, Severity::Informational, "h", NO_DATA, "{}");
        let parts: Vec<&str> = message.split(' ').collect();
        assert_eq!(
            (parts[0], parts[2], parts[3], parts[5], parts[6], parts[7]),
            ("<46>1", "h", "apisix", "-", "-", "{}")
        );
        assert!(parts[1].ends_with('Z') && parts[1].len() == 24, "{message}");
    }

    #[test]
    fn values_of_elements_are_escaped() {
        assert_eq!(element("a@1", [("b", "c"), ("d", r#"e"]\"#)]), r#"[a@1 b="c" d="e\"\]\\"]"#);
        assert_eq!(element("a@1", []), "[a@1]");
    }

    #[test]
    fn names_of_severities() {
        assert_eq!(Severity::named("crit"), Some(Severity::Critical));
        assert_eq!(Severity::named("EMEGR").map(|severity| severity as u8), Some(0));
        assert_eq!(Severity::named("loud"), None);
    }
}
