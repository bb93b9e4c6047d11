//! Answers with files of a directory.
//!
//! A worker finds a path in the cache of open files and answers at once. What the cache does not hold is opened by the
//! disk threads ([`tidegate_plugin_api::disk`]) while the request waits; large files are sent by `proxy`, which asks them as well.

mod answer;
mod cache;
mod coding;
mod conditions;
mod entry;
mod listing;
mod lookup;
mod open;
mod path;
mod range;
mod try_files;
mod types;

use std::{
    collections::HashMap,
    sync::{Arc, atomic::Ordering},
};

use serde::Deserialize;
use serde_json::Value;
use tidegate_plugin_api::{
    BuildContext, Foresight, Phases, Plugin, PluginDef, Reply, Request, SchemaKind, Step, Why, disk,
    step::Verdict,
};
use tidegate_protocol::Method;

use self::{
    cache::{Cache, Found},
    coding::Coding,
    entry::{Entry, FileLookup},
    lookup::Files,
    try_files::Try,
    types::Types,
};
use crate::common::conf::typed;

pub(crate) static PLUGIN: PluginDef = PluginDef {
    name: "static-files",
    version: 0.1,
    priority: 498,
    guards: false,
    answers: true,
    schema: include_str!("static_files.json"),
    // Behind everything that may refuse a request, whatever its priority.
    phases: Phases::ACCESS.and(Phases::STORED),
    check,
    build,
    start: Some(start),
    for_admins: Some("it reads files of the machine"),
    ..PluginDef::DEFAULT
};

#[derive(Deserialize)]
struct Conf {
    root: String,
    strip_prefix: Option<String>,
    index: Vec<String>,
    try_files: Vec<String>,
    autoindex: bool,
    dotfiles: bool,
    precompressed: Vec<Coding>,
    types: Option<HashMap<String, String>>,
    default_type: String,
    charset: String,
    max_ranges: usize,
    cache: cache::Conf,
}

struct StaticFiles {
    files: Arc<Files>,
    strip_prefix: Box<[u8]>,
    max_ranges: usize,
}

fn start(attributes: &Value) -> Result<(), String> {
    let number = |name: &str, default: u64| match attributes.get(name) {
        None => Ok(default),
        Some(value) => value
            .as_u64()
            .filter(|number| (1..=65_536).contains(number))
            .ok_or_else(|| format!("{name} must be a number from 1 to 65536")),
    };
    disk::configure(number("threads", 4)? as usize, number("queue", 4096)? as usize);
    Ok(())
}

fn check(conf: &Value, _: SchemaKind) -> Result<(), String> {
    let texts = |name: &str| {
        let list = conf.get(name).and_then(Value::as_array).into_iter().flatten();
        list.filter_map(Value::as_str).map(str::to_owned).collect::<Vec<String>>()
    };
    for text in texts("try_files") {
        Try::parse(&text)?;
    }
    for name in texts("index") {
        if name.ends_with('/') || !path::is_safe(name.as_bytes(), true) {
            return Err(format!("index: {name} is not the name of a file in a directory"));
        }
    }
    Ok(())
}

fn build(conf: &Value, _: &BuildContext) -> Result<Arc<dyn Plugin>, String> {
    let conf: Conf = typed(conf)?;
    let tries = conf.try_files.iter().map(|text| Try::parse(text)).collect::<Result<Vec<Try>, String>>()?;
    let cache = Arc::new(Cache::new(&conf.cache));
    cache::look_after(&cache);
    Ok(Arc::new(StaticFiles {
        files: Arc::new(Files {
            root: lookup::absolute_root(&conf.root),
            index: conf.index,
            has_upstream: tries.contains(&Try::Upstream),
            tries,
            autoindex: conf.autoindex,
            dotfiles: conf.dotfiles,
            precompressed: conf.precompressed,
            types: Types::new(conf.types.unwrap_or_default(), conf.default_type, conf.charset),
            small_file_bytes: conf.cache.small_file_bytes,
            cache,
        }),
        strip_prefix: conf.strip_prefix.unwrap_or_default().into_bytes().into(),
        max_ranges: conf.max_ranges,
    }))
}

impl Plugin for StaticFiles {
    fn stored<'a>(&'a self, request: &'a mut Request) -> Step<'a> {
        let path = match self.wanted(request) {
            Ok(path) => path,
            Err(verdict) => return verdict.into(),
        };
        match self.files.cache.get(path, request.started) {
            Found::Fresh(entry) => self.answer(request, &entry).into(),
            Found::Aging(entry) => {
                self.refresh(path, &request.path, &entry);
                self.answer(request, &entry).into()
            }
            Found::Nothing => {
                let path = path.to_vec();
                Step::wait(self.look_up(path, request))
            }
        }
    }

    fn answers_all_in(&self) -> Option<Phases> {
        (!self.files.has_upstream).then_some(Phases::STORED)
    }

    fn foresee(&self, phase: Phases, request: &mut Request) -> Foresight {
        if phase != Phases::STORED {
            return Foresight::Continues;
        }
        match self.wanted(request) {
            Err(verdict) => Foresight::of_step(verdict.into()),
            Ok(_) if self.files.has_upstream => Foresight::maybe(None, Why::Files),
            Ok(_) => Foresight::answers_somehow(Why::Files),
        }
    }
}

impl StaticFiles {
    /// The path below the root; `Err`: what becomes of a request without one.
    fn wanted<'r>(&self, request: &'r Request) -> Result<&'r [u8], Verdict> {
        if !self.files.has_upstream && !is_read(request) {
            return Err(Err(Box::new(not_allowed())));
        }
        let Some(path) = path::relative(&request.path, &self.strip_prefix, self.files.dotfiles) else {
            return Err(if self.files.has_upstream { Ok(()) } else { Err(Box::new(Reply::page(404))) });
        };
        // The directory itself, by a path without a slash at its end: another answer than with one.
        Ok(if path.is_empty() && !request.path.ends_with(b"/") { lookup::ROOT_ITSELF } else { path })
    }

    fn answer(&self, request: &Request, entry: &Entry) -> Verdict {
        Err(Box::new(match entry.outcome {
            FileLookup::Upstream => return Ok(()),
            _ if !is_read(request) => not_allowed(),
            _ => answer::answer(request, &entry.outcome, self.max_ranges),
        }))
    }

    async fn look_up(&self, path: Vec<u8>, request: &Request) -> Verdict {
        let (files, asked_at) = (self.files.clone(), request.started);
        let title = String::from_utf8_lossy(&request.path).into_owned();
        let found = match disk::run(move || files.look_up(&path, &title, asked_at)) {
            Ok(found) => found.await,
            // The disk is slower than what is asked of it.
            Err(disk::Full) => return Err(Box::new(Reply::page(503))),
        };
        match found {
            Some(entry) => self.answer(request, &entry),
            None => Err(Box::new(Reply::page(500))),
        }
    }

    fn refresh(&self, path: &[u8], title: &[u8], entry: &Arc<Entry>) {
        let (files, path, old) = (self.files.clone(), path.to_vec(), entry.clone());
        let title = String::from_utf8_lossy(title).into_owned();
        if disk::enqueue(Box::new(move || files.refresh(&path, &title, &old))).is_err() {
            entry.refreshing.store(false, Ordering::Relaxed);
        }
    }
}

fn is_read(request: &Request) -> bool {
    matches!(request.head.method, Method::Get | Method::Head)
}

fn not_allowed() -> Reply {
    Reply::page(405).header("Allow", "GET, HEAD")
}
