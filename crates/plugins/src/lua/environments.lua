-- What functions see of the libraries: views, so that what one configuration deletes or overwrites stays its own.
-- Returns what the prelude builds with.
local native = ...

local type, pairs, next, error, pcall, setmetatable, getmetatable0, rawset0, rawget, setfenv0, getfenv0 =
    type, pairs, next, error, pcall, setmetatable, getmetatable, rawset, rawget, setfenv, getfenv
local floor = math.floor
local base = _G

-- Libraries, each with the metatable of its views.
local views = {}
-- Tables of all configurations: nothing is written into them but by their own functions.
local closed = {}
-- Metatables of values that functions get: not theirs to change.
local hidden = {}
-- Tables of which each configuration gets one of its own.
local fresh = {}
-- Fields that change from call to call.
local dynamic = {}

local function found(mine, key, value)
    if value == nil then return nil end
    if views[value] then
        value = setmetatable({}, views[value])
    elseif fresh[value] then
        value = fresh[value]()
    end
    rawset0(mine, key, value)
    return value
end

-- What a view was asked for stays in it: the next time it is found at once.
local function view_of(library)
    local own = getmetatable0(library)
    local call = type(own) == "table" and own.__call or nil
    return {
        __call = call and function(_, ...) return call(library, ...) end,
        __index = function(mine, key)
            local value = library[key]
            if dynamic[library] and dynamic[library][key] then return value end
            return found(mine, key, value)
        end,
        __pairs = function(mine)
            for key in pairs(library) do local _ = mine[key] end
            return next, mine, nil
        end,
        __metatable = false,
    }
end

local environments = { dynamic = dynamic, fresh = fresh }

-- Makes libraries of a table and of those in it.
function environments.share(library)
    if views[library] or closed[library] or fresh[library] then return end
    views[library] = view_of(library)
    for _, value in pairs(library) do
        if type(value) == "table" then environments.share(value) end
    end
end
function environments.view_metatable(library) return views[library] end
function environments.close(shared)
    closed[shared] = true
    return shared
end
function environments.hide(metatable)
    hidden[metatable] = true
    return metatable
end

-- What differs from one environment to the next, made where it is first used.
local makers = {}
function makers._G(env) return env end
function makers.loadstring(env)
    return function(source, name) return native.load(source, name, env) end
end
function makers.load(env)
    return function(source, name, _, into)
        if type(source) == "function" then
            local parts = {}
            for part in source do
                if part == "" then break end
                parts[#parts + 1] = part
            end
            source = base.table.concat(parts)
        end
        return native.load(source, name, into or env)
    end
end
-- All that there are: a function's globals are for its own configuration.
local all = setmetatable({}, { __mode = "k" })
local function is_of_others(globals, env) return globals == base or (all[globals] and globals ~= env) end
function makers.getfenv(env)
    return function(where)
        local of
        if type(where) == "function" then
            of = getfenv0(where)
        else
            local level = floor(tonumber(where) or 1)
            if level < 1 then return env end
            of = getfenv0(level + 1)
        end
        return is_of_others(of, env) and env or of
    end
end
function makers.setfenv(env)
    return function(where, environment)
        if type(where) ~= "function" then
            local level = floor(tonumber(where) or 0)
            if level < 1 then error("the environment of all functions cannot be replaced", 2) end
            if not is_of_others(getfenv0(level + 1), env) then
                -- Level 1 is the caller of this function. No tail call, which would take its level away.
                local changed = setfenv0(level + 1, environment)
                return changed
            end
        elseif not is_of_others(getfenv0(where), env) then
            return setfenv0(where, environment)
        end
        error("the environment of a function of the gateway, or of another configuration, cannot be replaced", 2)
    end
end

local modules
local loaded_metatable = {
    __index = function(loaded, name) return found(loaded, name, modules[name]) end, __metatable = false,
}
-- Environments whose `require` looks for files as well.
local with_files = setmetatable({}, { __mode = "k" })
local loading = {}
local function load_file(env, loaded, name)
    local text, path = native.module_source(name)
    if not text then
        error("module '" .. name .. "' not found: it is neither among those of the guide nor in apisix.extra_lua_path", 3)
    end
    local chunk, reason = native.load(text, "@" .. path, env)
    if not chunk then error(reason, 0) end
    loaded[name] = loading
    local ok, value = pcall(chunk, name)
    if not ok then
        loaded[name] = nil
        error(value, 0)
    end
    if value ~= nil then
        loaded[name] = value
    elseif loaded[name] == loading then
        loaded[name] = true
    end
    return loaded[name]
end
local function packages(env)
    local loaded = setmetatable({}, loaded_metatable)
    rawset0(env, "package", { loaded = loaded, path = "", cpath = "", preload = {} })
    rawset0(env, "require", function(name)
        local module = loaded[name]
        if module == loading then error("loop or previous error loading module '" .. name .. "'", 2) end
        if module ~= nil then return module end
        if with_files[env] and type(name) == "string" then
            local found = load_file(env, loaded, name)
            return found
        end
        error("module '" .. tostring(name) .. "' not found: only those of the guide are offered", 2)
    end)
end
function makers.require(env)
    packages(env)
    return rawget(env, "require")
end
function makers.package(env)
    packages(env)
    return rawget(env, "package")
end

local environment_metatable = {
    __index = function(env, key)
        local make = makers[key]
        if make then
            local value = make(env)
            rawset0(env, key, value)
            return value
        end
        return found(env, key, base[key])
    end,
    __metatable = false,
}

-- Globals of one configuration.
function environments.new(has_files)
    local env = setmetatable({}, environment_metatable)
    with_files[env] = has_files
    all[env] = true
    return env
end
function environments.has_files(env) return with_files[env] == true end

-- Once everything is there.
function environments.finish(all)
    modules = all
    base.package, base.require, base.load, base.loadstring, base.getfenv, base.setfenv = nil
    for _, module in pairs(modules) do
        if type(module) == "table" then environments.share(module) end
    end
    for name, value in pairs(base) do
        if type(value) == "table" and value ~= base then environments.share(value) end
    end
    function base.getmetatable(value)
        local metatable = getmetatable0(value)
        if hidden[metatable] then return nil end
        return metatable
    end
    function base.rawset(t, key, value)
        if closed[t] then error("this table belongs to all functions", 2) end
        return rawset0(t, key, value)
    end
end

return environments
