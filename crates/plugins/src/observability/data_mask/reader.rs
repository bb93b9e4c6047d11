//! Reads the text of a JSONPath.

pub(super) struct Reader<'t> {
    text: &'t str,
    rest: &'t str,
}

impl<'t> Reader<'t> {
    pub(super) fn new(text: &'t str) -> Reader<'t> {
        Reader { text, rest: text.trim() }
    }

    pub(super) fn is_at_end(&self) -> bool {
        self.rest.trim_start().is_empty()
    }

    /// Blanks before it are passed over.
    pub(super) fn take(&mut self, token: &str) -> bool {
        let taken = self.rest.trim_start().strip_prefix(token);
        self.rest = taken.unwrap_or(self.rest);
        taken.is_some()
    }

    pub(super) fn expect(&mut self, token: &str) -> Result<(), String> {
        if self.take(token) { Ok(()) } else { Err(self.unexpected()) }
    }

    pub(super) fn unexpected(&self) -> String {
        format!("invalid JSONPath \"{}\": not understood from \"{}\" on", self.text, self.rest)
    }

    /// A member's name without quotes.
    pub(super) fn name(&mut self) -> Result<&'t str, String> {
        let end =
            self.rest.find(|sign: char| " .[]()*?:,'\"=!<>&|".contains(sign)).unwrap_or(self.rest.len());
        let (name, rest) = self.rest.split_at(end);
        if name.is_empty() {
            return Err(self.unexpected());
        }
        self.rest = rest;
        Ok(name)
    }

    /// A text in single or double quotes; a backslash stands before a sign that is meant as such.
    pub(super) fn quoted(&mut self) -> Result<Option<String>, String> {
        let start = self.rest.trim_start();
        let Some(quote) = start.chars().next().filter(|sign| matches!(sign, '\'' | '"')) else {
            return Ok(None);
        };
        let mut text = String::new();
        let mut signs = start.char_indices().skip(1);
        while let Some((at, sign)) = signs.next() {
            if sign == quote {
                self.rest = start.get(at + 1..).unwrap_or_default();
                return Ok(Some(text));
            }
            let next = if sign == '\\' { signs.next().map(|(_, sign)| sign) } else { Some(sign) };
            text.extend(next);
        }
        Err(self.unexpected())
    }

    pub(super) fn integer(&mut self) -> Option<i64> {
        let start = self.rest.trim_start();
        let digits = start.strip_prefix('-').unwrap_or(start);
        let length = digits.find(|sign: char| !sign.is_ascii_digit()).unwrap_or(digits.len());
        let (number, rest) = start.split_at(start.len() - digits.len() + length);
        let number = number.parse().ok()?;
        self.rest = rest;
        Some(number)
    }

    /// A number as JSON writes it.
    pub(super) fn number(&mut self) -> Option<serde_json::Number> {
        let start = self.rest.trim_start();
        let is_part = |sign: char| sign.is_ascii_digit() || "+-.eE".contains(sign);
        let length = start.find(|sign: char| !is_part(sign)).unwrap_or(start.len());
        let (number, rest) = start.split_at(length);
        let number = serde_json::from_str(number).ok()?;
        self.rest = rest;
        Some(number)
    }
}
