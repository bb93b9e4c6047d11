//! Lua functions of a configuration that run in one phase.

use std::sync::Arc;

use serde::Deserialize;
use serde_json::Value;
use tidegate_plugin_api::{BodyChunk, Foresight, Phases, Plugin, PluginDef, Request, SchemaKind, Step, Why};

use crate::{
    common::conf::typed,
    lua::{self, Phase, Program},
    lua_files::look,
};

/// Of one function.
const MOST_SAID: usize = 3;

const ALL_PHASES: Phases = Phases::REWRITE
    .and(Phases::ACCESS)
    .and(Phases::BEFORE_PROXY)
    .and(Phases::HEADER_FILTER)
    .and(Phases::BODY_FILTER)
    .and(Phases::LOG);

/// What the plugins have in common.
pub(super) const DEFINITION: PluginDef =
    PluginDef { phases: ALL_PHASES, for_admins: Some("it is code"), check, remarks, ..PluginDef::DEFAULT };

/// Calls that are not available: such a function fails, and the request is answered 500.
fn remarks(conf: &Value) -> Vec<String> {
    let functions = conf.get("functions").and_then(Value::as_array).into_iter().flatten().enumerate();
    let texts = functions.filter_map(|(at, function)| Some((at, function.as_str()?)));
    // Which modules the files of config.yaml have is not known here.
    let said = texts.flat_map(|(at, text)| {
        let found = look::remarks(text.as_bytes(), |_| true).into_iter().take(MOST_SAID);
        found.map(move |remark| format!("functions[{at}]: line {}: {}", remark.line, remark.text))
    });
    said.collect()
}

#[derive(Deserialize)]
struct Conf {
    phase: String,
    functions: Vec<String>,
}

fn check(conf: &Value, kind: SchemaKind) -> Result<(), String> {
    if kind != SchemaKind::Plugin {
        return Ok(());
    }
    let functions = conf.get("functions").and_then(Value::as_array).into_iter().flatten();
    functions.filter_map(Value::as_str).try_for_each(lua::check_function)
}

pub(super) fn build(name: &'static str, conf: &Value) -> Result<Arc<dyn Plugin>, String> {
    let typed: Conf = typed(conf)?;
    let phase = match typed.phase.as_str() {
        "rewrite" => Phase::Rewrite,
        "access" => Phase::Access,
        "before_proxy" => Phase::BeforeProxy,
        "header_filter" => Phase::HeaderFilter,
        "body_filter" => Phase::BodyFilter,
        "log" => Phase::Log,
        other => return Err(format!("unknown phase {other}")),
    };
    Ok(Arc::new(Serverless { phase, program: Program::new(name, typed.functions, conf.clone()) }))
}

struct Serverless {
    phase: Phase,
    program: Program,
}

impl Serverless {
    fn run<'a>(&'a self, request: &'a mut Request, phase: Phase) -> Step<'a> {
        if self.phase == phase { self.program.run(request, phase) } else { Step::Next }
    }
}

impl Plugin for Serverless {
    fn phases(&self) -> Phases {
        match self.phase {
            Phase::Rewrite => Phases::REWRITE,
            Phase::Access => Phases::ACCESS,
            Phase::BeforeProxy => Phases::BEFORE_PROXY,
            Phase::HeaderFilter => Phases::HEADER_FILTER,
            // The head must not promise a length that the function may change.
            Phase::BodyFilter => Phases::HEADER_FILTER.and(Phases::BODY_FILTER),
            _ => Phases::LOG,
        }
    }

    fn rewrite<'a>(&'a self, request: &'a mut Request) -> Step<'a> {
        self.run(request, Phase::Rewrite)
    }

    fn access<'a>(&'a self, request: &'a mut Request) -> Step<'a> {
        self.run(request, Phase::Access)
    }

    fn before_proxy<'a>(&'a self, request: &'a mut Request) -> Step<'a> {
        self.run(request, Phase::BeforeProxy)
    }

    fn header_filter(&self, request: &mut Request) {
        match self.phase {
            Phase::HeaderFilter => self.program.run_late(request, Phase::HeaderFilter),
            Phase::BodyFilter => request.response.length_modified(),
            _ => {}
        }
    }

    fn body_filter(&self, request: &mut Request, chunk: &mut BodyChunk) {
        if self.phase == Phase::BodyFilter {
            self.program.run_on_chunk(request, chunk, Phase::BodyFilter);
        }
    }

    fn log(&self, request: &mut Request) {
        if self.phase == Phase::Log {
            self.program.run_late(request, Phase::Log);
        }
    }

    fn foresee(&self, _: Phases, _: &mut Request) -> Foresight {
        Foresight::maybe(None, Why::Runs)
    }

    fn may_change_status(&self) -> bool {
        matches!(self.phase, Phase::HeaderFilter)
    }
}
