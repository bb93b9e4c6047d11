//! A route's `script` (a table with a function per phase) and `_meta.pre_function`.

use tidegate_plugin_api::{BodyChunk, Foresight, Phases, Plugin, Request, Step, Why};

use super::{
    check,
    program::{Phase, Program},
};

pub(super) struct Script(Program);

impl Script {
    pub(super) fn new(source: &str) -> Result<Script, String> {
        match check::check(tidegate_model::check::LuaChunk::Script, source) {
            Ok(()) => Ok(Script(Program::script(source))),
            Err(tidegate_model::check::LuaFault::Load(reason)) => {
                Err(format!("failed to load 'script' string: {reason}"))
            }
            // APISIX serves such a route without its script, which may be all that guards it.
            Err(tidegate_model::check::LuaFault::WrongKind) => {
                Err("'script' should be a Lua object: the chunk returns no table of functions".to_owned())
            }
        }
    }
}

impl Plugin for Script {
    fn rewrite<'a>(&'a self, request: &'a mut Request) -> Step<'a> {
        self.0.run(request, Phase::Rewrite)
    }
    fn access<'a>(&'a self, request: &'a mut Request) -> Step<'a> {
        self.0.run(request, Phase::Access)
    }
    fn header_filter(&self, request: &mut Request) {
        self.0.run_late(request, Phase::HeaderFilter);
    }
    fn body_filter(&self, request: &mut Request, chunk: &mut BodyChunk) {
        self.0.run_on_chunk(request, chunk, Phase::BodyFilter);
    }
    fn log(&self, request: &mut Request) {
        self.0.run_late(request, Phase::Log);
    }

    fn foresee(&self, _: Phases, _: &mut Request) -> Foresight {
        Foresight::maybe(None, Why::Runs)
    }

    fn may_change_status(&self) -> bool {
        true
    }
}

/// Runs before each phase of the plugin that carries it. What it returns does not matter; `ngx.exit` and its
/// failure end the request while that can be answered.
pub(super) struct PreFunction(Program);

impl PreFunction {
    pub(super) fn new(source: &str, conf: &serde_json::Value) -> Result<PreFunction, String> {
        check::check_function(source)?;
        Ok(PreFunction(Program::before(source, conf.clone())))
    }
}

impl Plugin for PreFunction {
    fn rewrite<'a>(&'a self, request: &'a mut Request) -> Step<'a> {
        self.0.run(request, Phase::Rewrite)
    }
    fn access<'a>(&'a self, request: &'a mut Request) -> Step<'a> {
        self.0.run(request, Phase::Access)
    }
    fn before_proxy<'a>(&'a self, request: &'a mut Request) -> Step<'a> {
        self.0.run(request, Phase::BeforeProxy)
    }
    fn header_filter(&self, request: &mut Request) {
        self.0.run_late(request, Phase::HeaderFilter);
    }
    fn body_filter(&self, request: &mut Request, chunk: &mut BodyChunk) {
        self.0.run_on_chunk(request, chunk, Phase::BodyFilter);
    }
    fn log(&self, request: &mut Request) {
        self.0.run_late(request, Phase::Log);
    }
}
