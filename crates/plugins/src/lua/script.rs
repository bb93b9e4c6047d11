//! A route's `script` (a table with a function per phase) and `_meta.pre_function`.

use plugin::{BodyChunk, Plugin, Request, Step};

use super::{
    current,
    program::{Phase, Program},
};

pub struct Script(Program);

impl Script {
    pub fn new(source: &str) -> Result<Script, String> {
        super::check(model::check::LuaChunk::Script, source).map_err(|fault| match fault {
            model::check::LuaFault::Load(reason) => format!("failed to load 'script' string: {reason}"),
            model::check::LuaFault::WrongKind => "'script' should be a Lua object".to_owned(),
        })?;
        Ok(Script(Program::script(source)))
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
        current::with_chunk(chunk, || self.0.run_late(request, Phase::BodyFilter));
    }
    fn log(&self, request: &mut Request) {
        self.0.run_late(request, Phase::Log);
    }
}

/// Runs before each phase of the plugin that carries it. What it returns does not matter; its failure is logged.
pub struct PreFunction(Program);

impl PreFunction {
    pub fn new(source: &str, conf: &serde_json::Value) -> Result<PreFunction, String> {
        super::check_function(source)?;
        Ok(PreFunction(Program::new("_meta.pre_function", vec![source.to_owned()], conf.clone())))
    }
}

impl Plugin for PreFunction {
    fn rewrite<'a>(&'a self, request: &'a mut Request) -> Step<'a> {
        self.0.run_before(request, Phase::Rewrite)
    }
    fn access<'a>(&'a self, request: &'a mut Request) -> Step<'a> {
        self.0.run_before(request, Phase::Access)
    }
    fn before_proxy<'a>(&'a self, request: &'a mut Request) -> Step<'a> {
        self.0.run_before(request, Phase::BeforeProxy)
    }
    fn header_filter(&self, request: &mut Request) {
        self.0.run_late(request, Phase::HeaderFilter);
    }
    fn body_filter(&self, request: &mut Request, chunk: &mut BodyChunk) {
        current::with_chunk(chunk, || self.0.run_late(request, Phase::BodyFilter));
    }
    fn log(&self, request: &mut Request) {
        self.0.run_late(request, Phase::Log);
    }
}
