//! What follows a backslash.

use super::{
    property,
    translator::{Translator, Units},
};

/// Blanks of a line in PCRE without UTF mode.
pub(super) const HORIZONTAL: &str = r"\x09\x20\xA0";
pub(super) const VERTICAL: &str = r"\x0A-\x0D\x85";

impl Translator<'_> {
    /// Outside of a class.
    pub(super) fn escape(&mut self) -> Result<(), String> {
        if let Some(byte) = self.coded(false)? {
            self.byte(byte);
            return Ok(());
        }
        let sign = self.take().ok_or("\\ at end of pattern")?;
        match sign {
            'd' | 'D' | 'w' | 'W' | 's' | 'S' => self.whole(&format!("\\{sign}")),
            'b' | 'B' | 'A' | 'z' | 'G' | 'K' => {
                self.out.push('\\');
                self.out.push(sign);
                self.item = None;
            }
            'Z' => {
                self.out.push_str(r"(?=\n?\z)");
                self.item = None;
                self.is_common = false;
            }
            'h' => self.otherwise(&format!("[{HORIZONTAL}]")),
            'H' => self.otherwise(&format!("[^{HORIZONTAL}]")),
            'v' => self.otherwise(&format!("[{VERTICAL}]")),
            'V' => self.otherwise(&format!("[^{VERTICAL}]")),
            'R' => self.otherwise(&format!(r"(?>\r\n|[{VERTICAL}])")),
            'N' => self.otherwise(r"[^\n]"),
            'p' | 'P' => {
                let property = self.property(sign)?;
                match self.units {
                    // Upper case stays upper case, whatever the flags.
                    Units::Bytes => self.whole(&format!("(?-i:[{property}])")),
                    Units::Characters => self.whole(&property),
                }
            }
            'Q' => self.quoted(),
            'E' => {}
            'g' => self.numbered_reference()?,
            'k' => self.named_reference()?,
            '1'..='9' => self.reference(sign)?,
            sign if sign.is_ascii_alphanumeric() => return Err(format!("\\{sign} is not supported")),
            sign => {
                self.is_common &= !matches!(sign, '<' | '>');
                self.literal(sign);
            }
        }
        Ok(())
    }

    /// What the engines here read otherwise, or not at all.
    fn otherwise(&mut self, text: &str) {
        self.is_common = false;
        self.whole(text);
    }

    /// A character by its number or name, if it is one; the backslash is taken.
    pub(super) fn coded(&mut self, in_class: bool) -> Result<Option<u8>, String> {
        let mut signs = self.rest.chars();
        let Some(sign) = signs.next() else { return Ok(None) };
        let named = match sign {
            'a' => 0x07,
            'e' => 0x1b,
            'f' => 0x0c,
            'n' => b'\n',
            'r' => b'\r',
            't' => b'\t',
            'b' if in_class => 0x08,
            'c' | 'x' | 'o' | '0'..='7' => {
                if !in_class && ('1'..='7').contains(&sign) {
                    return Ok(None);
                }
                self.is_common = false;
                return self.numbered(sign).map(Some);
            }
            _ => return Ok(None),
        };
        self.rest = signs.as_str();
        Ok(Some(named))
    }

    fn numbered(&mut self, sign: char) -> Result<u8, String> {
        if ('0'..='7').contains(&sign) {
            return self.octal();
        }
        self.take();
        match sign {
            'c' => match self.take() {
                Some(letter) if matches!(letter, ' '..='~') => Ok(letter.to_ascii_uppercase() as u8 ^ 0x40),
                _ => Err("\\c must be followed by a printable ASCII character".to_owned()),
            },
            'o' if self.skip("{") => {
                let digits = self.until("}").ok_or("missing } after \\o{")?;
                u8::from_str_radix(digits, 8).map_err(|_| "invalid number in \\o{}".to_owned())
            }
            'x' if self.skip("{") => {
                let digits = self.until("}").ok_or("missing } after \\x{")?;
                u8::from_str_radix(digits, 16).map_err(|_| "invalid number in \\x{}".to_owned())
            }
            'x' => {
                let digits = self.rest.bytes().take(2).take_while(u8::is_ascii_hexdigit).count();
                let (digits, rest) = self.rest.split_at(digits);
                self.rest = rest;
                Ok(u8::from_str_radix(digits, 16).unwrap_or(0))
            }
            _ => Err(format!("\\{sign} is not supported")),
        }
    }

    /// Up to three digits.
    fn octal(&mut self) -> Result<u8, String> {
        let digits = self.rest.bytes().take(3).take_while(|digit| matches!(digit, b'0'..=b'7')).count();
        let (digits, rest) = self.rest.split_at(digits);
        self.rest = rest;
        u8::from_str_radix(digits, 8).map_err(|_| "octal value is greater than \\377".to_owned())
    }

    /// As a member of a class.
    pub(super) fn property(&mut self, sign: char) -> Result<String, String> {
        self.is_common = false;
        let name = match self.skip("{") {
            true => self.until("}").ok_or("missing } after \\p{")?.to_owned(),
            false => self.take().ok_or("\\p at end of pattern")?.to_string(),
        };
        let (name, is_negated) = match name.strip_prefix('^') {
            Some(name) => (name, sign == 'p'),
            None => (name.as_str(), sign == 'P'),
        };
        match self.units {
            Units::Bytes => property::bytes(name, is_negated),
            Units::Characters => Ok(format!("\\{}{{{name}}}", if is_negated { 'P' } else { 'p' })),
        }
    }

    fn quoted(&mut self) {
        self.is_common = false;
        let (text, rest) = self.rest.split_once("\\E").unwrap_or((self.rest, ""));
        self.rest = rest;
        text.chars().for_each(|sign| self.literal(sign));
    }

    /// `\3`, or three octal digits where there are not so many groups.
    fn reference(&mut self, first: char) -> Result<(), String> {
        let more = self.rest.bytes().take_while(u8::is_ascii_digit).count();
        let number: usize = format!("{first}{}", self.rest.get(..more).unwrap_or_default())
            .parse()
            .map_err(|_| "number too big".to_owned())?;
        if number < 10 || matches!(first, '8' | '9') || number <= self.opened {
            self.rest = self.rest.get(more..).unwrap_or_default();
            return self.refer(number);
        }
        self.is_common = false;
        let digits = 1 + self.rest.bytes().take(2).take_while(|digit| matches!(digit, b'0'..=b'7')).count();
        let code = format!("{first}{}", self.rest.get(..digits - 1).unwrap_or_default());
        self.rest = self.rest.get(digits - 1..).unwrap_or_default();
        let byte = u8::from_str_radix(&code, 8).map_err(|_| "octal value is greater than \\377")?;
        self.byte(byte);
        Ok(())
    }

    fn refer(&mut self, number: usize) -> Result<(), String> {
        if number == 0 || number > self.groups {
            return Err("reference to non-existent group".to_owned());
        }
        // In a group of its own: a digit may follow.
        self.whole(&format!("(?:\\{number})"));
        Ok(())
    }

    fn numbered_reference(&mut self) -> Result<(), String> {
        self.is_common = false;
        let text = if self.skip("{") {
            self.until("}").ok_or("missing } after \\g{")?.to_owned()
        } else {
            let sign = usize::from(self.rest.starts_with(['-', '+']));
            let digits = self.rest.bytes().skip(sign).take_while(u8::is_ascii_digit).count();
            let (text, rest) = self.rest.split_at(sign + digits);
            self.rest = rest;
            text.to_owned()
        };
        let count =
            |text: &str| text.parse::<usize>().map_err(|_| "a number is expected after \\g".to_owned());
        if let Some(back) = text.strip_prefix('-') {
            let back = count(back)?;
            return self.refer((self.opened + 1).saturating_sub(back));
        }
        if let Some(ahead) = text.strip_prefix('+') {
            let ahead = count(ahead)?;
            return self.refer(self.opened.saturating_add(ahead));
        }
        if text.starts_with(|first: char| first.is_alphabetic() || first == '_') {
            self.whole(&format!("\\k<{text}>"));
            return Ok(());
        }
        let number = count(&text)?;
        self.refer(number)
    }

    fn named_reference(&mut self) -> Result<(), String> {
        let end = match self.take() {
            Some('<') => ">",
            Some('\'') => "'",
            Some('{') => "}",
            _ => return Err("\\k is not followed by a name".to_owned()),
        };
        let name = self.until(end).ok_or("a name after \\k has no end")?.to_owned();
        self.whole(&format!("\\k<{name}>"));
        Ok(())
    }
}
