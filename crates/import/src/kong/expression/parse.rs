//! The language of `expression`: comparisons of a field with a constant, joined by `&&`, `||` and parentheses, before which
//! may stand `!`.
//!
//! `||` binds tighter than `&&`, unlike in most languages: `a && b || c` is `a && (b || c)`.

use std::net::IpAddr;

use ipnet::IpNet;

#[derive(Debug, PartialEq)]
pub(super) enum Expression {
    All(Vec<Expression>),
    Any(Vec<Expression>),
    Not(Box<Expression>),
    Is(Comparison),
}

#[derive(Debug, PartialEq)]
pub(super) struct Comparison {
    pub field: String,
    /// Of several values one is enough.
    pub any: bool,
    pub lower: bool,
    pub operator: &'static str,
    pub constant: Constant,
}

#[derive(Debug, PartialEq)]
pub(super) enum Constant {
    Text(String),
    Number(i64),
    Network(String),
}

/// Longer ones before those they begin with.
const OPERATORS: [&str; 12] = ["==", "!=", "^=", "=^", ">=", "<=", "~", ">", "<", "not in", "in", "contains"];

const DEPTH: usize = 32;

pub(super) fn parse(text: &str) -> Result<Expression, String> {
    let mut parser = Parser { rest: text, depth: 0 };
    let expression = parser.expression()?;
    parser.space();
    if parser.rest.is_empty() { Ok(expression) } else { Err(parser.unexpected()) }
}

struct Parser<'a> {
    rest: &'a str,
    depth: usize,
}

impl<'a> Parser<'a> {
    fn space(&mut self) {
        self.rest = self.rest.trim_start();
    }

    fn take(&mut self, token: &str) -> bool {
        self.space();
        match self.rest.strip_prefix(token) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    fn need(&mut self, token: &str) -> Result<(), String> {
        if self.take(token) { Ok(()) } else { Err(self.unexpected()) }
    }

    fn unexpected(&self) -> String {
        let near: String = self.rest.trim_start().chars().take(20).collect();
        if near.is_empty() { "it ends too early".to_owned() } else { format!("`{near}` is not understood") }
    }

    fn expression(&mut self) -> Result<Expression, String> {
        let mut parts = vec![self.either()?];
        while self.take("&&") {
            parts.push(self.either()?);
        }
        Ok(if parts.len() == 1 { parts.remove(0) } else { Expression::All(parts) })
    }

    fn either(&mut self) -> Result<Expression, String> {
        let mut parts = vec![self.term()?];
        while self.take("||") {
            parts.push(self.term()?);
        }
        Ok(if parts.len() == 1 { parts.remove(0) } else { Expression::Any(parts) })
    }

    fn term(&mut self) -> Result<Expression, String> {
        let is_negated = self.take("!");
        if is_negated {
            self.need("(")?;
        } else if !self.take("(") {
            return Ok(Expression::Is(self.comparison()?));
        }
        self.depth += 1;
        if self.depth > DEPTH {
            return Err("too many parentheses inside of each other".to_owned());
        }
        let inner = self.expression()?;
        self.depth -= 1;
        self.need(")")?;
        Ok(if is_negated { Expression::Not(Box::new(inner)) } else { inner })
    }

    fn comparison(&mut self) -> Result<Comparison, String> {
        let (mut any, mut lower, mut open) = (false, false, 0);
        let field = loop {
            let word = self.word()?;
            match (word.as_str(), self.take("(")) {
                ("any", true) => any = true,
                ("lower", true) => lower = true,
                (_, true) => return Err(format!("`{word}(` is not understood")),
                (_, false) => break word,
            }
            open += 1;
        };
        for _ in 0..open {
            self.need(")")?;
        }
        self.space();
        let spaced = self.rest.strip_prefix("not").map(str::trim_start).filter(|rest| rest.starts_with("in"));
        if let Some(rest) = spaced {
            let constant = self.after(rest.strip_prefix("in").unwrap_or(rest))?;
            return Ok(Comparison { field, any, lower, operator: "not in", constant });
        }
        let operator = OPERATORS.into_iter().find(|operator| self.rest.starts_with(operator));
        let operator = operator.ok_or_else(|| self.unexpected())?;
        let constant = self.after(self.rest.strip_prefix(operator).unwrap_or_default())?;
        Ok(Comparison { field, any, lower, operator, constant })
    }

    fn after(&mut self, rest: &'a str) -> Result<Constant, String> {
        self.rest = rest;
        self.constant()
    }

    fn word(&mut self) -> Result<String, String> {
        self.space();
        let end = self.rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_' && c != '.');
        let (word, rest) = self.rest.split_at(end.unwrap_or(self.rest.len()));
        if !word.starts_with(|c: char| c.is_ascii_alphabetic()) {
            return Err(self.unexpected());
        }
        self.rest = rest;
        Ok(word.to_owned())
    }

    fn constant(&mut self) -> Result<Constant, String> {
        if self.take("r#\"") {
            let (text, rest) = self.rest.split_once("\"#").ok_or("a text does not end")?;
            self.rest = rest;
            return Ok(Constant::Text(text.to_owned()));
        }
        if self.take("\"") {
            return self.quoted();
        }
        let end = self.rest.find(|c: char| !c.is_ascii_hexdigit() && !":./-".contains(c));
        let (word, rest) = self.rest.split_at(end.unwrap_or(self.rest.len()));
        let is_network = word.parse::<IpAddr>().is_ok() || word.parse::<IpNet>().is_ok();
        let constant = match word.parse() {
            Ok(number) => Constant::Number(number),
            Err(_) if is_network => Constant::Network(word.to_owned()),
            Err(_) => return Err(self.unexpected()),
        };
        self.rest = rest;
        Ok(constant)
    }

    fn quoted(&mut self) -> Result<Constant, String> {
        let mut text = String::new();
        let mut letters = self.rest.chars();
        loop {
            let letter = letters.next().ok_or("a text does not end")?;
            match letter {
                '"' => break,
                '\\' => text.push(match letters.next() {
                    Some('n') => '\n',
                    Some('r') => '\r',
                    Some('t') => '\t',
                    Some(letter @ ('"' | '\\')) => letter,
                    _ => return Err("a text has an escape that is not known".to_owned()),
                }),
                letter => text.push(letter),
            }
        }
        self.rest = letters.as_str();
        Ok(Constant::Text(text))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_understood_is_named() {
        for (text, why) in [
            ("", "it ends too early"),
            ("http.path", "it ends too early"),
            ("http.path ==", "it ends too early"),
            ("http.path == \"/a", "a text does not end"),
            (r#"http.path == "\d""#, "a text has an escape that is not known"),
            ("http.path == /a", "`/a` is not understood"),
            ("upper(http.path) == \"/A\"", "`upper(` is not understood"),
            ("! a == 1", "`a == 1` is not understood"),
            ("a == 1 || ! b == 2", "`b == 2` is not understood"),
            ("(a == 1", "it ends too early"),
            ("a == 1)", "`)` is not understood"),
        ] {
            assert_eq!(parse(text), Err(why.to_owned()), "{text}");
        }
        assert!(parse(&"(".repeat(100_000)).is_err());
    }

    #[test]
    fn or_binds_tighter_than_and() {
        let is = |field: &str| {
            let (field, constant) = (field.to_owned(), Constant::Number(1));
            Expression::Is(Comparison { field, any: false, lower: false, operator: "==", constant })
        };
        use Expression::{All, Any, Not};
        assert_eq!(parse("a == 1 && b == 1 || c == 1"), Ok(All(vec![is("a"), Any(vec![is("b"), is("c")])])));
        assert_eq!(
            parse("a == 1 || b == 1 && !(c == 1)"),
            Ok(All(vec![Any(vec![is("a"), is("b")]), Not(Box::new(is("c")))]))
        );
    }

    #[test]
    fn all_forms_are_read() {
        let text = "any(lower(http.headers.a_b)) == r#\"x\"y\"# && (net.src.ip not  in 10.0.0.0/8 || net.dst.port >= 80)";
        let is = |field: &str, both: bool, operator, constant| {
            Expression::Is(Comparison { field: field.to_owned(), any: both, lower: both, operator, constant })
        };
        let wanted = Expression::All(vec![
            is("http.headers.a_b", true, "==", Constant::Text("x\"y".to_owned())),
            Expression::Any(vec![
                is("net.src.ip", false, "not in", Constant::Network("10.0.0.0/8".to_owned())),
                is("net.dst.port", false, ">=", Constant::Number(80)),
            ]),
        ]);
        assert_eq!(parse(text), Ok(wanted));
    }
}
