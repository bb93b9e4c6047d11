//! Texts of templates for a request.

use std::borrow::Cow;

use tidegate_telemetry::{
    error_log::{self, Level},
    limiter::Limiter,
};

use super::{Part, Template};
use crate::{
    Request, Variable,
    location::{self, Location, Origin},
    uri_text::Kind,
    variables::Named,
};

/// Total bytes that values of variables may add to one text: a template may name a client's header many times.
const MAX_VALUE_BYTES: usize = 1 << 20;

impl Template {
    /// Appends the text; returns how many variables had a value or a default. Values beyond [`MAX_VALUE_BYTES`] are left out.
    pub fn render_into(&self, request: &Request, out: &mut Vec<u8>) -> usize {
        self.visit(request, |_, text| out.extend_from_slice(text))
    }

    /// As [`Template::render_into`], part by part: `write` gets each text, and the variable whose value it is.
    pub fn visit(&self, request: &Request, mut write: impl FnMut(Option<&Variable>, &[u8])) -> usize {
        let mut resolved = 0;
        let mut left = MAX_VALUE_BYTES;
        for part in &self.parts {
            match part {
                Part::Literal(text) => write(None, text),
                Part::Variable { variable, default } => match request.variable(variable) {
                    Some(value) => {
                        resolved += 1;
                        match left.checked_sub(value.len()) {
                            Some(rest) => {
                                left = rest;
                                write(Some(variable), &value);
                            }
                            None => left_out(variable, &mut left),
                        }
                    }
                    None => {
                        resolved += usize::from(default.is_some());
                        write(None, default.as_deref().unwrap_or_default());
                    }
                },
            }
        }
        resolved
    }

    /// The text as a `Location`, with the origin of each piece.
    pub fn location(&self, request: &Request) -> Location {
        let mut location = Location::of(request);
        for part in &self.parts {
            match part {
                Part::Literal(text) => location.push(Origin::Author, text),
                Part::Variable { variable, default } => match request.variable(variable) {
                    Some(_) if *variable == Variable::Named(Named::RequestUri) => {
                        location.push_target(request, request.head.query());
                    }
                    Some(path) if matches!(variable, Variable::Named(Named::Uri | Named::DocumentUri)) => {
                        location.push_uri(request, &path);
                    }
                    Some(value) => match (location::origin(variable), Kind::of(variable)) {
                        (Origin::Client, kind @ (Kind::Path | Kind::Value | Kind::Decoded)) => {
                            location.push_text(kind, &value)
                        }
                        (origin, _) => location.push(origin, &value),
                    },
                    None => location.push(Origin::Author, default.as_deref().unwrap_or_default()),
                },
            }
        }
        location
    }

    /// As [`Template::render`], without a copy where the text is the same for all requests.
    pub fn render_or_borrow(&self, request: &Request) -> Cow<'_, [u8]> {
        match self.parts.as_slice() {
            [] => Cow::Borrowed(&[]),
            [Part::Literal(text)] => Cow::Borrowed(text),
            _ => Cow::Owned(self.render(request)),
        }
    }

    /// With the values of this request; a variable without one gives nothing.
    pub fn render(&self, request: &Request) -> Vec<u8> {
        let mut out = Vec::new();
        self.render_into(request, &mut out);
        out
    }

    /// As [`Template::render`]; bytes that are not UTF-8 are replaced.
    pub fn render_string(&self, request: &Request) -> String {
        String::from_utf8_lossy(&self.render(request)).into_owned()
    }
}

fn left_out(variable: &Variable, left: &mut usize) {
    static LIMITER: Limiter = Limiter::new(1, 10_000);
    *left = 0;
    if LIMITER.pass().is_some() {
        error_log::log(
            Level::Warn,
            format_args!(
                "a text with {variable:?} and others would be larger than {MAX_VALUE_BYTES} bytes; the rest is left out"
            ),
        );
    }
}
