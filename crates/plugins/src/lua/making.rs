//! Lua values of documents, made one after the other, so that waiting tasks get a turn in between.
//!
//! A document of 16 MB has some hundred thousand values: they would keep a worker for 60 ms. Tables that are not filled yet
//! are kept in a list, not on the stack: the work can stop at each value.

use std::{collections::HashSet, sync::Arc};

use mlua::{Lua, Table, Value};

use super::{array, bounds};

/// Values between two checks whether to continue.
const VALUES_PER_LOOK: usize = 256;

/// A value that is to be made, and what is in it.
pub(crate) enum Source<'d> {
    Null,
    Boolean(bool),
    Number(f64),
    Text(&'d str),
    Table(Entries<'d>),
}

/// What a table is filled with.
pub(crate) struct Entries<'d> {
    /// At places from 1 on, and under names: how much room is made for them.
    pub items: usize,
    pub members: usize,
    /// cjson takes it for an array even when it is empty.
    pub is_array: bool,
    pub each: Box<dyn Iterator<Item = (Key<'d>, Source<'d>)> + 'd>,
}

#[derive(Clone, Copy)]
pub(crate) enum Key<'d> {
    Place(usize),
    Name(&'d str),
}

impl<'d> Source<'d> {
    pub(crate) fn of_json(value: &'d serde_json::Value) -> Source<'d> {
        match value {
            serde_json::Value::Null => Source::Null,
            serde_json::Value::Bool(value) => Source::Boolean(*value),
            serde_json::Value::Number(number) => Source::Number(number.as_f64().unwrap_or_default()),
            serde_json::Value::String(text) => Source::Text(text),
            serde_json::Value::Array(items) => {
                let each = items.iter().map(Source::of_json);
                let list = Source::list(items.len(), each);
                Source::Table(Entries { is_array: true, ..list })
            }
            serde_json::Value::Object(members) => {
                let each = members.iter().map(|(name, member)| (Key::Name(name), Source::of_json(member)));
                Source::Table(Entries {
                    items: 0,
                    members: members.len(),
                    is_array: false,
                    each: Box::new(each),
                })
            }
        }
    }

    pub(crate) fn list(items: usize, each: impl Iterator<Item = Source<'d>> + 'd) -> Entries<'d> {
        let each = (1..).zip(each).map(|(place, item)| (Key::Place(place), item));
        Entries { items, members: 0, is_array: false, each: Box::new(each) }
    }
}

/// A table that is being filled, and where it belongs.
struct Open<'d> {
    table: Table,
    key: Key<'d>,
    is_array: bool,
    each: Box<dyn Iterator<Item = (Key<'d>, Source<'d>)> + 'd>,
}

pub(crate) struct Making<'d> {
    lua: Lua,
    array: Table,
    first: Option<Source<'d>>,
    open: Vec<Open<'d>>,
    values: usize,
    /// Members under other names are left out.
    only: Option<Arc<HashSet<Box<str>>>>,
}

impl<'d> Making<'d> {
    pub(super) fn new(lua: &Lua, source: Source<'d>) -> mlua::Result<Making<'d>> {
        Making::of_members(lua, source, None)
    }

    /// As [`Making::new`], with the members of these names, at any depth.
    pub(crate) fn of_members(
        lua: &Lua,
        source: Source<'d>,
        only: Option<Arc<HashSet<Box<str>>>>,
    ) -> mlua::Result<Making<'d>> {
        let array = array::metatable(lua)?;
        Ok(Making { lua: lua.clone(), array, first: Some(source), open: Vec::new(), values: 0, only })
    }

    fn is_left_out(&self, key: Key<'_>) -> bool {
        match (key, &self.only) {
            (Key::Name(name), Some(only)) => !only.contains(name),
            _ => false,
        }
    }

    /// Continues until the value is there, or as long as `may_go_on` says so.
    pub(super) fn advance(
        &mut self,
        mut may_go_on: impl FnMut() -> mlua::Result<bool>,
    ) -> mlua::Result<Option<Value>> {
        if let Some(first) = self.first.take()
            && let Some(value) = self.make(Key::Place(0), first)?
        {
            return Ok(Some(value));
        }
        loop {
            self.values += 1;
            if self.values.is_multiple_of(VALUES_PER_LOOK) {
                if self.lua.used_memory() > bounds::MAX_BYTES {
                    return Err(mlua::Error::runtime("memory limit exceeded"));
                }
                if !may_go_on()? {
                    return Ok(None);
                }
            }
            let Some(open) = self.open.last_mut() else { return Ok(Some(Value::Nil)) };
            match open.each.next() {
                Some((key, _)) if self.is_left_out(key) => {}
                Some((key, source)) => {
                    if let Some(value) = self.make(key, source)? {
                        self.put(key, value)?;
                    }
                }
                None => {
                    let Some(Open { table, key, is_array, .. }) = self.open.pop() else { continue };
                    if is_array {
                        table.set_metatable(Some(self.array.clone()))?;
                    }
                    if self.open.is_empty() {
                        return Ok(Some(Value::Table(table)));
                    }
                    self.put(key, Value::Table(table))?;
                }
            }
        }
    }

    /// The value; `None` for a table, which is filled from now on.
    fn make(&mut self, key: Key<'d>, source: Source<'d>) -> mlua::Result<Option<Value>> {
        Ok(Some(match source {
            Source::Null => Value::NULL,
            Source::Boolean(value) => Value::Boolean(value),
            Source::Number(value) => Value::Number(value),
            Source::Text(text) => Value::String(self.lua.create_string(text)?),
            Source::Table(Entries { items, members, is_array, each }) => {
                let members = self.only.as_ref().map_or(members, |only| members.min(only.len()));
                let table = self.lua.create_table_with_capacity(items, members)?;
                self.open.push(Open { table, key, is_array, each });
                return Ok(None);
            }
        }))
    }

    fn put(&self, key: Key<'_>, value: Value) -> mlua::Result<()> {
        let Some(Open { table, .. }) = self.open.last() else { return Ok(()) };
        match key {
            Key::Place(place) => table.raw_set(place, value),
            Key::Name(name) => table.raw_set(name, value),
        }
    }
}
