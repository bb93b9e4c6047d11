//! nginx's `log_format`: names of letters, digits and `_`. A `$` that begins no name is an error, and so is an open brace.

use std::fmt;

/// Why a format does not compile.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FormatError {
    /// A `$` that no name follows.
    MissingName {
        /// In bytes.
        offset: usize,
    },
    /// A `${` without its `}`.
    Unclosed {
        /// In bytes.
        offset: usize,
    },
}

impl fmt::Display for FormatError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::MissingName { offset } => {
                write!(f, "log format: no variable name after \"$\" at byte {offset}")
            }
            Self::Unclosed { offset } => {
                write!(f, "log format: \"${{\" at byte {offset} needs a closing \"}}\"")
            }
        }
    }
}

impl std::error::Error for FormatError {}

/// The name that `text`, which begins with `$`, begins with, and the length of the reference. `offset` is where it is.
pub(super) fn name(text: &str, offset: usize) -> Result<(&str, usize), FormatError> {
    let open = if text.starts_with("${") { 2 } else { 1 };
    let inner = text.get(open..).unwrap_or_default();
    let length = inner.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(inner.len());
    let (name, rest) = inner.split_at(length);
    let closed = open == 1 || rest.starts_with('}');
    match (closed, name.is_empty()) {
        (false, _) => Err(FormatError::Unclosed { offset }),
        (true, true) => Err(FormatError::MissingName { offset }),
        (true, false) => Ok((name, open + length + (open - 1))),
    }
}

#[cfg(test)]
mod tests {
    use crate::{Template, Variable};

    use super::*;

    #[test]
    fn names_and_what_is_none() {
        let names = |format| -> Result<Vec<Variable>, FormatError> {
            let template = Template::compile_log_format(format, Variable::resolve)?;
            Ok(template.variables().cloned().collect())
        };
        let variables = |names: &[&str]| Ok(names.iter().copied().map(Variable::resolve).collect());
        assert_eq!(names("[$status] ${status}x $host.b"), variables(&["status", "status", "host"]));
        assert_eq!(names(r"\$status"), variables(&["status"]));
        assert_eq!(names("none"), variables(&[]));
        assert_eq!(names("a $"), Err(FormatError::MissingName { offset: 2 }));
        assert_eq!(names("a $- b"), Err(FormatError::MissingName { offset: 2 }));
        assert_eq!(names("${}"), Err(FormatError::MissingName { offset: 0 }));
        assert_eq!(names("x${status"), Err(FormatError::Unclosed { offset: 1 }));
    }
}
