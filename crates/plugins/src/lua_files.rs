//! Lua modules of users: where they are looked for, and what was read of them.
//!
//! Files are read when the process starts, by the thread that starts it: workers load what was read. A module is found as Lua's
//! `package.path` does, by templates with a `?`. What a module requires is found by the calls that its text has, and by those that
//! it makes while it is loaded.

pub(crate) mod functions;
pub mod look;

use std::{
    fs, io,
    path::{Path, PathBuf},
    sync::Arc,
};

use parking_lot::RwLock;
use rustc_hash::{FxHashMap, FxHashSet};
use serde_json::Value;

/// The text of one module.
const MAX_FILE_BYTES: u64 = 1 << 20;
/// Modules of all plugins, and their texts together.
const MAX_MODULES: usize = 512;
const MAX_BYTES: usize = 16 << 20;
/// Templates in the path.
const MAX_TEMPLATES: usize = 64;

/// Where plugins are, as in APISIX.
const PREFIX: &str = "apisix.plugins.";

/// The module of a plugin.
pub fn module_of(plugin: &str) -> String {
    format!("{PREFIX}{plugin}")
}

/// `apisix.extra_lua_path`, taken apart.
#[derive(Clone, Debug, Default)]
pub struct LuaPath {
    templates: Vec<String>,
}

/// A module as it was read.
#[derive(Debug, PartialEq, Eq)]
pub struct Module {
    /// Where it was found.
    pub path: PathBuf,
    /// Its source.
    pub text: Vec<u8>,
}

impl LuaPath {
    /// Templates without a leading slash begin at the prefix. The error names one that no module can be found by.
    pub fn parse(setting: &str, prefix: &Path) -> Result<LuaPath, String> {
        let mut templates = Vec::new();
        for template in setting.split(';').map(str::trim).filter(|template| !template.is_empty()) {
            if !template.contains('?') {
                return Err(format!(
                    "{template} has no ?, in whose place the name of a module goes; write {template}/?.lua"
                ));
            }
            templates.push(prefix.join(template).display().to_string());
        }
        match templates.len() {
            0..=MAX_TEMPLATES => Ok(LuaPath { templates }),
            count => Err(format!("it has {count} templates, at most {MAX_TEMPLATES} are used")),
        }
    }

    /// Whether there is any place to look.
    pub fn is_empty(&self) -> bool {
        self.templates.is_empty()
    }

    /// Where a module of that name would be read from: the first place with anything, whether it can be read or not. What cannot be
    /// read must not make way for another module, nor for a plugin of the gateway.
    pub fn find(&self, module: &str) -> Option<PathBuf> {
        let name = module.replace('.', "/");
        let mut paths = self.templates.iter().map(|template| PathBuf::from(template.replace('?', &name)));
        paths.find(|path| is_taken(path))
    }

    /// The file of a plugin.
    pub fn plugin(&self, name: &str) -> Option<PathBuf> {
        self.find(&module_of(name))
    }

    /// `None`: the module does not exist.
    fn read(&self, module: &str) -> Option<Result<Module, String>> {
        let path = self.find(module)?;
        let read = || -> Result<Module, String> {
            let metadata = fs::metadata(&path).map_err(|error| error.to_string())?;
            if !metadata.is_file() {
                return Err("it is not a regular file".to_owned());
            }
            let bytes = metadata.len();
            if bytes > MAX_FILE_BYTES {
                return Err(format!("it has {bytes} bytes, at most {MAX_FILE_BYTES} are read"));
            }
            let text = fs::read(&path).map_err(|error| error.to_string())?;
            Ok(Module { path: path.clone(), text })
        };
        Some(read().map_err(|reason| format!("{}: {reason}", path.display())))
    }
}

fn is_taken(path: &Path) -> bool {
    use io::ErrorKind::{InvalidFilename, InvalidInput, NotADirectory, NotFound};
    match fs::symlink_metadata(path) {
        Ok(_) => true,
        Err(error) => !matches!(error.kind(), NotFound | NotADirectory | InvalidInput | InvalidFilename),
    }
}

/// Modules by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Modules {
    found: FxHashMap<String, Arc<Module>>,
    bytes: usize,
}

impl Modules {
    /// The module of that name, if it was read.
    pub fn get(&self, name: &str) -> Option<&Arc<Module>> {
        self.found.get(name)
    }

    /// All, with their names.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Module)> {
        self.found.iter().map(|(name, module)| (name.as_str(), module.as_ref()))
    }

    /// Reads a module and those that its text requires. What is not found is an error of the call.
    pub fn gather(&mut self, path: &LuaPath, name: &str) -> Result<(), String> {
        let mut waiting = vec![name.to_owned()];
        while let Some(name) = waiting.pop() {
            if self.found.contains_key(&name) || is_offered(&name) {
                continue;
            }
            let Some(module) = path.read(&name) else { continue };
            let module = module?;
            self.bytes += module.text.len();
            if self.found.len() >= MAX_MODULES || self.bytes > MAX_BYTES {
                return Err(format!(
                    "{}: there are more than {MAX_MODULES} modules, or they have more than {} MiB together",
                    module.path.display(),
                    MAX_BYTES >> 20
                ));
            }
            waiting.extend(look::required(&module.text).map(|(module, _)| module));
            self.found.insert(name, Arc::new(module));
        }
        Ok(())
    }

    /// The modules of all of these plugins that there is a file of; a fault of one is not another's.
    pub fn of_plugins(path: &LuaPath, plugins: &[String]) -> (Modules, Vec<(String, String)>) {
        let (mut modules, mut faults) = (Modules::default(), Vec::new());
        for name in plugins {
            if let Err(reason) = modules.gather(path, &module_of(name)) {
                faults.push((name.clone(), reason));
            }
        }
        (modules, faults)
    }

    /// The modules that a module needs, itself included.
    pub fn reached(&self, name: &str) -> Vec<&Module> {
        let (mut seen, mut waiting, mut reached) = (FxHashSet::default(), vec![name.to_owned()], Vec::new());
        while let Some(name) = waiting.pop() {
            let Some(module) = self.found.get(&name).filter(|_| seen.insert(name.clone())) else { continue };
            waiting.extend(look::required(&module.text).map(|(module, _)| module));
            reached.push(module.as_ref());
        }
        reached
    }
}

/// Whether the gateway itself has a module of this name; a file of the same name does not replace it.
pub(crate) fn is_offered(name: &str) -> bool {
    look::OFFERED.contains(&name)
}

/// What this process has read, and where it looks.
struct Read {
    path: LuaPath,
    modules: Modules,
    settings: Value,
}

static READ: RwLock<Option<Read>> = RwLock::new(None);

/// Makes modules known to the interpreters, and config.yaml. Until [`seal`], what is asked for besides is read as well.
pub(crate) fn provide(path: LuaPath, modules: Modules, settings: Value) {
    *READ.write() = Some(Read { path, modules, settings });
}

/// config.yaml, as plugins in files may ask for it.
pub(crate) fn settings() -> Value {
    READ.read().as_ref().map_or(Value::Null, |read| read.settings.clone())
}

/// From now on no file is read.
pub(crate) fn seal() {
    if let Some(read) = READ.write().as_mut() {
        read.path.templates.clear();
    }
}

/// A module that was read, or is read now.
pub(crate) fn module(name: &str) -> Result<Option<Arc<Module>>, String> {
    if let Some(read) = READ.read().as_ref() {
        let known = read.modules.get(name).cloned();
        if known.is_some() || read.path.is_empty() {
            return Ok(known);
        }
    }
    let mut read = READ.write();
    let Some(Read { path, modules, .. }) = read.as_mut() else { return Ok(None) };
    modules.gather(path, name)?;
    Ok(modules.get(name).cloned())
}

/// Whether the modules that this process has read are as they were, and no other is there for these plugins.
pub fn unchanged(path: &LuaPath, plugins: &[String]) -> bool {
    let (mut now, _) = Modules::of_plugins(path, plugins);
    let read = READ.read();
    let Some(Read { modules: before, .. }) = read.as_ref() else { return now.found.is_empty() };
    // Those that were asked for under names that no text has.
    let asked: Vec<&String> = before.found.keys().filter(|name| !now.found.contains_key(*name)).collect();
    for name in asked {
        let _ = now.gather(path, name);
    }
    now == *before
}

#[cfg(test)]
mod tests;
