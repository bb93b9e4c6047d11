//! Texts with variables: `$name`, `${name}`, `${name ?? default}`; `\$` is not a reference, and stays as it is written.

mod render;

use crate::Variable;

#[derive(Clone, Debug)]
enum Part {
    Literal(Box<[u8]>),
    Variable { variable: Variable, default: Option<Box<[u8]>> },
}

/// A text compiled once and rendered per request.
#[derive(Clone, Debug, Default)]
pub struct Template {
    parts: Vec<Part>,
}

impl Template {
    pub fn compile(text: &str) -> Template {
        Template::with(text, reference)
    }

    /// The form of plugin `redirect`: no defaults, and a dot ends a name, as in `https://$host.example.org`.
    pub fn compile_simple(text: &str) -> Template {
        Template::with(text, simple_reference)
    }

    fn with(text: &str, reference: fn(&str) -> Option<Reference<'_>>) -> Template {
        // A reference to a secret that leads nowhere stays as text: `$env` in it is not a variable.
        if tidegate_model::schema::is_secret_reference(text) {
            return Template { parts: vec![Part::Literal(text.as_bytes().into())] };
        }
        let mut parts = Vec::new();
        let mut literal = Vec::new();
        let bytes = text.as_bytes();
        let mut at = 0;
        // Behind the last brace nothing closes a name, so that none is looked for once for each `${`.
        let last = text.rfind('}').unwrap_or(0);
        while let Some(&byte) = bytes.get(at) {
            let rest = &text[at..];
            if byte == b'\\' && bytes.get(at + 1) == Some(&b'$') {
                literal.extend_from_slice(b"\\$");
                at += 2;
            } else if let Some((variable, default, used)) = (byte == b'$'
                && (at < last || bytes.get(at + 1) != Some(&b'{')))
            .then(|| reference(rest))
            .flatten()
            {
                if !literal.is_empty() {
                    parts.push(Part::Literal(std::mem::take(&mut literal).into()));
                }
                parts.push(Part::Variable { variable: Variable::resolve(variable), default });
                at += used;
            } else {
                // Copy one whole character, so that slicing stays on boundaries.
                let width = rest.chars().next().map_or(1, char::len_utf8);
                literal.extend_from_slice(&bytes[at..at + width]);
                at += width;
            }
        }
        if !literal.is_empty() {
            parts.push(Part::Literal(literal.into()));
        }
        Template { parts }
    }

    /// The text when there is no variable in it.
    pub fn literal(&self) -> Option<&[u8]> {
        match self.parts.as_slice() {
            [] => Some(b""),
            [Part::Literal(text)] => Some(text),
            _ => None,
        }
    }

    pub fn has_variables(&self) -> bool {
        self.literal().is_none()
    }

    pub fn variables(&self) -> impl Iterator<Item = &Variable> {
        self.parts.iter().filter_map(|part| match part {
            Part::Variable { variable, .. } => Some(variable),
            Part::Literal(_) => None,
        })
    }
}

/// Name, default and length of a variable reference.
type Reference<'a> = (&'a str, Option<Box<[u8]>>, usize);

/// The reference that `text` starts with.
fn reference(text: &str) -> Option<Reference<'_>> {
    let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.');
    if let Some(inner) = text.strip_prefix("${") {
        let end = inner.find('}')?;
        let body = &inner[..end];
        let (name, default) = match body.split_once("??") {
            Some((name, default)) => (name.trim(), Some(default.trim().as_bytes().into())),
            None => (body.trim(), None),
        };
        let valid =
            !name.is_empty() && name.chars().all(|c| is_name(c) || matches!(c, '-' | '[' | ']' | '*'));
        return valid.then_some((name, default, end + 3));
    }
    plain_reference(text, is_name)
}

fn simple_reference(text: &str) -> Option<Reference<'_>> {
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    if let Some(inner) = text.strip_prefix("${") {
        let name = &inner[..inner.find('}')?];
        return (!name.is_empty() && name.chars().all(is_name)).then_some((name, None, name.len() + 3));
    }
    plain_reference(text, is_name)
}

fn plain_reference(text: &str, is_name: impl Fn(char) -> bool) -> Option<Reference<'_>> {
    let name = &text[1..];
    let length = name.find(|c: char| !is_name(c)).unwrap_or(name.len());
    (length > 0).then(|| (&name[..length], None, length + 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_a_text() {
        let cases: &[(&str, usize, Option<&str>)] = &[
            ("plain", 0, Some("plain")),
            ("", 0, Some("")),
            (r"\$uri", 0, Some(r"\$uri")),
            ("5$", 0, Some("5$")),
            ("$uri", 1, None),
            ("a${arg_x ?? none}b$host", 2, None),
            ("${}", 0, Some("${}")),
            ("é$uri é", 1, None),
        ];
        for (text, variables, literal) in cases {
            let template = Template::compile(text);
            assert_eq!(template.variables().count(), *variables, "{text}");
            assert_eq!(template.literal(), literal.map(str::as_bytes), "{text}");
        }
    }
}
