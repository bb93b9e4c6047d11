//! Which variables the texts of a configuration refer to. They are noted where the texts are compiled, so that a check
//! knows of each that a request will ask for, in every plugin, and of no other.

use std::cell::RefCell;

/// A text may refer to many, and a message names a few.
const MOST: usize = 64;

thread_local! {
    /// Set while a caller collects them.
    static NOTED: RefCell<Option<Vec<Box<str>>>> = const { RefCell::new(None) };
}

/// The name of each variable that no request may have and that texts compiled meanwhile refer to, once.
pub fn variables_of_texts<R>(compile: impl FnOnce() -> R) -> (R, Vec<Box<str>>) {
    let outer = NOTED.replace(Some(Vec::new()));
    let result = compile();
    (result, NOTED.replace(outer).unwrap_or_default())
}

/// A text refers to this variable, which not every request and session has.
pub(super) fn take_note(name: &str) {
    NOTED.with_borrow_mut(|noted| {
        let Some(noted) = noted.as_mut().filter(|noted| noted.len() < MOST) else { return };
        if noted.iter().all(|known| **known != *name) {
            noted.push(name.into());
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Template;

    #[test]
    fn texts_note_their_variables() {
        let names = |text: &str| {
            let (_, noted) = variables_of_texts(|| Template::compile(text));
            noted.into_iter().map(String::from).collect::<Vec<String>>()
        };
        assert_eq!(names("$host-${remote_adr ?? x}-$remote_adr-$http_x"), ["remote_adr", "http_x"]);
        assert_eq!(names(r"\$remote_adr 5$"), Vec::<String>::new());
        assert_eq!(names("$env://remote_adr"), Vec::<String>::new());
        // Nothing is kept where no caller asks.
        Template::compile("$remote_adr");
        assert_eq!(names("a"), Vec::<String>::new());
    }
}
