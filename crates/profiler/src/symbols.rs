//! Names of functions, from the tables of symbols: of the program itself, or of the file with its debug information.

use std::{
    collections::HashMap,
    fs::File,
    path::{Path, PathBuf},
    sync::Arc,
};

use object::{Object, ObjectSymbol, ReadCache, ReadRef, SymbolKind};

use crate::{
    modules::{Module, Modules, Source},
    profile::{Frame, ModuleName},
};

/// What is at each of these addresses, which are sorted.
pub(crate) fn frames(modules: &Modules, addresses: &[u64]) -> Vec<Frame> {
    let mut by_module: HashMap<Option<usize>, Vec<u64>> = HashMap::new();
    for address in addresses {
        by_module.entry(modules.position(*address)).or_default().push(*address);
    }
    let mut found = Vec::with_capacity(addresses.len());
    for (position, addresses) in by_module {
        let module = position.and_then(|position| modules.list.get(position));
        let mut functions = module.map(|module| functions(module, &addresses)).unwrap_or_default();
        let name = module.map(|module| Arc::new(named(module)));
        found.extend(addresses.into_iter().map(|address| Frame {
            address,
            module: name.clone(),
            function: functions.remove(&address),
        }));
    }
    found
}

fn named(module: &Module) -> ModuleName {
    ModuleName {
        start: module.range.start,
        end: module.range.end,
        offset: module.offset,
        path: module.path.clone(),
        build_id: module.build_id.clone(),
        bias: module.bias,
    }
}

fn functions(module: &Module, addresses: &[u64]) -> HashMap<u64, String> {
    match &module.source {
        Source::Memory(bytes) => in_file(bytes.as_ref(), module, addresses),
        Source::File(file) => {
            let cache = ReadCache::new(file.as_ref());
            let found = in_file(&cache, module, addresses);
            if !found.is_empty() {
                return found;
            }
            let aside = debug_files(module).into_iter().filter_map(|path| File::open(path).ok());
            let found = aside.map(|file| in_file(&ReadCache::new(&file), module, addresses));
            found.into_iter().find(|found| !found.is_empty()).unwrap_or_default()
        }
    }
}

/// Where debug information may lie beside a program without it.
fn debug_files(module: &Module) -> Vec<PathBuf> {
    let path = Path::new(module.path.trim_end_matches(" (deleted)"));
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".debug");
    let mut files = vec![path.with_file_name(&name), path.with_file_name(".debug").join(&name)];
    if let Some((first, rest)) = module.build_id.split_at_checked(2) {
        files.push(Path::new("/usr/lib/debug/.build-id").join(first).join(format!("{rest}.debug")));
    }
    files
}

/// By address. One pass over the symbols: of tens of thousands, few are asked for.
fn in_file<'data, R: ReadRef<'data>>(data: R, module: &Module, addresses: &[u64]) -> HashMap<u64, String> {
    let mut found = HashMap::new();
    let Ok(file) = object::File::parse(data) else { return found };
    let build_id = file.build_id().ok().flatten().unwrap_or_default();
    if build_id.iter().map(|byte| format!("{byte:02x}")).collect::<String>() != module.build_id {
        return found;
    }
    for symbol in file.symbols().chain(file.dynamic_symbols()) {
        if symbol.kind() != SymbolKind::Text || symbol.size() == 0 {
            continue;
        }
        let start = symbol.address().wrapping_add(module.bias);
        let end = start.saturating_add(symbol.size());
        let first = addresses.partition_point(|address| *address < start);
        for address in addresses.get(first..).unwrap_or_default().iter().take_while(|address| **address < end)
        {
            if !found.contains_key(address)
                && let Ok(name) = symbol.name()
            {
                found.insert(*address, format!("{:#}", rustc_demangle::demangle(name)));
            }
        }
    }
    found
}
