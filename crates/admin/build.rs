//! Makes the table of the console's files out of web/dist, whose built files are checked in: building the gateway needs no Node.

use std::{env, fmt::Write, fs, path::Path};

const DIST: &str = "../../web/dist";

fn main() {
    let list = format!("{DIST}/files.json");
    println!("cargo::rerun-if-changed={list}");
    println!("cargo::rerun-if-changed=build.rs");
    let text = fs::read_to_string(&list).unwrap_or_else(|error| panic!("{list}: {error}"));
    let folder = env::var_os("OUT_DIR").expect("cargo says where to write");
    let table = table(&text).unwrap_or_else(|reason| panic!("{list}: {reason}"));
    fs::write(Path::new(&folder).join("console_files.rs"), table).expect("the folder is writable");
}

/// One file after another, each field on a line of its own, as web/scripts writes them. A test of the crate reads the same list
/// as JSON and compares.
fn table(list: &str) -> Result<String, String> {
    let mut table = String::from("pub(crate) static FILES: &[File] = &[\n");
    let (mut path, mut kind) = (None, None);
    for line in list.lines() {
        let Some((name, value)) = line.trim().trim_end_matches(',').split_once(": ") else { continue };
        let value = value.trim_matches('"');
        match name.trim_matches('"') {
            "path" => path = Some(value),
            "type" => kind = Some(value),
            "sha256" => {
                let path = path.take().ok_or("a file without a path")?;
                let kind = kind.take().ok_or("a file without a type")?;
                let tag = value.get(..32).ok_or("a short sha256")?;
                if !Path::new(DIST).join(format!("{path}.br")).exists() {
                    return Err(format!("{path}.br is missing"));
                }
                // What is written here is hashed into the library: the name of this folder may not be in it.
                let packed = format!("/{DIST}/{path}.br");
                // Writing to a string cannot fail.
                let _ = writeln!(
                    table,
                    "    File {{ path: {path:?}, kind: {kind:?}, tag: {:?}, packed: include_bytes!(concat!(env!(\"CARGO_MANIFEST_DIR\"), {packed:?})) }},",
                    format!("\"{tag}\"")
                );
            }
            _ => {}
        }
    }
    table.push_str("];\n");
    Ok(table)
}
