//! Functions that a module's text defines with a name, wherever it puts them.

use super::look::Code;

/// `function _M.access(conf, ctx)`, `local function access()`, `access = function()`.
pub(crate) struct Definition {
    pub line: usize,
    /// What stands before the name: `_M.`, `_M:`, or nothing.
    pub of: String,
    pub name: String,
    pub parameters: Vec<String>,
    /// How often the name stands in the code as a whole word.
    pub count: usize,
}

/// All of them, in the order of the text.
pub(crate) fn functions(text: &[u8]) -> Vec<Definition> {
    let code = Code::of(text, false);
    let code = code.text();
    let found = words(code, "function").filter_map(|at| {
        let (before, after) = (code.get(..at)?, code.get(at + "function".len()..)?.trim_start());
        let open = after.find('(')?;
        let named = after.get(..open)?.trim();
        let path = if named.is_empty() { assigned(before)? } else { named };
        let start = path.rfind(['.', ':']).map_or(0, |at| at + 1);
        let (of, name) = path.split_at_checked(start)?;
        let parameters = after.get(open + 1..)?.split(')').next()?;
        let parameters = parameters.split(',').map(str::trim).filter(|parameter| !parameter.is_empty());
        Some(Definition {
            line: before.matches('\n').count() + 1,
            of: of.to_owned(),
            name: name.to_owned(),
            parameters: parameters.map(str::to_owned).collect(),
            count: words(code, name).count(),
        })
    });
    found.filter(|definition| !definition.name.is_empty()).collect()
}

/// The name that a function without one is given.
fn assigned(before: &str) -> Option<&str> {
    let target = before.trim_end().strip_suffix('=')?.trim_end();
    let start =
        target.rfind(|sign: char| !is_part(sign) && !matches!(sign, '.' | ':')).map_or(0, |at| at + 1);
    target.get(start..)
}

fn is_part(sign: char) -> bool {
    sign.is_ascii_alphanumeric() || sign == '_'
}

/// Where a whole word stands.
fn words<'a>(text: &'a str, word: &'a str) -> impl Iterator<Item = usize> + 'a {
    text.match_indices(word).map(|(at, _)| at).filter(move |at| {
        let before = text.get(..*at).and_then(|text| text.chars().next_back());
        let after = text.get(at + word.len()..).and_then(|text| text.chars().next());
        !before.is_some_and(is_part) && !after.is_some_and(is_part)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_way_to_define_a_function_is_seen() {
        let text = "-- function _M.no()\nlocal function access(conf, ctx) end\nfunction _M:log (\nconf,\nctx) end\n\
                    local rewrite = function(a) end\n_M.access = function() end call(function() end) local s = 'function x()'";
        let found: Vec<String> = functions(text.as_bytes())
            .iter()
            .map(|found| {
                let Definition { line, of, name, parameters, count } = found;
                format!("{line} {of}{name}({}) {count}", parameters.join(","))
            })
            .collect();
        assert_eq!(
            found,
            ["2 access(conf,ctx) 2", "3 _M:log(conf,ctx) 1", "6 rewrite(a) 1", "7 _M.access() 2"]
        );
    }
}
