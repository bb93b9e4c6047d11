//! What plugins in files ask of the gateway: modules, schemas, their settings, consumers.

use std::{cell::RefCell, rc::Rc};

use ahash::AHashMap;
use mlua::{Lua, LuaString, Table, Value};
use tidegate_model::Schema;
use tidegate_plugin_api::AuthEntry;

use super::native::native_function;
use crate::{
    lua::{clock, current, json},
    lua_files,
};

/// Compiled schemas that are kept per worker, by their text.
const MAX_SCHEMAS: usize = 64;
/// Steps of checking one value.
const MAX_STEPS: u32 = 200_000;

pub(super) fn install(lua: &Lua, native: &Table) -> mlua::Result<()> {
    native.set(
        "module_source",
        native_function(lua, |lua, name: LuaString| {
            let module = lua_files::module(&name.to_string_lossy()).map_err(mlua::Error::runtime)?;
            module
                .map(|module| Ok((lua.create_string(&module.text)?, module.path.display().to_string())))
                .transpose()
                .map(Option::unzip)
        })?,
    )?;
    native.set(
        "local_conf",
        native_function(lua, |lua, ()| match lua_files::settings() {
            serde_json::Value::Null => Ok(Value::Table(lua.create_table()?)),
            settings => json::to_lua(lua, &settings),
        })?,
    )?;
    install_schemas(lua, native)?;
    install_consumers(lua, native)
}

fn install_schemas(lua: &Lua, native: &Table) -> mlua::Result<()> {
    let compiled = RefCell::new(AHashMap::<String, Rc<Schema>>::new());
    native.set(
        "schema_check",
        native_function(lua, move |lua, (schema, value): (Value, Value)| {
            let failed = |reason: String| Ok((false, Some(reason)));
            let document = match json::from_lua(lua, &schema, false) {
                Ok(document) => json::as_schema(document),
                Err(reason) => return failed(reason),
            };
            let text = document.to_string();
            let known = compiled.borrow().get(&text).cloned();
            let schema = match known {
                Some(schema) => schema,
                None => match Schema::compile(&document) {
                    Ok(schema) => {
                        let schema = Rc::new(schema);
                        let mut compiled = compiled.borrow_mut();
                        if compiled.len() >= MAX_SCHEMAS {
                            compiled.clear();
                        }
                        compiled.insert(text, schema.clone());
                        schema
                    }
                    Err(reason) => return failed(reason),
                },
            };
            let mut checked = match json::from_lua(lua, &value, false) {
                Ok(checked) => checked,
                Err(reason) => return failed(reason),
            };
            let searches = tidegate_backtrack::SearchTime::of(clock::time_limit());
            if let Err(failure) = schema.check_within(&mut checked, MAX_STEPS, &searches) {
                clock::check_time()?;
                return failed(failure.into_message());
            }
            fill(lua, &value, &checked)?;
            Ok((true, None))
        })?,
    )
}

/// Puts the defaults that a check filled in into the table that was checked.
fn fill(lua: &Lua, value: &Value, checked: &serde_json::Value) -> mlua::Result<()> {
    let Value::Table(table) = value else { return Ok(()) };
    match checked {
        serde_json::Value::Object(members) => {
            for (name, member) in members {
                match table.raw_get::<Value>(name.as_str())? {
                    Value::Nil => table.raw_set(name.as_str(), json::to_lua(lua, member)?)?,
                    inner => fill(lua, &inner, member)?,
                }
            }
        }
        serde_json::Value::Array(items) => {
            for (place, item) in (1..).zip(items) {
                fill(lua, &table.raw_get::<Value>(place)?, item)?;
            }
        }
        _ => {}
    }
    Ok(())
}

fn install_consumers(lua: &Lua, native: &Table) -> mlua::Result<()> {
    native.set(
        "consumers_version",
        native_function(lua, |_, plugin: String| {
            current::read(|request| {
                let known = request.snapshot.consumers.index(&plugin);
                known.map(|_| request.snapshot.revision)
            })
        })?,
    )?;
    native.set("consumer_find", native_function(lua, find_consumer)?)?;
    native.set(
        "consumers_all",
        native_function(lua, |lua, plugin: String| {
            let all = current::read(|request| {
                let index = request.snapshot.consumers.index(&plugin);
                index.map(|index| index.iter().cloned().collect::<Vec<_>>()).unwrap_or_default()
            })?;
            let list = lua.create_table()?;
            for entry in all {
                clock::check_time()?;
                list.push(consumer(lua, &entry)?)?;
            }
            Ok(list)
        })?,
    )?;
    native.set(
        "consumer_attach",
        native_function(lua, |_, (name, credential): (String, Option<String>)| {
            current::edit(|request| {
                let known = request.snapshot.consumers.by_name(&name).cloned();
                let Some(known) = known else { return false };
                request.attach_consumer(&known, credential.map(Into::into));
                true
            })
        })?,
    )?;
    native.set(
        "consumer_named",
        native_function(lua, |lua, name: String| {
            let known = current::read(|request| {
                request.snapshot.consumers.by_name(&name).map(|one| one.document.clone())
            })?;
            known.map(|document| json::to_lua(lua, &document.value())).transpose()
        })?,
    )
}

/// By the field that the plugin's consumers are found by, or by another one, for which all are looked through.
fn find_consumer(lua: &Lua, (plugin, field, value): (String, String, Value)) -> mlua::Result<Option<Table>> {
    // As keys of tables: a number is not the text that looks like it.
    let Some(wanted) = key(&value) else { return Ok(None) };
    let found = current::read(|request| {
        let index = request.snapshot.consumers.index(&plugin)?;
        let has = |entry: &AuthEntry| match entry.value.get(&field) {
            Some(serde_json::Value::Number(number)) => number.as_f64() == wanted.as_f64(),
            Some(text) => *text == wanted,
            None => false,
        };
        let first = wanted.as_str().and_then(|text| index.find(text)).filter(|entry| has(entry));
        let found = first.or_else(|| {
            let late = |number: usize| number.is_multiple_of(512) && clock::expired();
            let mut all = index.iter().enumerate();
            all.find(|(number, entry)| late(*number) || has(entry)).map(|(_, entry)| entry)
        });
        found.cloned()
    })?;
    clock::check_time()?;
    found.map(|entry| consumer(lua, &entry)).transpose()
}

/// What consumers can be found by.
fn key(value: &Value) -> Option<serde_json::Value> {
    match value {
        Value::String(text) => Some(text.to_string_lossy().into()),
        Value::Integer(number) => Some((*number as f64).into()),
        Value::Number(number) => Some((*number).into()),
        Value::Boolean(value) => Some((*value).into()),
        _ => None,
    }
}

/// As APISIX's `consumer` module has them.
fn consumer(lua: &Lua, entry: &AuthEntry) -> mlua::Result<Table> {
    let owner = &entry.consumer;
    let table = match json::to_lua(lua, &owner.document.value())? {
        Value::Table(table) => table,
        _ => lua.create_table()?,
    };
    let name = &*owner.username;
    table.raw_set("username", name)?;
    table.raw_set("id", name)?;
    table.raw_set("consumer_name", name)?;
    table.raw_set("group_id", owner.group_id.as_deref())?;
    table.raw_set("custom_id", owner.custom_id.as_deref())?;
    table.raw_set("credential_id", entry.credential_id.as_deref())?;
    table.raw_set("modifiedIndex", owner.version)?;
    table.raw_set("auth_conf", json::to_lua(lua, &entry.value)?)?;
    Ok(table)
}
