//! A crate's source: its modules with their items, and the item that a path means.

use std::collections::BTreeMap;
use std::path::Path;

use proc_macro2::{Group, Ident, TokenStream, TokenTree};
use quote::ToTokens;
use syn::{Attribute, File, Item, UseTree};

/// Module path within the crate; empty for `lib.rs`.
pub(crate) type Place = Vec<String>;

pub(crate) struct Source {
    pub(crate) name: String,
    pub(crate) modules: BTreeMap<Place, Vec<Item>>,
}

/// The thing that a path means.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Meaning {
    Module(Place),
    /// An item, by its module and name.
    Item(Place, String),
}

/// One name that a `use` brings in.
pub(crate) struct Import {
    pub(crate) path: Vec<String>,
    /// The name in the importing module; `None` for `*`.
    pub(crate) name: Option<String>,
}

impl Source {
    pub(crate) fn read(name: &str, folder: &Path) -> Self {
        let mut source = Self { name: name.to_owned(), modules: BTreeMap::new() };
        source.load(Vec::new(), &parsed(&folder.join("lib.rs")).items, Some(folder));
        source
    }

    pub(crate) fn parse(name: &str, code: &str) -> Self {
        let mut source = Self { name: name.to_owned(), modules: BTreeMap::new() };
        source.load(Vec::new(), &syn::parse_file(code).unwrap().items, None);
        source
    }

    fn load(&mut self, place: Place, items: &[Item], folder: Option<&Path>) {
        let mut kept = Vec::new();
        for item in items.iter().flat_map(|item| expanded(item, items)) {
            if is_for_tests(attributes(&item)) {
                continue;
            }
            if let Item::Mod(module) = &item {
                let name = module.ident.to_string();
                let within = [place.clone(), vec![name.clone()]].concat();
                let below = folder.map(|folder| folder.join(&name));
                let items = match (&module.content, &below) {
                    (Some((_, items)), _) => items.clone(),
                    (None, Some(below)) => parsed(&below.with_extension("rs")).items,
                    (None, None) => panic!("mod {name} has no content"),
                };
                self.load(within, &items, below.as_deref());
            }
            kept.push(item);
        }
        self.modules.insert(place, kept);
    }

    /// Returns the meaning of a path that is written in a module; `None` if another crate has it.
    pub(crate) fn resolve(&self, place: &[String], path: &[String]) -> Option<Meaning> {
        let (first, rest) = path.split_first()?;
        let mut here = match first.as_str() {
            "crate" => Meaning::Module(Vec::new()),
            "self" => Meaning::Module(place.to_vec()),
            "super" => Meaning::Module(place.split_last()?.1.to_vec()),
            name => self.named(place, name)?,
        };
        for name in rest {
            let Meaning::Module(within) = &here else { return None };
            here = match name.as_str() {
                "self" => here,
                "super" => Meaning::Module(within.split_last()?.1.to_vec()),
                name => self.named(within, name)?,
            };
        }
        Some(here)
    }

    fn named(&self, place: &[String], name: &str) -> Option<Meaning> {
        let child = [place, &[name.to_owned()]].concat();
        if self.modules.contains_key(&child) {
            return Some(Meaning::Module(child));
        }
        let items = self.modules.get(place)?;
        if items.iter().any(|item| name_of(item).is_some_and(|known| known == name)) {
            return Some(Meaning::Item(place.to_vec(), name.to_owned()));
        }
        let imports: Vec<_> = items.iter().flat_map(imports).collect();
        let by_name = imports.iter().find(|import| import.name.as_deref() == Some(name));
        if let Some(import) = by_name {
            // `use Thing::…` of an extern crate with the same name would never end.
            return (import.path[0] != name).then(|| self.resolve(place, &import.path)).flatten();
        }
        let globs = imports.iter().filter(|import| import.name.is_none());
        globs.filter_map(|import| self.resolve(place, &import.path)).find_map(|meaning| match meaning {
            Meaning::Module(within) if within != place => self.named(&within, name),
            _ => None,
        })
    }
}

/// Returns the names that an item brings in; none if the item is no `use`.
pub(crate) fn imports(item: &Item) -> Vec<Import> {
    let mut found = Vec::new();
    if let Item::Use(import) = item {
        flatten(&import.tree, &mut Vec::new(), &mut found);
    }
    found
}

fn flatten(tree: &UseTree, path: &mut Vec<String>, found: &mut Vec<Import>) {
    let leaf = |path: &[String], last: String, name: String| {
        let path = if last == "self" { path.to_vec() } else { [path, &[last]].concat() };
        let name = if name == "self" { path.last().cloned().unwrap_or_default() } else { name };
        Import { path, name: Some(name) }
    };
    match tree {
        UseTree::Path(part) => {
            path.push(part.ident.to_string());
            flatten(&part.tree, path, found);
            path.pop();
        }
        UseTree::Name(name) => found.push(leaf(path, name.ident.to_string(), name.ident.to_string())),
        UseTree::Rename(renamed) => found.push(leaf(path, renamed.ident.to_string(), renamed.rename.to_string())),
        UseTree::Glob(_) => found.push(Import { path: path.clone(), name: None }),
        UseTree::Group(group) => group.items.iter().for_each(|tree| flatten(tree, path, found)),
    }
}

/// Returns the name of an item that others may use by it; modules and imports have their own ways.
pub(crate) fn name_of(item: &Item) -> Option<String> {
    Some(match item {
        Item::Const(item) => item.ident.to_string(),
        Item::Enum(item) => item.ident.to_string(),
        Item::Fn(item) => item.sig.ident.to_string(),
        Item::Static(item) => item.ident.to_string(),
        Item::Struct(item) => item.ident.to_string(),
        Item::Trait(item) => item.ident.to_string(),
        Item::Type(item) => item.ident.to_string(),
        _ => return None,
    })
}

pub(crate) fn attributes(item: &Item) -> &[Attribute] {
    match item {
        Item::Const(item) => &item.attrs,
        Item::Enum(item) => &item.attrs,
        Item::Fn(item) => &item.attrs,
        Item::Impl(item) => &item.attrs,
        Item::Mod(item) => &item.attrs,
        Item::Static(item) => &item.attrs,
        Item::Struct(item) => &item.attrs,
        Item::Trait(item) => &item.attrs,
        Item::Type(item) => &item.attrs,
        Item::Use(item) => &item.attrs,
        _ => &[],
    }
}

fn is_for_tests(attributes: &[Attribute]) -> bool {
    let cfg = |attribute: &Attribute| attribute.path().is_ident("cfg").then(|| attribute.to_token_stream().to_string());
    attributes.iter().filter_map(cfg).any(|cfg| cfg.contains("(test)") || cfg.contains("doctest"))
}

fn parsed(file: &Path) -> File {
    let code = std::fs::read_to_string(file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    syn::parse_file(&code).unwrap_or_else(|error| panic!("{}: {error}", file.display()))
}

/// Returns the items that a macro of the same module makes; any other item as it is.
fn expanded(item: &Item, module: &[Item]) -> Vec<Item> {
    let Item::Macro(call) = item else { return vec![item.clone()] };
    if call.ident.is_some() {
        // The definition of a macro: those that others may call are hidden from the documentation.
        return Vec::new();
    }
    let definition = module.iter().find_map(|item| match item {
        Item::Macro(definition) if definition.ident.as_ref() == call.mac.path.get_ident() => {
            Some(&definition.mac.tokens)
        }
        _ => None,
    });
    let path = call.mac.path.to_token_stream();
    // What another crate's macro makes of names that are not public is not public either.
    if call.mac.path.segments.len() > 1 && !names_anything_public(call.mac.tokens.clone()) {
        return Vec::new();
    }
    let definition = definition.unwrap_or_else(|| panic!("nobody knows what `{path}` makes"));
    // One rule, of which one variable is a name: that is all that this crate's macros have.
    let parts: Vec<_> = definition.clone().into_iter().collect();
    let [TokenTree::Group(pattern), _, _, TokenTree::Group(body), ..] = &*parts else { panic!("`{path}`") };
    // Implementations of other crates' traits are no items of their own.
    if !names_anything_public(body.stream()) {
        return Vec::new();
    }
    let pattern: Vec<_> = pattern.stream().into_iter().collect();
    let is = |token: &TokenTree, text: &str| token.to_string() == text;
    let variable = pattern.windows(4).find(|four| is(&four[0], "$") && is(&four[2], ":") && is(&four[3], "ident"));
    let variable = variable.unwrap_or_else(|| panic!("`{path}` takes no name"))[1].to_string();
    let name = call.mac.tokens.clone().into_iter().find(|token| matches!(token, TokenTree::Ident(_)));
    let name = name.unwrap_or_else(|| panic!("`{path}` is called without a name"));
    let made: File = syn::parse2(filled(body.stream(), &variable, &name)).unwrap();
    made.items
}

/// Returns true if the word `pub` is among the tokens, at any depth.
fn names_anything_public(tokens: TokenStream) -> bool {
    tokens.into_iter().any(|token| match token {
        TokenTree::Group(group) => names_anything_public(group.stream()),
        token => token.to_string() == "pub",
    })
}

/// Returns the body of a macro with the name in it. The other variables are values, which no signature shows, and what
/// is repeated is documentation.
fn filled(body: TokenStream, variable: &str, name: &TokenTree) -> TokenStream {
    let mut tokens = body.into_iter();
    let mut made = Vec::new();
    while let Some(token) = tokens.next() {
        match token {
            TokenTree::Punct(punct) if punct.as_char() == '$' => match tokens.next() {
                Some(TokenTree::Ident(ident)) if ident == variable => made.push(name.clone()),
                Some(TokenTree::Ident(ident)) => made.push(Ident::new("_", ident.span()).into()),
                _ => drop(tokens.next()),
            },
            TokenTree::Group(group) => {
                made.push(Group::new(group.delimiter(), filled(group.stream(), variable, name)).into());
            }
            token => made.push(token),
        }
    }
    made.into_iter().collect()
}
