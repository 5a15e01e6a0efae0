//! The text of a crate's public surface: one line an item, each by the path that others import.

use std::collections::BTreeMap;

use quote::ToTokens;
use syn::{Attribute, Fields, ImplItem, Item, ItemImpl, Signature, TraitItem, Type, Visibility};

use super::source::{Import, Meaning, Place, Source, attributes, imports, name_of};

pub(crate) struct Surface<'s> {
    source: &'s Source,
    lines: Vec<String>,
    /// Blocks of each type, by its definition.
    blocks: BTreeMap<Meaning, Vec<&'s ItemImpl>>,
    /// Each exported item, with the path by which others import it.
    pub(crate) exported: Vec<(Meaning, String)>,
}

impl<'s> Surface<'s> {
    pub(crate) fn new(source: &'s Source) -> Self {
        let mut blocks = BTreeMap::<_, Vec<_>>::new();
        for (place, items) in &source.modules {
            for item in items {
                let Item::Impl(block) = item else { continue };
                let Type::Path(of) = &*block.self_ty else { continue };
                let path: Vec<_> = of.path.segments.iter().map(|segment| segment.ident.to_string()).collect();
                if let Some(meaning) = source.resolve(place, &path) {
                    blocks.entry(meaning).or_default().push(block);
                }
            }
        }
        let mut surface = Self { source, lines: Vec::new(), blocks, exported: Vec::new() };
        surface.module(&Vec::new(), &source.name);
        surface
    }

    /// Returns the lines, each item before its parts.
    pub(crate) fn text(&self) -> String {
        self.lines.iter().map(|line| format!("{line}\n")).collect()
    }

    fn module(&mut self, place: &Place, path: &str) {
        let above = std::mem::take(&mut self.lines);
        let mut entries = Vec::new();
        for item in &self.source.modules[place] {
            if !is_public(visibility(item)) || is_hidden(attributes(item)) {
                continue;
            }
            match item {
                Item::Mod(module) => {
                    let name = module.ident.to_string();
                    let within = [&place[..], std::slice::from_ref(&name)].concat();
                    self.submodule(&within, &format!("{path}::{name}"), &conditions(&module.attrs));
                    entries.push(std::mem::take(&mut self.lines));
                }
                Item::Use(import) => {
                    for name in imports(item) {
                        self.import(place, path, &name, &conditions(&import.attrs));
                        entries.push(std::mem::take(&mut self.lines));
                    }
                }
                item => {
                    if let Some(name) = name_of(item) {
                        self.item(place, &name, &format!("{path}::{name}"));
                        entries.push(std::mem::take(&mut self.lines));
                    }
                }
            }
        }
        // Items before modules, and by their paths: an item that moves within its file changes nothing.
        entries.retain(|lines| !lines.is_empty());
        entries.sort_by_key(|lines| {
            let first = lines[0].as_str();
            let at = first.find(&format!("{path}::")).unwrap_or_default();
            let path: String =
                first[at..].chars().take_while(|char| char.is_alphanumeric() || "_:".contains(*char)).collect();
            (first.contains("pub mod "), path)
        });
        self.lines = above.into_iter().chain(entries.into_iter().flatten()).collect();
    }

    fn submodule(&mut self, place: &Place, path: &str, conditions: &str) {
        self.lines.push(format!("{conditions}pub mod {path}"));
        self.module(place, path);
    }

    fn import(&mut self, place: &Place, path: &str, import: &Import, conditions: &str) {
        let meaning = self.source.resolve(place, &import.path);
        match (meaning, &import.name) {
            (Some(Meaning::Module(within)), None) => self.module(&within, path),
            (Some(Meaning::Module(within)), Some(name)) => {
                self.submodule(&within, &format!("{path}::{name}"), conditions);
            }
            (Some(Meaning::Item(within, item)), Some(name)) => self.item(&within, &item, &format!("{path}::{name}")),
            (None, name) => {
                let name = name.as_deref().unwrap_or("*");
                self.lines.push(format!("{conditions}pub use {path}::{name} = {}", import.path.join("::")));
            }
            (Some(meaning @ Meaning::Item(..)), None) => panic!("`*` of {meaning:?}"),
        }
    }

    fn item(&mut self, place: &Place, name: &str, path: &str) {
        let items = &self.source.modules[place];
        for item in items.iter().filter(|item| name_of(item).as_deref() == Some(name)) {
            assert!(is_public(visibility(item)), "{path} is exported and not public");
            let mark = format!("{}{}", conditions(attributes(item)), marks(attributes(item)));
            match item {
                Item::Const(item) => self.lines.push(format!("{mark}pub const {path}: {}", plain(&item.ty))),
                Item::Static(item) => self.lines.push(format!("{mark}pub static {path}: {}", plain(&item.ty))),
                Item::Fn(item) => self.lines.push(format!("{mark}pub {}", signature(&item.sig, path))),
                Item::Type(item) => {
                    self.lines.push(format!("{mark}pub type {path}{} = {}", plain(&item.generics), plain(&item.ty)));
                }
                Item::Trait(item) => {
                    let above = plain(&item.supertraits);
                    let above = if above.is_empty() { above } else { format!(": {above}") };
                    self.lines.push(format!("{mark}pub trait {path}{}{above}", plain(&item.generics)));
                    item.items.iter().for_each(|part| self.part_of_trait(part, path));
                }
                Item::Struct(item) => {
                    self.lines.push(format!("{mark}pub struct {path}{}", plain(&item.generics)));
                    self.traits(place, name, path, &item.attrs);
                    let fields = item.fields.iter().enumerate().filter(|(_, field)| is_public(Some(&field.vis)));
                    self.lines.extend(fields.map(|(at, field)| {
                        let name = field.ident.as_ref().map_or(at.to_string(), ToString::to_string);
                        format!("pub {path}::{name}: {}", plain(&field.ty))
                    }));
                    self.methods(place, name, path);
                }
                Item::Enum(item) => {
                    self.lines.push(format!("{mark}pub enum {path}{}", plain(&item.generics)));
                    self.traits(place, name, path, &item.attrs);
                    let mut variants: Vec<_> = item.variants.iter().collect();
                    variants.sort_by_key(|variant| variant.ident.to_string());
                    self.lines.extend(variants.into_iter().map(|variant| {
                        let mark = marks(&variant.attrs);
                        format!("{mark}pub {path}::{}{}", variant.ident, fields(&variant.fields))
                    }));
                    self.methods(place, name, path);
                }
                _ => {}
            }
        }
        self.exported.push((Meaning::Item(place.clone(), name.to_owned()), path.to_owned()));
    }

    fn part_of_trait(&mut self, part: &TraitItem, path: &str) {
        self.lines.push(match part {
            TraitItem::Fn(item) => format!("pub {}", signature(&item.sig, &format!("{path}::{}", item.sig.ident))),
            TraitItem::Const(item) => format!("pub const {path}::{}: {}", item.ident, plain(&item.ty)),
            TraitItem::Type(item) => {
                let bounds = plain(&item.bounds);
                let bounds = if bounds.is_empty() { bounds } else { format!(": {bounds}") };
                format!("pub type {path}::{}{bounds}", item.ident)
            }
            other => panic!("{path} has a part that nobody prints: {}", plain(other)),
        });
    }

    /// Adds the traits that a type has, in one line: the derived ones and the written ones.
    fn traits(&mut self, place: &Place, name: &str, path: &str, attributes: &[Attribute]) {
        let mut names = Vec::new();
        for derive in attributes.iter().filter(|attribute| attribute.path().is_ident("derive")) {
            let names = derive.parse_nested_meta(|meta| {
                names.push(plain(&meta.path));
                Ok(())
            });
            names.unwrap();
        }
        for block in self.blocks_of(place, name) {
            if let Some((of, _)) = &block.trait_ {
                names.push(plain(of));
            }
        }
        names.sort();
        names.dedup();
        if !names.is_empty() {
            self.lines.push(format!("impl {} for {path}", names.join(", ")));
        }
    }

    /// Adds the public methods and constants of a type.
    fn methods(&mut self, place: &Place, name: &str, path: &str) {
        let mut lines = Vec::new();
        for block in self.blocks_of(place, name).into_iter().filter(|block| block.trait_.is_none()) {
            let mark = conditions(&block.attrs);
            for item in &block.items {
                match item {
                    ImplItem::Fn(item) if is_public(Some(&item.vis)) && !is_hidden(&item.attrs) => {
                        let path = format!("{path}::{}", item.sig.ident);
                        let mark = format!("{mark}{}", conditions(&item.attrs));
                        lines.push((path.clone(), format!("{mark}pub {}", signature(&item.sig, &path))));
                    }
                    ImplItem::Const(item) if is_public(Some(&item.vis)) && !is_hidden(&item.attrs) => {
                        let path = format!("{path}::{}", item.ident);
                        lines.push((path.clone(), format!("{mark}pub const {path}: {}", plain(&item.ty))));
                    }
                    ImplItem::Macro(call) => lines.extend(builder_methods(call, path)),
                    _ => {}
                }
            }
        }
        lines.sort();
        self.lines.extend(lines.into_iter().map(|(_, line)| line));
    }

    fn blocks_of(&self, place: &Place, name: &str) -> Vec<&'s ItemImpl> {
        self.blocks.get(&Meaning::Item(place.clone(), name.to_owned())).cloned().unwrap_or_default()
    }
}

/// Returns the methods that `builder_methods!` of depguard-kcp makes: one for each `field: Type`.
fn builder_methods(call: &syn::ImplItemMacro, path: &str) -> Vec<(String, String)> {
    let name = call.mac.path.segments.last().map(|segment| segment.ident.to_string());
    assert_eq!(name.as_deref(), Some("builder_methods"), "{path} has methods by a macro that nobody knows");
    let code = format!("struct Fields {{ {} }}", call.mac.tokens);
    let fields: syn::ItemStruct = syn::parse_str(&code).unwrap();
    let method = |field: &syn::Field| {
        let (name, of) = (field.ident.as_ref().unwrap(), plain(&field.ty));
        (format!("{path}::{name}"), format!("pub fn {path}::{name}(self, {name}: {of}) -> Self"))
    };
    fields.fields.iter().map(method).collect()
}

fn visibility(item: &Item) -> Option<&Visibility> {
    Some(match item {
        Item::Const(item) => &item.vis,
        Item::Enum(item) => &item.vis,
        Item::Fn(item) => &item.vis,
        Item::Mod(item) => &item.vis,
        Item::Static(item) => &item.vis,
        Item::Struct(item) => &item.vis,
        Item::Trait(item) => &item.vis,
        Item::Type(item) => &item.vis,
        Item::Use(item) => &item.vis,
        _ => return None,
    })
}

fn is_public(visibility: Option<&Visibility>) -> bool {
    matches!(visibility, Some(Visibility::Public(_)))
}

fn is_hidden(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| plain(&attribute.meta) == "doc(hidden)")
}

/// Returns the features that an item needs, as they are written.
fn conditions(attributes: &[Attribute]) -> String {
    let conditions = attributes.iter().filter(|attribute| attribute.path().is_ident("cfg"));
    conditions.map(|attribute| format!("{} ", plain(attribute))).collect()
}

fn marks(attributes: &[Attribute]) -> &'static str {
    let may_grow = attributes.iter().any(|attribute| attribute.path().is_ident("non_exhaustive"));
    if may_grow { "#[non_exhaustive] " } else { "" }
}

fn fields(fields: &Fields) -> String {
    let named = fields.iter().map(|field| match &field.ident {
        Some(name) => format!("{name}: {}", plain(&field.ty)),
        None => plain(&field.ty),
    });
    let list = named.collect::<Vec<_>>().join(", ");
    match fields {
        Fields::Unit => String::new(),
        Fields::Named(_) => format!(" {{ {list} }}"),
        Fields::Unnamed(_) => format!("({list})"),
    }
}

/// Returns a signature with the path of the function in place of its name.
fn signature(signature: &Signature, path: &str) -> String {
    plain(signature).replacen(&format!("fn {}", signature.ident), &format!("fn {path}"), 1)
}

/// Returns code as one writes it; the tokens themselves are printed with a space between any two.
fn plain(code: &impl ToTokens) -> String {
    let text = code.to_token_stream().to_string().split_whitespace().collect::<Vec<_>>().join(" ");
    let changes = [
        (" ::", "::"),
        (":: ", "::"),
        ("& ", "&"),
        ("# [", "#["),
        (" <", "<"),
        ("< ", "<"),
        (" >", ">"),
        (" (", "("),
        ("( ", "("),
        (" )", ")"),
        ("[ ", "["),
        (" ]", "]"),
        (" ,", ","),
        (",)", ")"),
        (",>", ">"),
        (" :", ":"),
        (" ;", ";"),
        // After these a space stays.
        ("->(", "-> ("),
        (",(", ", ("),
        (":(", ": ("),
        ("=(", "= ("),
        ("-><", "-> <"),
        (":<", ": <"),
        ("::: <", "::<"),
        ("mut(", "mut ("),
        // The body alone sees that an argument is mutable.
        ("(mut ", "("),
        (", mut ", ", "),
    ];
    changes.into_iter().fold(text, |text, (from, to)| text.replace(from, to))
}
