//! `[…]`.

use super::{
    escape,
    translator::{Translator, Units, write_byte, write_sign},
};

/// A member of a class.
enum Member {
    Byte(u8),
    Character(char),
    /// One that is a class itself: nothing ranges from it.
    Class(String),
    Nothing,
}

const POSIX: [&str; 14] = [
    "alnum", "alpha", "ascii", "blank", "cntrl", "digit", "graph", "lower", "print", "punct", "space",
    "upper", "word", "xdigit",
];

/// What follows a class whose bracket is taken.
pub(super) fn after(rest: &str) -> &str {
    let mut rest = rest.strip_prefix('^').unwrap_or(rest);
    rest = rest.strip_prefix(']').unwrap_or(rest);
    loop {
        let mut signs = rest.chars();
        match signs.next() {
            None => return "",
            Some(']') => return signs.as_str(),
            Some('\\') => {
                if let Some(quoted) = signs.as_str().strip_prefix('Q') {
                    rest = quoted.split_once("\\E").map_or("", |(_, rest)| rest);
                    continue;
                }
                signs.next();
            }
            Some('[') if posix(signs.as_str()).is_some() => {
                rest = signs.as_str().split_once(":]").map_or("", |(_, rest)| rest);
                continue;
            }
            Some(_) => {}
        }
        rest = signs.as_str();
    }
}

/// The name in `:alpha:]`, and whether it is negated.
fn posix(rest: &str) -> Option<(&str, bool)> {
    let (name, _) = rest.strip_prefix(':')?.split_once(":]")?;
    let bare = name.strip_prefix('^').unwrap_or(name);
    (!bare.contains(['[', ']', '\\'])).then_some((bare, bare.len() < name.len()))
}

impl Translator<'_> {
    pub(super) fn class(&mut self) -> Result<(), String> {
        // Where words begin and end.
        for (name, place) in [("[:<:]]", r"\b(?=\w)"), ("[:>:]]", r"\b(?<=\w)")] {
            if self.skip(name) {
                self.is_common = false;
                self.out.push_str(place);
                self.item = None;
                return Ok(());
            }
        }
        let start = self.out.len();
        self.out.push('[');
        self.skip_empty_quotes();
        if self.skip("^") {
            self.out.push('^');
            self.skip_empty_quotes();
        }
        let mut is_first = true;
        // The last member, if a range may begin with it.
        let mut before: Option<Member> = None;
        let mut quoted = false;
        loop {
            if quoted && self.skip("\\E") {
                quoted = false;
                continue;
            }
            let sign = self.take().ok_or("missing terminating ] for character class")?;
            match sign {
                ']' if !quoted && !is_first => break,
                '-' if !quoted && before.is_some() && !self.rest.starts_with(']') => {
                    let from = before.take().unwrap_or(Member::Nothing);
                    let next = self.take().ok_or("missing terminating ] for character class")?;
                    self.range(from, next)?;
                }
                sign => {
                    before = match self.member(sign, &mut quoted)? {
                        Member::Nothing => before,
                        Member::Class(class) => {
                            self.out.push_str(&class);
                            None
                        }
                        member => {
                            write_member(&mut self.out, &member);
                            Some(member)
                        }
                    };
                }
            }
            is_first = false;
        }
        self.out.push(']');
        self.item = Some(start);
        Ok(())
    }

    /// `\Q\E` says nothing, not even that a class has begun.
    fn skip_empty_quotes(&mut self) {
        while self.skip("\\Q\\E") || self.skip("\\E") {
            self.is_common = false;
        }
    }

    /// `from` is written; `next` is the first sign of the other end.
    fn range(&mut self, from: Member, next: char) -> Result<(), String> {
        let mut quoted = false;
        match self.member(next, &mut quoted)? {
            Member::Class(class) => {
                // Without an end the hyphen is a member.
                self.out.push_str("\\-");
                self.out.push_str(&class);
            }
            Member::Nothing => return Err("\\Q in a range is not supported".to_owned()),
            to => {
                if number(&from) > number(&to) {
                    return Err("range out of order in character class".to_owned());
                }
                self.out.push('-');
                write_member(&mut self.out, &to);
            }
        }
        Ok(())
    }

    fn member(&mut self, sign: char, quoted: &mut bool) -> Result<Member, String> {
        if *quoted {
            return Ok(self.itself(sign));
        }
        match sign {
            '\\' => self.escaped_member(quoted),
            '[' => self.bracket(),
            sign => {
                // To the engines here two of them are an operation on sets.
                self.is_common &= !(matches!(sign, '&' | '~' | '-') && self.rest.starts_with(sign));
                Ok(self.itself(sign))
            }
        }
    }

    fn bracket(&mut self) -> Result<Member, String> {
        if self.rest.starts_with(['.', '='])
            && self.rest.contains(if self.rest.starts_with('.') { ".]" } else { "=]" })
        {
            return Err("POSIX collating elements are not supported".to_owned());
        }
        let Some((name, negated)) = posix(self.rest) else {
            self.is_common = false;
            return Ok(Member::Character('['));
        };
        if !POSIX.contains(&name) {
            return Err("unknown POSIX class name".to_owned());
        }
        let class = format!("[:{}{name}:]", if negated { "^" } else { "" });
        self.until(":]");
        Ok(Member::Class(class))
    }

    fn escaped_member(&mut self, quoted: &mut bool) -> Result<Member, String> {
        if let Some(byte) = self.coded(true)? {
            return Ok(Member::Byte(byte));
        }
        let sign = self.take().ok_or("\\ at end of pattern")?;
        let other = |text: String| Member::Class(text);
        Ok(match sign {
            'd' | 'D' | 'w' | 'W' | 's' | 'S' => Member::Class(format!("\\{sign}")),
            'h' | 'H' | 'v' | 'V' => {
                self.is_common = false;
                let set = if sign.eq_ignore_ascii_case(&'h') { escape::HORIZONTAL } else { escape::VERTICAL };
                other(if sign.is_ascii_lowercase() { set.to_owned() } else { format!("[^{set}]") })
            }
            'p' | 'P' => other(self.property(sign)?),
            'Q' => {
                self.is_common = false;
                *quoted = true;
                Member::Nothing
            }
            'E' => Member::Nothing,
            sign if sign.is_ascii_alphanumeric() => {
                return Err(format!("\\{sign} in a character class is not supported"));
            }
            sign => {
                self.is_common &= !matches!(sign, '<' | '>');
                self.itself(sign)
            }
        })
    }

    /// Of several bytes all but the last are written at once.
    fn itself(&mut self, sign: char) -> Member {
        if sign.is_ascii() || self.units == Units::Characters {
            return Member::Character(sign);
        }
        self.is_common = false;
        let mut buffer = [0; 4];
        let bytes = sign.encode_utf8(&mut buffer).as_bytes();
        let (last, first) = bytes.split_last().unwrap_or((&0, &[]));
        first.iter().for_each(|byte| write_byte(&mut self.out, *byte));
        Member::Byte(*last)
    }
}

fn number(member: &Member) -> u32 {
    match member {
        Member::Byte(byte) => u32::from(*byte),
        Member::Character(sign) => u32::from(*sign),
        Member::Class(_) | Member::Nothing => 0,
    }
}

fn write_member(out: &mut String, member: &Member) {
    match member {
        Member::Byte(byte) => write_byte(out, *byte),
        Member::Character(sign) => write_sign(out, *sign),
        Member::Class(_) | Member::Nothing => {}
    }
}
