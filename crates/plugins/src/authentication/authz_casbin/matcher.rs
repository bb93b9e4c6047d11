//! The expression that says whether a rule is about a request.

use super::{
    functions::{Function, Pattern},
    model::Model,
};

/// A text that is compared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Text {
    /// By its number among the values of the request.
    Request(usize),
    /// By its number among the values of the rule.
    Policy(usize),
    Literal(String),
}

pub(super) enum Test {
    Any(Vec<Test>),
    All(Vec<Test>),
    Not(Box<Test>),
    Equal(Text, Text),
    /// With a pattern of each rule: the number among [`Matcher::per_rule`].
    Rule(Text, usize),
    Matches(Text, Pattern),
    /// Whether the first has the role of the second, by the number of the kind of roles.
    Role(usize, Vec<Text>),
    Constant(bool),
}

impl Test {
    /// Whether any part of it is about the values of a rule.
    pub(super) fn asks_rule(&self) -> bool {
        let is_of_rule = |text: &Text| matches!(text, Text::Policy(_));
        match self {
            Test::Any(tests) | Test::All(tests) => tests.iter().any(Test::asks_rule),
            Test::Not(test) => test.asks_rule(),
            Test::Equal(one, other) => is_of_rule(one) || is_of_rule(other),
            Test::Rule(..) => true,
            Test::Matches(text, _) => is_of_rule(text),
            Test::Role(_, texts) => texts.iter().any(is_of_rule),
            Test::Constant(_) => false,
        }
    }
}

pub(super) struct Matcher {
    pub(super) test: Test,
    /// Functions whose pattern is this value of a rule.
    pub(super) per_rule: Vec<(Function, usize)>,
}

const MAX_DEPTH: usize = 50;

#[derive(Clone, Debug, PartialEq)]
enum Token {
    Name(String),
    Text(String),
    Sign(&'static str),
}

pub(super) fn parse(model: &Model) -> Result<Matcher, String> {
    let tokens = tokens(&model.matcher)?;
    let mut parser = Parser { model, tokens: &tokens, depth: 0, per_rule: Vec::new() };
    let test = parser.any()?;
    match parser.tokens.first() {
        None => Ok(Matcher { test, per_rule: parser.per_rule }),
        Some(token) => Err(unexpected(token)),
    }
}

fn unexpected(token: &Token) -> String {
    format!("matchers: {} is not expected where it stands", shown(token))
}

fn shown(token: &Token) -> String {
    match token {
        Token::Name(name) => name.clone(),
        Token::Text(text) => format!("\"{text}\""),
        Token::Sign(sign) => (*sign).to_owned(),
    }
}

fn tokens(text: &str) -> Result<Vec<Token>, String> {
    const SIGNS: [&str; 9] = ["&&", "||", "==", "!=", "!", "(", ")", ",", "."];
    let mut found = Vec::new();
    let mut rest = text.trim_start();
    while let Some(first) = rest.chars().next() {
        let behind;
        if let Some(sign) = SIGNS.iter().find(|sign| rest.starts_with(**sign)) {
            found.push(Token::Sign(sign));
            behind = rest.get(sign.len()..);
        } else if first == '"' || first == '\'' {
            let inner = rest.get(1..).unwrap_or_default();
            let end = inner.find(first).ok_or("matchers: a text has no end")?;
            let (text, after) = inner.split_at(end);
            if text.contains('\\') {
                return Err("matchers: \\ in a text is not supported".to_owned());
            }
            found.push(Token::Text(text.to_owned()));
            behind = after.get(1..);
        } else {
            let is_name = |sign: char| sign.is_alphanumeric() || sign == '_';
            let end = rest.find(|sign| !is_name(sign)).unwrap_or(rest.len());
            if end == 0 {
                return Err(format!("matchers: {first} is not supported"));
            }
            let (name, after) = rest.split_at(end);
            found.push(Token::Name(name.to_owned()));
            behind = Some(after);
        }
        rest = behind.unwrap_or_default().trim_start();
    }
    Ok(found)
}

struct Parser<'a> {
    model: &'a Model,
    tokens: &'a [Token],
    depth: usize,
    per_rule: Vec<(Function, usize)>,
}

impl Parser<'_> {
    fn take(&mut self) -> Result<Token, String> {
        let (first, rest) = self.tokens.split_first().ok_or("matchers: the expression has no end")?;
        self.tokens = rest;
        Ok(first.clone())
    }

    fn takes(&mut self, sign: &str) -> bool {
        let is_there = matches!(self.tokens.first(), Some(Token::Sign(found)) if *found == sign);
        if is_there {
            self.tokens = self.tokens.get(1..).unwrap_or_default();
        }
        is_there
    }

    fn require(&mut self, sign: &str) -> Result<(), String> {
        if self.takes(sign) { Ok(()) } else { Err(format!("matchers: {sign} is missing")) }
    }

    fn any(&mut self) -> Result<Test, String> {
        let mut tests = vec![self.all()?];
        while self.takes("||") {
            tests.push(self.all()?);
        }
        Ok(if tests.len() == 1 { tests.remove(0) } else { Test::Any(tests) })
    }

    fn all(&mut self) -> Result<Test, String> {
        let mut tests = vec![self.one()?];
        while self.takes("&&") {
            tests.push(self.one()?);
        }
        Ok(if tests.len() == 1 { tests.remove(0) } else { Test::All(tests) })
    }

    fn one(&mut self) -> Result<Test, String> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err("matchers: the expression nests too deeply".to_owned());
        }
        let test = self.plain();
        self.depth -= 1;
        test
    }

    fn plain(&mut self) -> Result<Test, String> {
        if self.takes("!") {
            return Ok(Test::Not(Box::new(self.one()?)));
        }
        if self.takes("(") {
            let test = self.any()?;
            self.require(")")?;
            return Ok(test);
        }
        match self.tokens {
            [Token::Name(name), Token::Sign("("), rest @ ..] => {
                let name = name.clone();
                self.tokens = rest;
                return self.call(&name);
            }
            [Token::Name(name), rest @ ..] if name == "true" || name == "false" => {
                self.tokens = rest;
                return Ok(Test::Constant(name == "true"));
            }
            _ => {}
        }
        let left = self.text()?;
        match self.take()? {
            Token::Sign("==") => Ok(Test::Equal(left, self.text()?)),
            Token::Sign("!=") => Ok(Test::Not(Box::new(Test::Equal(left, self.text()?)))),
            Token::Name(name) if name == "in" => {
                self.require("(")?;
                let texts = self.texts()?;
                Ok(Test::Any(texts.into_iter().map(|text| Test::Equal(left.clone(), text)).collect()))
            }
            other => Err(unexpected(&other)),
        }
    }

    /// Up to the closing parenthesis.
    fn texts(&mut self) -> Result<Vec<Text>, String> {
        let mut texts = vec![self.text()?];
        while self.takes(",") {
            texts.push(self.text()?);
        }
        self.require(")")?;
        Ok(texts)
    }

    fn text(&mut self) -> Result<Text, String> {
        let name = match self.take()? {
            Token::Text(text) => return Ok(Text::Literal(text)),
            Token::Name(name) => name,
            other => return Err(unexpected(&other)),
        };
        // `r.sub` or `r_sub`.
        let (of, name) = match name.split_once('_') {
            Some((of, name)) => (of.to_owned(), name.to_owned()),
            None => {
                self.require(".")?;
                match self.take()? {
                    Token::Name(part) => (name, part),
                    other => return Err(unexpected(&other)),
                }
            }
        };
        if self.takes(".") {
            return Err(format!("matchers: {of}.{name} is a text and has no attributes"));
        }
        let at = |names: &[String]| names.iter().position(|other| *other == name);
        let found = match of.as_str() {
            "r" => at(&self.model.request).map(Text::Request),
            "p" => at(&self.model.policy).map(Text::Policy),
            _ => None,
        };
        found.ok_or_else(|| format!("matchers: {of}.{name} is not defined"))
    }

    fn call(&mut self, name: &str) -> Result<Test, String> {
        let mut texts = self.texts()?;
        if let Some(role) = self.model.roles.iter().position(|(other, _)| other == name) {
            let wanted = self.model.roles.get(role).map_or(0, |(_, count)| *count);
            return match texts.len() == wanted {
                true => Ok(Test::Role(role, texts)),
                false => Err(format!("matchers: {name} takes {wanted} values")),
            };
        }
        let function =
            Function::of(name).ok_or_else(|| format!("matchers: function {name} is not supported"))?;
        let (Some(pattern), Some(text), None) = (texts.pop(), texts.pop(), texts.pop()) else {
            return Err(format!("matchers: {name} takes two values"));
        };
        match pattern {
            Text::Literal(pattern) => Ok(Test::Matches(text, Pattern::new(function, &pattern)?)),
            Text::Policy(value) => {
                self.per_rule.push((function, value));
                Ok(Test::Rule(text, self.per_rule.len() - 1))
            }
            Text::Request(_) => Err(format!("matchers: the pattern of {name} is up to the client")),
        }
    }
}
