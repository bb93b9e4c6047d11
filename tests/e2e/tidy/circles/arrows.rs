//! Which files of a crate name items of which others.

use std::collections::{BTreeMap, BTreeSet};

use proc_macro2::{TokenStream, TokenTree};
use syn::visit::{self, Visit};
use syn::{Attribute, ImplItemFn, Item, ItemUse, Macro, Path, UseTree};

use super::modules::{Binding, FileId, ModuleId, Tree, attributes, is_reexport, is_test};

/// From a file to those whose items it names, with the names.
pub(super) type Arrows = BTreeMap<FileId, BTreeMap<FileId, BTreeSet<String>>>;

/// Chains of `use` are short; names that lead back to themselves end here.
const LONGEST_CHAIN: usize = 16;

pub(super) fn arrows(tree: &Tree) -> Arrows {
    let mut found = Arrows::new();
    for (id, module) in tree.modules.iter().enumerate() {
        let mut reader = Reader { tree, module: id, found: &mut found };
        for item in &module.items {
            reader.visit_item(item);
        }
    }
    found
}

struct Reader<'a> {
    tree: &'a Tree,
    module: ModuleId,
    found: &'a mut Arrows,
}

impl Reader<'_> {
    fn names(&mut self, path: &[String]) {
        let from = self.tree.modules[self.module].file;
        let mut files = BTreeSet::new();
        self.tree.resolve(self.module, path, 0, &mut files);
        for to in files.into_iter().filter(|to| *to != from) {
            let name = path.join("::");
            self.found.entry(from).or_default().entry(to).or_default().insert(name);
        }
    }

    fn names_in_use(&mut self, mut path: Vec<String>, tree: &UseTree) {
        match tree {
            UseTree::Path(next) => {
                path.push(next.ident.to_string());
                self.names_in_use(path, &next.tree);
            }
            UseTree::Name(last) if last.ident != "self" => {
                path.push(last.ident.to_string());
                self.names(&path);
            }
            UseTree::Rename(last) if last.ident != "self" => {
                path.push(last.ident.to_string());
                self.names(&path);
            }
            UseTree::Name(_) | UseTree::Rename(_) | UseTree::Glob(_) => {}
            UseTree::Group(group) => {
                for tree in &group.items {
                    self.names_in_use(path.clone(), tree);
                }
            }
        }
    }

    /// Paths in what only a macro understands.
    fn names_in_tokens(&mut self, tokens: TokenStream) {
        let mut path: Vec<String> = Vec::new();
        let mut colons = 0;
        let mut is_member = false;
        for token in tokens {
            match token {
                TokenTree::Ident(word) if colons == 2 || path.is_empty() => {
                    path.push(word.to_string());
                    colons = 0;
                }
                TokenTree::Punct(sign) if sign.as_char() == ':' && !path.is_empty() && colons < 2 => {
                    colons += 1;
                }
                other => {
                    self.end_of_path(&mut path, is_member);
                    colons = 0;
                    is_member = false;
                    match other {
                        TokenTree::Ident(word) => path.push(word.to_string()),
                        TokenTree::Group(group) => self.names_in_tokens(group.stream()),
                        TokenTree::Punct(sign) => is_member = sign.as_char() == '.' || sign.as_char() == '\'',
                        TokenTree::Literal(_) => {}
                    }
                }
            }
        }
        self.end_of_path(&mut path, is_member);
    }

    fn end_of_path(&mut self, path: &mut Vec<String>, is_member: bool) {
        if !path.is_empty() && !is_member {
            self.names(path);
        }
        path.clear();
    }

    /// `#[serde(deserialize_with = "crate::…")]`.
    fn names_in_literals(&mut self, tokens: TokenStream) {
        for token in tokens {
            match token {
                TokenTree::Group(group) => self.names_in_literals(group.stream()),
                TokenTree::Literal(text) => {
                    let text = text.to_string();
                    if let Ok(path) = syn::parse_str::<Path>(text.trim_matches('"'))
                        && path.segments.len() > 1
                    {
                        self.visit_path(&path);
                    }
                }
                _ => {}
            }
        }
    }
}

impl<'ast> Visit<'ast> for Reader<'_> {
    fn visit_item(&mut self, item: &'ast Item) {
        if !is_test(attributes(item)) {
            visit::visit_item(self, item);
        }
    }

    fn visit_impl_item_fn(&mut self, function: &'ast ImplItemFn) {
        if !is_test(&function.attrs) {
            visit::visit_impl_item_fn(self, function);
        }
    }

    fn visit_item_use(&mut self, item: &'ast ItemUse) {
        if item.leading_colon.is_none() && !is_reexport(item) {
            self.names_in_use(Vec::new(), &item.tree);
        }
    }

    fn visit_path(&mut self, path: &'ast Path) {
        if path.leading_colon.is_none() {
            let names: Vec<String> = path.segments.iter().map(|part| part.ident.to_string()).collect();
            self.names(&names);
        }
        visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, call: &'ast Macro) {
        self.visit_path(&call.path);
        self.names_in_tokens(call.tokens.clone());
    }

    fn visit_attribute(&mut self, attribute: &'ast Attribute) {
        if let Ok(list) = attribute.meta.require_list() {
            self.names_in_literals(list.tokens.clone());
        }
    }
}

impl Tree {
    /// The files that define what `path` names when `module` says it.
    fn resolve(&self, module: ModuleId, path: &[String], depth: usize, files: &mut BTreeSet<FileId>) {
        let Some((first, rest)) = path.split_first() else { return };
        let parent = self.modules[module].parent;
        match (first.as_str(), parent) {
            ("crate", _) => self.find(0, rest, depth, files),
            ("self", _) => self.resolve_self(module, rest, depth, files),
            ("super", Some(parent)) => self.resolve_self(parent, rest, depth, files),
            ("super", None) => {}
            _ => self.find(module, path, depth, files),
        }
    }

    fn resolve_self(&self, module: ModuleId, rest: &[String], depth: usize, files: &mut BTreeSet<FileId>) {
        match rest.first().is_some_and(|next| next == "super") {
            true => self.resolve(module, rest, depth, files),
            false => self.find(module, rest, depth, files),
        }
    }

    fn find(&self, id: ModuleId, path: &[String], depth: usize, files: &mut BTreeSet<FileId>) {
        let Some((first, rest)) = path.split_first() else { return };
        if depth > LONGEST_CHAIN {
            return;
        }
        let module = &self.modules[id];
        let Some(bindings) = module.names.get(first) else {
            for inner in module.globs.iter().filter_map(|glob| self.module_at(id, glob, depth + 1)) {
                self.find(inner, path, depth + 1, files);
            }
            return;
        };
        let inner = bindings.iter().find_map(|binding| match binding {
            Binding::Module(inner) => Some(*inner),
            _ => None,
        });
        if let (Some(inner), false) = (inner, rest.is_empty()) {
            return self.find(inner, rest, depth, files);
        }
        for binding in bindings {
            match binding {
                Binding::Item => _ = files.insert(module.file),
                Binding::Module(_) => {}
                Binding::Use(used) => {
                    let whole: Vec<String> = used.iter().chain(rest).cloned().collect();
                    self.resolve(id, &whole, depth + 1, files);
                }
            }
        }
    }

    fn module_at(&self, mut id: ModuleId, path: &[String], depth: usize) -> Option<ModuleId> {
        if depth > LONGEST_CHAIN {
            return None;
        }
        for name in path {
            id = match name.as_str() {
                "crate" => 0,
                "self" => id,
                "super" => self.modules[id].parent?,
                name => self.modules[id].names.get(name)?.iter().find_map(|binding| match binding {
                    Binding::Module(inner) => Some(*inner),
                    Binding::Use(used) => self.module_at(id, used, depth + 1),
                    Binding::Item => None,
                })?,
            };
        }
        Some(id)
    }
}
