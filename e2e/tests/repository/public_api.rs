//! Tests that `public-api.txt` of each library says what the crate shows to others, so that a change of it is seen.
//!
//! `DEPGUARD_WRITE=1 cargo test -p depguard-e2e --test repository public_api` writes the files.

mod printed;
mod source;

use std::collections::BTreeMap;
use std::path::Path;

use printed::Surface;
use source::Source;

const CRATES: [&str; 5] =
    ["depguard-core", "depguard-kcp", "depguard-webhook", "depguard-controller", "depguard-testbed"];

#[test]
fn the_public_surface_of_each_library_is_the_one_that_is_written_down() {
    let mut other = Vec::new();
    for name in CRATES {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(name);
        let source = Source::read(&name.replace('-', "_"), &folder.join("src"));
        let text = Surface::new(&source).text();
        let file = folder.join("public-api.txt");
        if std::env::var_os("DEPGUARD_WRITE").is_some() {
            std::fs::write(&file, &text).unwrap();
        }
        let written = std::fs::read_to_string(&file).unwrap_or_default();
        let missing = text.lines().filter(|line| !written.lines().any(|known| known == *line));
        let gone = written.lines().filter(|line| !text.lines().any(|known| known == *line));
        let changes: Vec<_> =
            gone.map(|line| format!("-{line}")).chain(missing.map(|line| format!("+{line}"))).collect();
        if written != text {
            other.push(format!("{name}/public-api.txt:\n{}", changes.join("\n")));
        }
    }
    assert!(
        other.is_empty(),
        "`DEPGUARD_WRITE=1 cargo test -p depguard-e2e --test repository public_api` writes them anew:\n{}",
        other.join("\n")
    );
}

#[test]
fn there_is_one_way_to_import_each_item_of_the_core() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../depguard-core/src");
    let source = Source::read("depguard_core", &folder);
    let surface = Surface::new(&source);
    let mut paths = BTreeMap::<_, Vec<_>>::new();
    for (definition, path) in &surface.exported {
        paths.entry(definition).or_default().push(path);
    }
    assert!(paths.len() > 50, "{paths:?}");
    paths.retain(|_, paths| paths.len() > 1);
    assert!(paths.is_empty(), "{paths:#?}");
    // Modules for tools may grow; the root is what everybody reads.
    let root = surface.exported.iter().filter(|(_, path)| path.matches("::").count() == 1).count();
    assert!(root <= 25, "{root} items at the root: a module is the place for most");
}

#[test]
fn a_surface_is_read_through_private_modules_globs_and_other_names() {
    let code = r#"
        mod inner { pub struct Shown { pub field: Vec<&'static str>, hidden: u8 } pub(crate) struct Hidden; pub fn f(_: (u8, &str)) -> [u8; 2] { [0; 2] }
            impl Shown { pub fn get(&mut self) -> Option<&str> { None } fn not(&self) {} }
            impl super::Hidden { pub fn also_not(&self) {} }
            impl std::fmt::Display for Shown {} }
        mod globbed { #[derive(Clone, Copy)] #[non_exhaustive] pub enum Case { One, Two(u8), Three { at: usize } } }
        pub mod open { pub use super::inner::f as g; pub trait Able: Send { const N: u8; fn can(&self) -> bool { true } } }
        #[cfg(test)] pub mod tests { pub fn no() {} }
        #[doc(hidden)] pub fn nor() {}
        pub use inner::Shown; pub use globbed::*; pub use std::io::Error; use inner::Hidden;
    "#;
    let text = Surface::new(&Source::parse("c", code)).text();
    let expected = "\
#[non_exhaustive] pub enum c::Case
impl Clone, Copy for c::Case
pub c::Case::One
pub c::Case::Three { at: usize }
pub c::Case::Two(u8)
pub mod c::open
pub fn c::open::g(_: (u8, &str)) -> [u8; 2]
pub trait c::open::Able: Send
pub const c::open::Able::N: u8
pub fn c::open::Able::can(&self) -> bool
pub struct c::Shown
impl std::fmt::Display for c::Shown
pub c::Shown::field: Vec<&'static str>
pub fn c::Shown::get(&mut self) -> Option<&str>
pub use c::Error = std::io::Error
";
    let sorted = |text: &str| {
        let mut lines: Vec<_> = text.lines().map(str::to_owned).collect();
        lines.sort();
        lines
    };
    assert_eq!(sorted(&text), sorted(expected));
}
