//! Functions of answers that the gateway makes itself: each gets status, body and headers, and returns what is sent.

use std::rc::Rc;

use bytes::Bytes;
use mlua::{Lua, MultiValue, Value};
use tidegate_plugin_api::Request;

use super::{
    api, chunk, clock,
    current::{self, Phase},
    ending::{final_status, number},
    json,
    program::{Program, context, enter, spend, time_of},
    vm::{self, Vm},
};

pub(crate) enum Body {
    Text(Bytes),
    Document(serde_json::Value),
}

pub(crate) struct Answer {
    pub status: u16,
    /// `None`: the page of the status.
    pub body: Option<Body>,
}

/// What the functions made of an answer.
pub(crate) struct Remade {
    pub status: u16,
    pub body: Option<Vec<u8>>,
    pub headers: Vec<(Vec<u8>, Vec<Vec<u8>>)>,
}

/// Status, body and headers.
type Values = [Value; 3];

pub(crate) struct Exits(Program);

impl Exits {
    pub(crate) fn new(name: &'static str, sources: Vec<String>) -> Exits {
        Exits(Program::of_answers(name, sources))
    }

    /// Whether Lua can load it.
    pub(crate) fn check(source: &str) -> Result<(), String> {
        let vm = vm::vm()?;
        let environment = vm.new_environment.call(()).map_err(|error| chunk::message(&error))?;
        let loaded = chunk::load(&vm.lua, source, source, &environment);
        vm::forget_checked();
        loaded.map(|_| ()).map_err(|reason| format!("failed to loadstring: {reason}"))
    }

    /// Passes an answer through the functions. `None`: it stays as it is, because they returned something else.
    pub(crate) fn remake(&self, request: &mut Request, answer: Answer) -> Option<Remade> {
        self.run(request, answer).inspect_err(|error| self.0.log(error)).ok()
    }

    /// All functions share the time of one call.
    fn run(&self, request: &mut Request, answer: Answer) -> mlua::Result<Remade> {
        let vm = vm::vm().map_err(mlua::Error::runtime)?;
        let time = time_of(request, Phase::Rewrite)?;
        let remade = clock::limited_by(time, || self.run_all(&vm, request, answer).map_err(clock::in_time));
        spend(request, clock::lasted(), clock::ran_out());
        vm::tidy(&vm);
        remade
    }

    fn run_all(&self, vm: &Rc<Vm>, request: &mut Request, answer: Answer) -> mlua::Result<Remade> {
        let loaded = self.0.loaded(vm)?;
        let context = context(vm, request)?;
        let body = match answer.body {
            None => Value::Nil,
            Some(Body::Text(text)) => Value::String(vm.lua.create_string(&text)?),
            Some(Body::Document(document)) => json::to_lua(&vm.lua, &document)?,
        };
        let headers = Value::Table(vm.lua.create_table()?);
        let mut values = [Value::Integer(answer.status.into()), body, headers];
        for function in &loaded.functions {
            let argument = vm.lua.create_table_with_capacity(values.len(), 0)?;
            for (place, value) in (1..).zip(&values) {
                argument.raw_set(place, value)?;
            }
            let returned = enter(request, Phase::Rewrite, || {
                vm.run.call::<MultiValue>((function, argument, &context, &loaded.environment))
            });
            match ended(returned) {
                Ok(returned) => values = returned,
                Err(error) if clock::expired() => return Err(error),
                Err(error) => self.0.log(&error),
            }
        }
        remade(&vm.lua, &values)
    }
}

/// What one call returned. It answers in no other way.
fn ended(returned: mlua::Result<MultiValue>) -> mlua::Result<Values> {
    let said = current::call(|call| {
        call.status.set(0);
        call.exit.take().is_some() | !call.output.take().is_empty()
    });
    if said {
        return Err(mlua::Error::runtime(
            "ngx.exit, ngx.say and ngx.print do nothing here: return what is sent",
        ));
    }
    let mut returned = returned?.into_iter();
    Ok(std::array::from_fn(|_| returned.next().unwrap_or(Value::Nil)))
}

fn remade(lua: &Lua, [status, body, headers]: &Values) -> mlua::Result<Remade> {
    let status =
        number(status).ok_or_else(|| mlua::Error::runtime("the status that was returned is not a number"))?;
    let status = match final_status(status)? {
        0 => return Err(mlua::Error::runtime("0 is not a status that ends a request")),
        status => status,
    };
    let body = match body {
        Value::Nil => None,
        Value::Table(_) => {
            let text = json::from_lua(lua, body, false).and_then(|document| json::written(&document));
            let mut text =
                text.map_err(|reason| mlua::Error::runtime(format!("failed to encode data: {reason}")))?;
            text.push(b'\n');
            Some(text)
        }
        other => {
            let mut text = Vec::new();
            api::append(other, &mut text, 0)?;
            Some(text)
        }
    };
    Ok(Remade { status, body, headers: api::response_fields(headers)? })
}
