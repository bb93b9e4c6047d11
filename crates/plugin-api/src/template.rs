//! Texts with variables: `$name`, `${name}`, `${name ?? default}`; `\$` is not a reference, and stays unchanged.
//!
//! Forms that know other references ([`Template::compile_simple`], [`Template::compile_log_format`]) are cut by the same
//! [`pieces`]; ADR 41 has the differences.

mod log_format;
pub mod pieces;
mod render;

use std::convert::Infallible;

pub use log_format::FormatError;
use pieces::{Piece, cut};

use crate::Variable;

/// A part of a compiled text.
#[derive(Clone, Debug)]
pub enum Part {
    /// As written.
    Literal(Box<[u8]>),
    /// Looked up for each request.
    Variable {
        /// Its value, in full.
        variable: Variable,
        /// In place of a value that is not there.
        default: Option<Box<[u8]>>,
    },
}

/// A text compiled once and rendered per request.
#[derive(Clone, Debug, Default)]
pub struct Template {
    parts: Vec<Part>,
}

impl Template {
    /// Takes `$name`, `${name}` and `${name ?? default}`; what is none of them stays as it is written.
    pub fn compile(text: &str) -> Template {
        Template::with(text, reference)
    }

    /// The form of plugin `redirect`: no defaults, and a dot ends a name, as in `https://$host.example.org`.
    pub fn compile_simple(text: &str) -> Template {
        Template::with(text, simple_reference)
    }

    /// An nginx `log_format`. `resolve` turns a name into a variable.
    pub fn compile_log_format(
        text: &str,
        resolve: impl Fn(&str) -> Variable,
    ) -> Result<Template, FormatError> {
        let pieces = cut(text, false, |rest| {
            let (name, length) = log_format::name(rest, text.len() - rest.len())?;
            Ok(Some((Part::Variable { variable: resolve(name), default: None }, length)))
        })?;
        Ok(Template::of(pieces))
    }

    fn with(text: &str, reference: fn(&str) -> Option<Reference<'_>>) -> Template {
        // A reference to a secret that leads nowhere stays as text: `$env` in it is not a variable.
        if tidegate_model::schema::is_secret_reference(text) {
            return Template { parts: vec![Part::Literal(text.as_bytes().into())] };
        }
        // After the last brace no name is closed: remembered, so that each `${` does not search for one.
        let last = text.rfind('}').unwrap_or(0);
        let Ok(pieces) = cut::<_, Infallible>(text, true, |rest| {
            let may_be_one = text.len() - rest.len() < last || !rest.starts_with("${");
            let found = may_be_one.then(|| reference(rest)).flatten();
            Ok(found.map(|(name, default, length)| {
                (Part::Variable { variable: Variable::of_text(name), default }, length)
            }))
        });
        Template::of(pieces)
    }

    fn of(pieces: Vec<Piece<'_, Part>>) -> Template {
        let part = |piece| match piece {
            Piece::Literal(text) => Part::Literal(text.as_bytes().into()),
            Piece::Reference(part) => part,
        };
        Template { parts: pieces.into_iter().map(part).collect() }
    }

    /// In order.
    pub fn parts(&self) -> &[Part] {
        &self.parts
    }

    /// The text when there is no variable in it.
    pub fn literal(&self) -> Option<&[u8]> {
        match self.parts.as_slice() {
            [] => Some(b""),
            [Part::Literal(text)] => Some(text),
            _ => None,
        }
    }

    /// Those in it, in order; one that occurs twice comes twice.
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
