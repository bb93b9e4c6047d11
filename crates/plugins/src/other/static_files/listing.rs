//! `autoindex`: a directory as a page of links. For the disk threads.

use std::{fmt::Write, fs::File, io};

use quick_xml::escape::escape;
use rustix::fs::{AtFlags, Dir, FileType, statat};

use super::path::encode;

/// A page with more lines is of no use, and each costs a system call.
const MOST_ENTRIES: usize = 10_000;

struct Line {
    name: String,
    folder: bool,
    size: u64,
    modified: u64,
}

/// Lists a directory; hidden entries only with `dotfiles`. `title`: the path the client asked for.
pub(super) fn page(folder: &File, title: &str, dotfiles: bool) -> io::Result<String> {
    let (mut lines, mut cut) = (Vec::new(), false);
    for entry in Dir::read_from(folder)? {
        let entry = entry?;
        let name = entry.file_name().to_bytes();
        if name == b"." || name == b".." || (name.starts_with(b".") && !dotfiles) {
            continue;
        }
        if lines.len() >= MOST_ENTRIES {
            cut = true;
            break;
        }
        // Links are not followed: what they lead to may be outside.
        let Ok(found) = statat(folder, entry.file_name(), AtFlags::SYMLINK_NOFOLLOW) else { continue };
        lines.push(Line {
            name: String::from_utf8_lossy(name).into_owned(),
            folder: FileType::from_raw_mode(found.st_mode) == FileType::Directory,
            size: u64::try_from(found.st_size).unwrap_or(0),
            modified: u64::try_from(found.st_mtime).unwrap_or(0),
        });
    }
    lines.sort_by(|a, b| b.folder.cmp(&a.folder).then_with(|| a.name.cmp(&b.name)));
    Ok(render(title, &lines, cut))
}

fn render(title: &str, lines: &[Line], cut: bool) -> String {
    let title = escape(title);
    let mut out = format!(
        "<!DOCTYPE html>\n<html>\n<head><meta charset=\"utf-8\"><title>{title}</title></head>\n<body>\n<h1>{title}</h1>\n<table>\n"
    );
    if title != "/" {
        out.push_str("<tr><td><a href=\"../\">../</a></td><td></td><td></td></tr>\n");
    }
    for line in lines {
        let slash = if line.folder { "/" } else { "" };
        let mut link = Vec::new();
        encode(line.name.as_bytes(), &mut link);
        let link = escape(String::from_utf8_lossy(&link));
        let size = if line.folder { String::new() } else { line.size.to_string() };
        let modified = std::time::UNIX_EPOCH + std::time::Duration::from_secs(line.modified);
        // Writing to a String does not fail.
        let _ = writeln!(
            out,
            "<tr><td><a href=\"./{link}{slash}\">{}{slash}</a></td><td>{}</td><td>{size}</td></tr>",
            escape(line.name.as_str()),
            httpdate::fmt_http_date(modified),
        );
    }
    out.push_str("</table>\n");
    if cut {
        let _ = writeln!(out, "<p>Only the first {MOST_ENTRIES} entries are shown.</p>");
    }
    out.push_str("</body>\n</html>\n");
    out
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn names_are_escaped_and_hidden_ones_left_out() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("a<b>&\"c.txt"), "12345").unwrap();
        fs::write(folder.path().join(".hidden"), "").unwrap();
        fs::create_dir(folder.path().join("sub")).unwrap();
        let opened = File::open(folder.path()).unwrap();
        let page = page(&opened, "/x<y/", false).unwrap();
        assert!(page.contains("<h1>/x&lt;y/</h1>"), "{page}");
        assert!(page.contains("href=\"./a%3Cb%3E&amp;%22c.txt\">a&lt;b&gt;&amp;&quot;c.txt</a>"), "{page}");
        assert!(page.contains("<td>5</td>") && page.contains("href=\"./sub/\">sub/</a>"), "{page}");
        assert!(!page.contains("hidden"), "{page}");
    }
}
