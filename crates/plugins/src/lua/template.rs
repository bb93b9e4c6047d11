//! Texts with Lua in them, in the language of lua-resty-template: `{{value}}` escaped for HTML, `{*value*}` unescaped,
//! `{% code %}`, `{# comment #}`, `{-raw-}...{-raw-}`. Includes (`{(file)}`, `{[file]}`) are refused: a template reads
//! no files.
//!
//! A template becomes one Lua function. Names in it mean the document's members first, then Lua's.

mod asked;
mod form;

use std::{
    collections::HashSet,
    fmt::Write,
    rc::Rc,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use mlua::{Function, Lua, LuaString, Table, Value};
use tidegate_plugin_api::Request;
use tokio::sync::Semaphore;

use super::{
    bounds, chunk, clock,
    current::Phase,
    making::{Entries, Making, Source},
    program::{context, enter},
    vm::{self, Loaded, Vm},
};

pub(crate) struct Template {
    /// For the worker's cache of loaded functions.
    serial: u64,
    alive: Arc<()>,
    source: String,
    /// It names `_body`.
    shows_body: bool,
    /// It names `_multipart`.
    edits_form: bool,
    /// The only members of a document that it can ask for.
    asked: Option<Arc<HashSet<Box<str>>>>,
}

/// A worker makes so many values of a document, and others get their turn.
const SLICE: Duration = Duration::from_micros(500);

/// Documents of more bytes are made one at a time: half of one holds places for values, of which there are some thousands.
const SMALL_BYTES: usize = 4 << 10;

thread_local! {
    static LARGE: Arc<Semaphore> = Arc::new(Semaphore::new(1));
}

/// Makes what a template runs with: its names, and how values are written.
const FRAME: &str = r#"
local entities = { ["&"] = "&amp;", ["<"] = "&lt;", [">"] = "&gt;", ['"'] = "&quot;", ["'"] = "&#39;", ["/"] = "&#47;" }
local function text(value)
    if value == nil or value == ngx.null then return "" end
    if type(value) == "function" then return text(value()) end
    return tostring(value)
end
local function escaped(value)
    if type(value) == "string" then return (value:gsub("[&<>\"'/]", entities)) end
    return text(value)
end
local xml = { ["&"] = "&amp;", ["<"] = "&lt;", [">"] = "&gt;", ["'"] = "&apos;", ['"'] = "&quot;" }
local globals = _G
return function(document, helpers, form_of)
    if form_of then helpers._multipart = form_of(helpers._multipart, helpers._boundary) end
    helpers._escape_xml = function(value) return (value:gsub("[&<>'\"]", xml)) end
    local env = setmetatable({}, { __index = function(_, name)
        local value = helpers[name]
        if value == nil then value = document[name] end
        if value == nil then value = globals[name] end
        return value
    end })
    env.context = setmetatable(document, { __index = helpers })
    return env, text, escaped
end
"#;

impl Template {
    /// Reads the template; the error is Lua's or names what is not closed.
    pub(crate) fn new(text: &str) -> Result<Template, String> {
        static SERIAL: AtomicU64 = AtomicU64::new(1 << 62);
        let mut code = String::new();
        let source = to_lua(text, &mut code)?;
        let vm = vm::vm()?;
        let environment = vm.new_environment.call::<Table>(()).map_err(|error| chunk::message(&error))?;
        chunk::load(&vm.lua, &source, "template", &environment)?;
        let serial = SERIAL.fetch_add(1, Ordering::Relaxed);
        let (shows_body, edits_form) = (source.contains("_body"), source.contains("_multipart"));
        Ok(Template {
            serial,
            alive: Arc::new(()),
            source,
            shows_body,
            edits_form,
            asked: asked::names(&code).map(Arc::new),
        })
    }

    /// The only members of a document that it can ask for, at any depth; `None`: it may ask for any.
    pub(crate) fn asked(&self) -> Option<Arc<HashSet<Box<str>>>> {
        self.asked.clone()
    }

    /// Renders for a request. `names` becomes the table of names, in slices and bounded by what was read for it; the
    /// template runs under the limit of time. `body` is `_body`, `form` its `Content-Type` if it is a form in parts.
    pub(crate) async fn render(
        &self,
        request: &mut Request,
        phase: Phase,
        body: Option<&[u8]>,
        form: Option<&[u8]>,
        names: Entries<'_>,
    ) -> Result<Vec<u8>, String> {
        self.run(request, phase, body, form, names).await.map_err(|error| chunk::message(&error))
    }

    async fn run(
        &self,
        request: &mut Request,
        phase: Phase,
        body: Option<&[u8]>,
        form: Option<&[u8]>,
        names: Entries<'_>,
    ) -> mlua::Result<Vec<u8>> {
        let is_large = body.is_some_and(|body| body.len() > SMALL_BYTES);
        let _turn = match is_large {
            true => LARGE.with(Arc::clone).acquire_owned().await.ok(),
            false => None,
        };
        let vm = vm::vm().map_err(mlua::Error::runtime)?;
        let document = in_slices(&vm.lua, names, self.asked.clone()).await?;
        self.fill(&vm, request, phase, (body, form), document)
    }

    fn fill(
        &self,
        vm: &Rc<Vm>,
        request: &mut Request,
        phase: Phase,
        (body, form): (Option<&[u8]>, Option<&[u8]>),
        document: Table,
    ) -> mlua::Result<Vec<u8>> {
        let loaded = vm.loaded(self.serial, &self.alive, |vm| {
            let environment = vm.new_environment.call::<Table>(())?;
            let load = |source: &str, name| {
                chunk::load(&vm.lua, source, name, &environment).map_err(mlua::Error::runtime)
            };
            let body = load(&self.source, "template")?;
            let frame = load(FRAME, "template frame")?.call::<Function>(())?;
            Ok(Loaded { functions: vec![frame, body], conf: Value::Nil, table: None, environment })
        })?;
        let [frame, function] = loaded.functions.as_slice() else {
            return Err(mlua::Error::runtime("the template is not loaded"));
        };
        let lua = &vm.lua;
        let helpers = lua.create_table()?;
        helpers.raw_set("_ctx", context(vm, request)?)?;
        let shown = body.filter(|_| self.shows_body);
        helpers.raw_set("_body", bounds::given(|| shown.map(|body| lua.create_string(body)).transpose())?)?;
        let parts = form.zip(body).filter(|_| self.edits_form);
        let editor = parts
            .map(|(kind, body)| form::fill(lua, (&helpers, &loaded.environment), body, kind))
            .transpose()?;
        let encode = lua.create_function(|lua, value: Value| {
            let value = super::json::from_lua(lua, &value, false).map_err(mlua::Error::runtime)?;
            lua.create_string(super::json::written(&value).map_err(mlua::Error::runtime)?)
        })?;
        helpers.raw_set("_escape_json", encode)?;
        for name in ["_ctx", "_body", "_escape_json", "_escape_xml", "_multipart", "_boundary"] {
            document.raw_remove(name)?;
        }
        let text = clock::limited_for(body.map_or(0, <[u8]>::len), || {
            enter(request, phase, || run(frame, function, (document, helpers, editor)))
                .map_err(clock::in_time)
        });
        let text = text.map(|text| text.as_bytes().to_vec());
        vm::tidy(vm);
        text
    }
}

/// The table of a document's names. Others get their turn while it is made.
async fn in_slices(
    lua: &Lua,
    names: Entries<'_>,
    asked: Option<Arc<HashSet<Box<str>>>>,
) -> mlua::Result<Table> {
    let mut making = Making::of_members(lua, Source::Table(names), asked)?;
    loop {
        let started = Instant::now();
        match bounds::given(|| making.advance(|| Ok(started.elapsed() < SLICE)))? {
            Some(Value::Table(document)) => return Ok(document),
            Some(_) => return Err(mlua::Error::runtime("the body is not a table")),
            None => tokio::task::yield_now().await,
        }
    }
}

fn run(
    frame: &Function,
    body: &Function,
    given: (Table, Table, Option<Function>),
) -> mlua::Result<LuaString> {
    let (names, text, escaped): (Table, Function, Function) = frame.call(given)?;
    body.set_environment(names)?;
    body.call((text, escaped))
}

/// What stands in `{-raw-}`, and what follows it.
fn raw_block<'a>(inner: &str, rest: &'a str) -> Result<(&'a str, &'a str), String> {
    let name = inner.trim();
    if !matches!(name, "raw" | "verbatim") {
        return Err(format!("blocks ({{-{name}-}}) are not supported in templates"));
    }
    let closing = format!("{{-{inner}-}}");
    rest.split_once(&closing).ok_or_else(|| format!("{closing} is not closed"))
}

/// The Lua code of a template: pieces are put into a table and joined. What of it was written in the template goes to
/// `written`.
fn to_lua(text: &str, written: &mut String) -> Result<String, String> {
    let mut code = String::from("local text, escaped = ...\nlocal out = {}\n");
    let (mut rest, mut from) = (text, 0);
    // What closes nothing any more is not looked for again: a text of braces would be read once for each.
    let mut missing: Vec<&str> = Vec::new();
    while let Some(at) = rest.get(from..).and_then(|rest| rest.find('{')).map(|found| from + found) {
        let (before, tag) = rest.split_at(at);
        let mut kinds = tag.chars().skip(1);
        let kind = kinds.next().unwrap_or(' ');
        let close = match kind {
            '{' => "}}",
            '*' => "*}",
            '%' => "%}",
            '#' => "#}",
            '-' => "-}",
            '(' | '[' => return Err(format!("includes ({{{kind}...) are not supported in templates")),
            _ => "",
        };
        let is_tag = !close.is_empty() && !missing.contains(&close);
        let end = if is_tag { tag.get(2..).and_then(|inner| inner.find(close)) } else { None };
        let Some(end) = end else {
            if is_tag {
                missing.push(close);
            }
            from = at + 1;
            continue;
        };
        from = 0;
        if let Some(before) = before.strip_suffix('\\') {
            // `\{{` is text.
            literal(&mut code, before);
            literal(&mut code, &tag[..end + 4]);
            rest = &tag[end + 4..];
            continue;
        }
        let inner = &tag[2..2 + end];
        rest = &tag[end + 4..];
        match kind {
            '{' | '*' => {
                literal(&mut code, before);
                let function = if kind == '{' { "escaped" } else { "text" };
                let _ = writeln!(code, "out[#out + 1] = {function}({inner})");
                let _ = writeln!(written, ";{inner}");
            }
            '-' => {
                literal(&mut code, before);
                let (raw, behind) = raw_block(inner, rest)?;
                literal(&mut code, raw);
                rest = behind;
            }
            _ => {
                // A line with nothing but code leaves no trace.
                let line_start = before.trim_end_matches([' ', '\t']);
                let alone = line_start.is_empty() || line_start.ends_with('\n');
                literal(&mut code, if alone { line_start } else { before });
                rest = rest.strip_prefix('\n').unwrap_or(rest);
                if kind == '%' {
                    let _ = writeln!(code, "{}", inner.trim());
                    let _ = writeln!(written, ";{inner}");
                }
            }
        }
    }
    literal(&mut code, rest);
    code.push_str("return table.concat(out)\n");
    Ok(code)
}

fn literal(code: &mut String, text: &str) {
    if text.is_empty() {
        return;
    }
    code.push_str("out[#out + 1] = \"");
    for character in text.chars() {
        match character {
            '"' | '\\' => {
                code.push('\\');
                code.push(character);
            }
            '\n' => code.push_str("\\n"),
            '\r' => code.push_str("\\r"),
            '\0' => code.push_str("\\000"),
            other => code.push(other),
        }
    }
    code.push_str("\"\n");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn render(text: &str) -> String {
        let lua = &vm::vm().unwrap().lua;
        let environment = vm::vm().unwrap().new_environment.call::<Table>(()).unwrap();
        let body =
            chunk::load(lua, to_lua(text, &mut String::new()).unwrap(), "template", &environment).unwrap();
        let frame = chunk::load(lua, FRAME, "frame", &environment).unwrap().call::<Function>(()).unwrap();
        let document = lua.create_table().unwrap();
        document.raw_set("name", "<a/b>").unwrap();
        document.raw_set("age", "20").unwrap();
        document.raw_set("list", lua.create_sequence_from(["x", "y"]).unwrap()).unwrap();
        let text = run(&frame, &body, (document, lua.create_table().unwrap(), None)).unwrap();
        text.to_string_lossy()
    }

    #[test]
    fn templates() {
        let cases = [
            ("plain { } \"\\ \n", "plain { } \"\\ \n"),
            ("{{name}}|{*name*}|{{missing}}", "&lt;a&#47;b&gt;|<a/b>|"),
            ("{{name .. \"!\"}}{{age+10}}", "&lt;a&#47;b&gt;!30"),
            ("{# no #}{-raw-}{{name}}{-raw-}", "{{name}}"),
            ("a\n  {% for _, item in ipairs(list) do %}\n{*item*},\n  {% end %}\nb", "a\nx,\ny,\nb"),
            ("\\{{name}}", "{{name}}"),
            ("{{open", "{{open"),
            ("{*string.upper(name)*}", "<A/B>"),
            ("{*_escape_xml(name)*}", "&lt;a/b&gt;"),
        ];
        for (text, expected) in cases {
            assert_eq!(render(text), expected, "{text}");
        }
    }

    #[test]
    fn what_is_refused() {
        assert!(Template::new("{(file.html)}").is_err());
        assert!(Template::new("{{ if }}").is_err());
    }
}
