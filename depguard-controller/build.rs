//! Writes down the packs' files, so that the program contains each of them.

use std::error::Error;
use std::fmt::Write as _;
use std::path::Path;
use std::{env, fs};

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed=packs");
    let folder = Path::new(&env::var("CARGO_MANIFEST_DIR")?).join("packs");
    let mut files = fs::read_dir(folder)?.map(|entry| Ok(entry?.path())).collect::<Result<Vec<_>, std::io::Error>>()?;
    files.retain(|path| path.extension().is_some_and(|extension| extension == "yaml"));
    files.sort();
    let mut list = String::new();
    for path in files {
        write!(list, "({:?}, include_str!({path:?})),", path.with_extension("").file_name().unwrap_or_default())?;
    }
    fs::write(Path::new(&env::var("OUT_DIR")?).join("packs.rs"), format!("&[{list}]"))?;
    Ok(())
}
