//! `ngx.re`: regular expressions in PCRE's syntax. `native` gives matches as positions; the prelude shapes them.

use std::{cell::RefCell, rc::Rc};

use ahash::AHashMap;
use fancy_regex::{Regex, RegexBuilder};
use mlua::{Lua, LuaString, Table, Value};
use routing::expr::MAX_STEPS;

/// Compiled expressions kept per worker.
const MAX_CACHED: usize = 1024;
/// Longer ones are compiled each time: code may make them of what clients send.
const LONGEST_CACHED: usize = 4 << 10;

#[derive(Default)]
struct Cache {
    compiled: AHashMap<(String, String), Rc<Regex>>,
}

impl Cache {
    fn get(&mut self, pattern: &str, options: &str) -> Result<Rc<Regex>, String> {
        let key = (pattern.to_owned(), options.to_owned());
        if let Some(regex) = self.compiled.get(&key) {
            return Ok(regex.clone());
        }
        let flags: String =
            options.chars().filter(|option| matches!(option, 'i' | 'm' | 's' | 'x')).collect();
        let mut source = if options.contains('a') { format!(r"\G(?:{pattern})") } else { pattern.to_owned() };
        if !flags.is_empty() {
            source = format!("(?{flags}){source}");
        }
        let regex = RegexBuilder::new(&source)
            .backtrack_limit(MAX_STEPS)
            .build()
            .map_err(|error| format!("pcre2_compile() failed: {error} in \"{pattern}\""))?;
        if self.compiled.len() >= MAX_CACHED {
            self.compiled.clear();
        }
        let regex = Rc::new(regex);
        if pattern.len() <= LONGEST_CACHED {
            self.compiled.insert(key, regex.clone());
        }
        Ok(regex)
    }
}

pub fn install(lua: &Lua, native: &Table) -> mlua::Result<()> {
    let cache = RefCell::new(Cache::default());
    // re_exec(subject, pattern, options, from) -> {groups..., names}, first, last | nil, error
    native.set(
        "re_exec",
        lua.create_function(
            move |lua, (subject, pattern, options, from): (LuaString, LuaString, Option<String>, usize)| {
                let failed = |reason: String| Ok((Value::Nil, None, None, Some(reason)));
                let subject_bytes = subject.as_bytes();
                let Ok(subject) = std::str::from_utf8(&subject_bytes) else {
                    return failed("subject is not UTF-8".to_owned());
                };
                let regex = match cache
                    .borrow_mut()
                    .get(&pattern.to_string_lossy(), options.as_deref().unwrap_or(""))
                {
                    Ok(regex) => regex,
                    Err(reason) => return failed(reason),
                };
                let from = from.saturating_sub(1);
                if from > subject.len() || !subject.is_char_boundary(from) {
                    return Ok((Value::Nil, None, None, None));
                }
                match regex.captures_from_pos(subject, from) {
                    Err(error) => failed(format!("pcre2_match() failed: {error}")),
                    Ok(None) => Ok((Value::Nil, None, None, None)),
                    Ok(Some(captures)) => {
                        let table = lua.create_table()?;
                        for (at, group) in captures.iter().enumerate() {
                            match group {
                                Some(group) => table.raw_set(at, group.as_str())?,
                                None => table.raw_set(at, false)?,
                            }
                        }
                        for name in regex.capture_names().flatten() {
                            match captures.name(name) {
                                Some(group) => table.raw_set(name, group.as_str())?,
                                None => table.raw_set(name, false)?,
                            }
                        }
                        let whole = captures.get(0).map(|group| (group.start() + 1, group.end()));
                        Ok((
                            Value::Table(table),
                            whole.map(|(first, _)| first),
                            whole.map(|(_, last)| last),
                            None,
                        ))
                    }
                }
            },
        )?,
    )
}
