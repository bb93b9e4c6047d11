//! `_multipart` in templates: the parts of a form, read and edited with the methods of lua-multipart.

use mlua::{Function, Lua, Table};
use tidegate_plugin_api::multipart;

use super::super::{bounds, chunk};

/// More parts are refused: each is a table.
const MAX_PARTS: usize = 10_000;

/// Makes the object of a list of parts, in their order.
const EDITOR: &str = r#"
return function(parts, boundary)
    local form = {}
    local function first(name)
        for at, part in ipairs(parts) do
            if part.name == name then return at, part end
        end
    end
    function form:get(name)
        local _, part = first(name)
        return part
    end
    function form:get_as_array(name)
        local values = {}
        for _, part in ipairs(parts) do
            if part.name == name then values[#values + 1] = part.value end
        end
        return values
    end
    function form:get_all_as_arrays()
        local all = {}
        for _, part in ipairs(parts) do
            local values = all[part.name] or {}
            all[part.name] = values
            values[#values + 1] = part.value
        end
        return all
    end
    function form:get_all_with_arrays()
        local all = form:get_all_as_arrays()
        for name, values in pairs(all) do
            if #values == 1 then all[name] = values[1] end
        end
        return all
    end
    function form:get_all()
        local all = form:get_all_as_arrays()
        for name, values in pairs(all) do all[name] = values[1] end
        return all
    end
    function form:set_simple(name, value, filename, content_type)
        local text = tostring(name) .. tostring(filename or "") .. tostring(content_type or "")
        if text:find('["%c]') then error("a name or a type with a quote or a control character", 2) end
        local disposition = 'Content-Disposition: form-data; name="' .. name .. '"'
        if filename then disposition = disposition .. '; filename="' .. filename .. '"' end
        local headers = { disposition, content_type and "Content-Type: " .. content_type }
        parts[first(name) or #parts + 1] = { name = name, value = tostring(value), headers = headers }
    end
    function form:delete(name)
        local kept = {}
        for _, part in ipairs(parts) do
            if part.name ~= name then kept[#kept + 1] = part end
        end
        parts = kept
    end
    function form:tostring()
        if #parts == 0 then return "" end
        local out = {}
        for _, part in ipairs(parts) do
            out[#out + 1] = "--" .. boundary .. "\r\n" .. table.concat(part.headers, "\r\n") .. "\r\n\r\n"
            out[#out + 1] = part.value
            out[#out + 1] = "\r\n"
        end
        return table.concat(out) .. "--" .. boundary .. "--\r\n"
    end
    return form
end
"#;

/// Puts the parts into `helpers`, and gives what makes the object of them.
pub(super) fn fill(
    lua: &Lua,
    (helpers, environment): (&Table, &Table),
    body: &[u8],
    content_type: &[u8],
) -> mlua::Result<Function> {
    let parts = lua.create_table()?;
    for (number, part) in multipart::parts(body, content_type).flatten().enumerate() {
        if number == MAX_PARTS {
            return Err(mlua::Error::runtime(format!("the form has more than {MAX_PARTS} parts")));
        }
        bounds::room()?;
        let entry = lua.create_table()?;
        entry.raw_set("name", lua.create_string(part.name)?)?;
        entry.raw_set("value", bounds::given(|| lua.create_string(part.value))?)?;
        let lines = part.head.split(|&byte| byte == b'\n').map(|line| line.trim_ascii_end());
        let lines: mlua::Result<Vec<_>> = lines.map(|line| lua.create_string(line)).collect();
        entry.raw_set("headers", lua.create_sequence_from(lines?)?)?;
        parts.raw_push(entry)?;
    }
    helpers.raw_set("_multipart", parts)?;
    helpers
        .raw_set("_boundary", lua.create_string(multipart::boundary_of(content_type).unwrap_or_default())?)?;
    chunk::load(lua, EDITOR, "form", environment).map_err(mlua::Error::runtime)?.call(())
}
