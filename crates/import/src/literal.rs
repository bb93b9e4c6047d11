//! How a text that another gateway sends as it is gets written in a field that has more signs here.

use tidegate_config::{
    is_secret_reference,
    yaml::{Content, Node},
};

/// For templates of plugins, in which `$name` is a variable: `$_` has no value, so that no name begins behind the dollar
/// sign. A reference to a secret stays one: it is what the import made of one.
pub(crate) fn in_template(text: &str) -> String {
    if is_secret_reference(text) {
        return text.to_owned();
    }
    let mut written = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('$') {
        written.push_str(before);
        written.push('$');
        // A dollar sign behind a backslash does not begin a variable; both stay.
        let begins = |next: char| next.is_ascii_alphanumeric() || matches!(next, '_' | '.' | '{');
        if after.starts_with(begins) && !before.ends_with('\\') {
            written.push_str("${_}");
        }
        rest = after;
    }
    written + rest
}

/// For replacements of regular expressions, in which `$1` is a group.
pub(crate) fn in_replacement(text: &str) -> String {
    text.replace('$', "$$")
}

/// Of a text at this place, which any field of a plugin or credential may get. The error says what is wrong with it.
pub(crate) fn require_plain(text: &str, line: usize, column: usize) -> Result<(), String> {
    match is_secret_reference(text) {
        true => Err(format!(
            "{line}:{column}: a text that begins with `$env://` or `$secret://` would be replaced by a secret here; it must \
             be another one"
        )),
        false => Ok(()),
    }
}

/// The same of all texts in it.
pub(crate) fn require_plain_texts(node: &Node) -> Result<(), String> {
    match &node.content {
        Content::Scalar { text, .. } => require_plain(text, node.line, node.column),
        Content::List(items) => items.iter().try_for_each(require_plain_texts),
        Content::Map(entries) => entries.iter().try_for_each(|entry| require_plain_texts(&entry.value)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dollar_signs_of_texts() {
        for (text, written) in [
            ("price 5$", "price 5$"),
            ("$5 $uri", "$${_}5 $${_}uri"),
            ("$${uri}", "$$${_}{uri}"),
            (r"\$uri$a", r"\$uri$${_}a"),
            ("$(a)", "$(a)"),
            ("$env:/x", "$${_}env:/x"),
            ("$ENV://NAME", "$ENV://NAME"),
        ] {
            assert_eq!(in_template(text), written, "{text}");
        }
    }
}
