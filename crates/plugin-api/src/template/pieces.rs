//! Texts cut at their references, `$name` and `${…}`. Each form of text defines its own names.

/// A part of a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Piece<'a, R> {
    /// Up to the next reference.
    Literal(&'a str),
    /// What the caller's function made of a reference.
    Reference(R),
}

/// `reference` gets the text from a `$` on. It returns the reference there and its length in bytes; `None`: the `$` is an
/// ordinary character. With `escapes`, so is a `\$`, which stays unchanged.
pub fn cut<R, E>(
    text: &str,
    escapes: bool,
    mut reference: impl FnMut(&str) -> Result<Option<(R, usize)>, E>,
) -> Result<Vec<Piece<'_, R>>, E> {
    let mut pieces = Vec::new();
    // `text` is what is left, and the next `$` is looked for behind its first `from` bytes.
    let (mut text, mut from) = (text, 0);
    while let Some(dollar) = text.get(from..).and_then(|rest| rest.find('$')).map(|at| from + at) {
        let (before, rest) = text.split_at(dollar);
        let found = if escapes && before.ends_with('\\') { None } else { reference(rest)? };
        match found {
            Some((found, length)) => {
                literal(&mut pieces, before);
                pieces.push(Piece::Reference(found));
                text = rest.get(length..).unwrap_or_default();
                from = 0;
            }
            None => from = dollar + 1,
        }
    }
    literal(&mut pieces, text);
    Ok(pieces)
}

fn literal<'a, R>(pieces: &mut Vec<Piece<'a, R>>, text: &'a str) {
    if !text.is_empty() {
        pieces.push(Piece::Literal(text));
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use super::*;

    #[test]
    fn pieces_in_their_order() {
        // `$x` is a reference, and nothing else.
        let cut = |text, escapes| {
            let Ok(pieces) =
                cut::<_, Infallible>(text, escapes, |rest| Ok(rest.starts_with("$x").then_some(('x', 2))));
            pieces
        };
        let (x, literal) = (Piece::Reference('x'), Piece::Literal);
        assert_eq!(cut("", true), []);
        assert_eq!(cut("a$", true), [literal("a$")]);
        assert_eq!(cut("$x$x", true), [x.clone(), x.clone()]);
        assert_eq!(cut("é$y$xé", true), [literal("é$y"), x.clone(), literal("é")]);
        assert_eq!(cut(r"\$x$x", true), [literal(r"\$x"), x.clone()]);
        assert_eq!(cut(r"$x\$x", false), [x.clone(), literal(r"\"), x]);
    }
}
