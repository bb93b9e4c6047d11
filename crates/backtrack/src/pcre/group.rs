//! `(…)`.

use super::translator::{Open, Translator};

/// Whether the group whose parenthesis is taken captures.
pub(super) fn captures(rest: &str) -> bool {
    let Some(marked) = rest.strip_prefix('?') else { return !rest.starts_with('*') };
    let named = marked.strip_prefix('P').unwrap_or(marked).strip_prefix('<');
    marked.starts_with('\'') || named.is_some_and(|name| !name.starts_with(['=', '!']))
}

impl Translator<'_> {
    pub(super) fn group(&mut self) -> Result<(), String> {
        if self.rest.starts_with('*') {
            return Err("(*…) is not supported".to_owned());
        }
        if self.skip("?#") {
            self.until(")").ok_or("missing ) after (?# comment")?;
            return Ok(());
        }
        if captures(self.rest) {
            self.opened += 1;
        }
        if !self.skip("?") {
            self.begin("(");
            return Ok(());
        }
        for plain in [":", "=", "!", "<=", "<!", ">"] {
            if self.skip(plain) {
                self.begin(&format!("(?{plain}"));
                return Ok(());
            }
        }
        for (start, end) in [("<", ">"), ("P<", ">"), ("'", "'")] {
            if self.skip(start) {
                let name = self.until(end).ok_or("syntax error in the name of a group")?.to_owned();
                self.begin(&format!("(?<{name}>"));
                return Ok(());
            }
        }
        if self.skip("P=") {
            let name = self.until(")").ok_or("missing ) after (?P=")?.to_owned();
            self.whole(&format!("\\k<{name}>"));
            return Ok(());
        }
        if self.rest.starts_with('(') {
            return self.conditional();
        }
        self.flags()
    }

    fn begin(&mut self, text: &str) {
        self.open.push(Open { at: self.out.len(), extended_before: self.extended });
        self.out.push_str(text);
        self.item = None;
    }

    /// `(?(1)yes|no)`: only whether a group took part.
    fn conditional(&mut self) -> Result<(), String> {
        self.is_common = false;
        self.take();
        let condition = self.until(")").ok_or("missing ) after a condition")?.to_owned();
        let name = condition.strip_prefix('<').and_then(|name| name.strip_suffix('>'));
        let quoted = condition.strip_prefix('\'').and_then(|name| name.strip_suffix('\''));
        if let Ok(number) = condition.parse::<usize>() {
            if number == 0 || number > self.groups {
                return Err("reference to non-existent group".to_owned());
            }
            self.begin(&format!("(?({number})"));
            return Ok(());
        }
        let name = name.or(quoted).ok_or_else(|| format!("(?({condition})…) is not supported"))?;
        self.begin(&format!("(?(<{name}>)"));
        Ok(())
    }

    /// `(?i)`, `(?i-s:…)`.
    fn flags(&mut self) -> Result<(), String> {
        let flags: String = self.rest.chars().take_while(|sign| !matches!(sign, ')' | ':')).collect();
        let known = |sign: char| matches!(sign, 'i' | 'm' | 's' | 'x' | 'U' | '-');
        if flags.matches('-').count() > 1 || flags.contains("xx") || !flags.chars().all(known) {
            return Err(format!("(?{flags}…) is not supported"));
        }
        self.rest = self.rest.get(flags.len()..).unwrap_or_default();
        let before = self.extended;
        let (on, off) = flags.split_once('-').unwrap_or((&flags, ""));
        self.extended = (self.extended || on.contains('x')) && !off.contains('x');
        self.is_common &= !on.contains('x');
        // Blanks and comments are left out here, and no engine sees the flag.
        let letters = |text: &str| {
            let mut kept: Vec<char> = text.chars().filter(|sign| *sign != 'x').collect();
            kept.sort_unstable();
            kept.dedup();
            kept.into_iter().collect::<String>()
        };
        let (on, off) = (letters(on), letters(off));
        let kept = if off.is_empty() { on } else { format!("{on}-{off}") };
        match self.take() {
            Some(')') => {
                if !kept.is_empty() {
                    self.out.push_str(&format!("(?{kept})"));
                }
                self.item = None;
            }
            Some(_) => {
                self.open.push(Open { at: self.out.len(), extended_before: before });
                self.out.push_str(&format!("(?{kept}:"));
                self.item = None;
            }
            None => return Err("missing ) at end of pattern".to_owned()),
        }
        Ok(())
    }
}
