//! The modules of a crate: in which file each stands, and which names it has.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use proc_macro2::{TokenStream, TokenTree};
use syn::visit::Visit;
use syn::{Attribute, Item, ItemMod, ItemUse, UseTree, Visibility};

pub(super) type ModuleId = usize;
pub(super) type FileId = usize;

/// What a name in a module stands for.
pub(super) enum Binding {
    Item,
    Module(ModuleId),
    /// What `use` brings in, here or to others.
    Use(Vec<String>),
}

pub(super) struct Module {
    pub file: FileId,
    pub parent: Option<ModuleId>,
    pub names: BTreeMap<String, Vec<Binding>>,
    pub globs: Vec<Vec<String>>,
    /// Without tests and without the modules within.
    pub items: Vec<Item>,
}

/// One `lib.rs` or `main.rs` with all below it. Stand-ins for features (`absent.rs`) are left out.
#[derive(Default)]
pub(super) struct Tree {
    pub files: Vec<PathBuf>,
    pub modules: Vec<Module>,
}

impl Tree {
    /// The roots of a package come first among `modules`.
    pub(super) fn read(root: &Path) -> Tree {
        let mut tree = Tree::default();
        let folder = root.parent().unwrap_or(root);
        tree.read_file(root, folder, None);
        tree
    }

    fn read_file(&mut self, path: &Path, children: &Path, parent: Option<ModuleId>) -> ModuleId {
        let text = fs::read_to_string(path).unwrap_or_else(|why| panic!("{}: {why}", path.display()));
        let parsed = syn::parse_file(&text).unwrap_or_else(|why| panic!("{}: {why}", path.display()));
        self.files.push(path.to_owned());
        self.add(self.files.len() - 1, children, parent, parsed.items)
    }

    fn add(&mut self, file: FileId, children: &Path, parent: Option<ModuleId>, items: Vec<Item>) -> ModuleId {
        let id = self.modules.len();
        let mut module =
            Module { file, parent, names: BTreeMap::new(), globs: Vec::new(), items: Vec::new() };
        let mut within = Vec::new();
        for item in items.into_iter().filter(|item| !is_test(attributes(item))) {
            match item {
                Item::Mod(inner) => within.push(inner),
                item => module.learn(item),
            }
        }
        self.modules.push(module);
        for inner in within {
            let name = inner.ident.to_string();
            let child = self.child(id, children, inner);
            self.modules[id].names.entry(name).or_default().push(Binding::Module(child));
        }
        id
    }

    fn child(&mut self, parent: ModuleId, folder: &Path, inner: ItemMod) -> ModuleId {
        let name = inner.ident.to_string();
        let children = folder.join(&name);
        if let Some((_, items)) = inner.content {
            return self.add(self.modules[parent].file, &children, Some(parent), items);
        }
        let path = folder.join(format!("{name}.rs"));
        self.read_file(&path, &children, Some(parent))
    }
}

impl Module {
    fn learn(&mut self, item: Item) {
        let mut uses = Uses(Vec::new());
        uses.visit_item(&item);
        for tree in uses.0 {
            self.learn_use(Vec::new(), tree);
        }
        let mut names = Vec::new();
        match &item {
            Item::Const(item) => names.push(item.ident.to_string()),
            Item::Enum(item) => names.push(item.ident.to_string()),
            Item::Fn(item) => names.push(item.sig.ident.to_string()),
            Item::Static(item) => names.push(item.ident.to_string()),
            Item::Struct(item) => names.push(item.ident.to_string()),
            Item::Trait(item) => names.push(item.ident.to_string()),
            Item::TraitAlias(item) => names.push(item.ident.to_string()),
            Item::Type(item) => names.push(item.ident.to_string()),
            Item::Union(item) => names.push(item.ident.to_string()),
            Item::Macro(item) => match &item.ident {
                Some(name) => names.push(name.to_string()),
                None => defined_by_macro(item.mac.tokens.clone(), &mut names),
            },
            _ => {}
        }
        for name in names {
            self.names.entry(name).or_default().push(Binding::Item);
        }
        self.items.push(item);
    }

    fn learn_use(&mut self, mut path: Vec<String>, tree: &UseTree) {
        match tree {
            UseTree::Path(next) => {
                path.push(next.ident.to_string());
                self.learn_use(path, &next.tree);
            }
            UseTree::Name(last) if last.ident == "self" => {
                let name = path.last().cloned().unwrap_or_default();
                self.names.entry(name).or_default().push(Binding::Use(path));
            }
            UseTree::Name(last) => {
                path.push(last.ident.to_string());
                self.names.entry(last.ident.to_string()).or_default().push(Binding::Use(path));
            }
            UseTree::Rename(last) => {
                if last.ident != "self" {
                    path.push(last.ident.to_string());
                }
                self.names.entry(last.rename.to_string()).or_default().push(Binding::Use(path));
            }
            UseTree::Glob(_) => self.globs.push(path),
            UseTree::Group(group) => {
                for tree in &group.items {
                    self.learn_use(path.clone(), tree);
                }
            }
        }
    }
}

/// Every `use`, those within functions too.
struct Uses<'ast>(Vec<&'ast UseTree>);

impl<'ast> Visit<'ast> for Uses<'ast> {
    fn visit_item_use(&mut self, item: &'ast ItemUse) {
        if item.leading_colon.is_none() {
            self.0.push(&item.tree);
        }
    }
}

/// Names that `thread_local!` and its like define.
fn defined_by_macro(tokens: TokenStream, names: &mut Vec<String>) {
    let mut defines = false;
    for token in tokens {
        match token {
            TokenTree::Ident(word) if defines && word != "mut" => {
                names.push(word.to_string());
                defines = false;
            }
            TokenTree::Ident(word) => {
                defines = ["static", "const", "struct", "enum", "type", "fn"].iter().any(|kind| word == kind);
            }
            TokenTree::Group(group) => defined_by_macro(group.stream(), names),
            _ => defines = false,
        }
    }
}

/// `#[cfg(test)]`, also among other conditions that all have to hold.
pub(super) fn is_test(attributes: &[Attribute]) -> bool {
    attributes.iter().filter(|one| one.path().is_ident("cfg")).any(|one| {
        let Ok(list) = one.meta.require_list() else { return false };
        let condition = list.tokens.to_string();
        let words: Vec<&str> = condition.split(|sign: char| !sign.is_alphanumeric() && sign != '_').collect();
        words.contains(&"test") && !words.contains(&"not") && !words.contains(&"any")
    })
}

pub(super) fn attributes(item: &Item) -> &[Attribute] {
    match item {
        Item::Const(item) => &item.attrs,
        Item::Enum(item) => &item.attrs,
        Item::Fn(item) => &item.attrs,
        Item::Impl(item) => &item.attrs,
        Item::Macro(item) => &item.attrs,
        Item::Mod(item) => &item.attrs,
        Item::Static(item) => &item.attrs,
        Item::Struct(item) => &item.attrs,
        Item::Trait(item) => &item.attrs,
        Item::Type(item) => &item.attrs,
        Item::Use(item) => &item.attrs,
        _ => &[],
    }
}

/// Shown to others: nothing that the file itself needs.
pub(super) fn is_reexport(item: &ItemUse) -> bool {
    !matches!(item.vis, Visibility::Inherited)
}
