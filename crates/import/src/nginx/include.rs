//! `include`: the directives of other files in place of the line that names them, each with its own file and line.
//!
//! What cannot be read stays as an `include`, which closes the block that it stands in. The files that nginx and Debian ship are
//! known, where they are not on this machine.

use std::sync::Arc;

use super::parse::{self, Directive};
use crate::input::Files;

/// An included file can include others; nginx has no limit, and ends when it has no descriptor left.
const MAX_DEPTH: usize = 16;
/// All files together.
const MAX_FILES: usize = 10_000;

pub(crate) struct Includes<'a> {
    files: &'a dyn Files,
    left: usize,
}

impl<'a> Includes<'a> {
    pub(super) fn new(files: &'a dyn Files) -> Self {
        Includes { files, left: MAX_FILES }
    }

    /// All blocks with what they include; notes on what is not read go to `note`.
    pub(super) fn expand(
        &mut self,
        block: Vec<Directive>,
        note: &mut dyn FnMut(&Directive, Why),
    ) -> Vec<Directive> {
        self.expand_below(block, 0, note)
    }

    fn expand_below(
        &mut self,
        block: Vec<Directive>,
        depth: usize,
        note: &mut dyn FnMut(&Directive, Why),
    ) -> Vec<Directive> {
        let mut expanded = Vec::with_capacity(block.len());
        for mut directive in block {
            if directive.name == "include" {
                match self.included(&directive, depth, note) {
                    Ok(included) => expanded.extend(included),
                    Err(why) => {
                        note(&directive, Why::Unread(&why));
                        directive.arguments.truncate(1);
                        directive.arguments.push(why);
                        expanded.push(directive);
                    }
                }
                continue;
            }
            directive.block = self.expand_below(directive.block, depth, note);
            expanded.push(directive);
        }
        expanded
    }

    fn included(
        &mut self,
        directive: &Directive,
        depth: usize,
        note: &mut dyn FnMut(&Directive, Why),
    ) -> Result<Vec<Directive>, String> {
        let name = directive.argument(0);
        if self.files.is_declared_empty(name) {
            note(directive, Why::DeclaredEmpty);
            return Ok(Vec::new());
        }
        if name.contains('$') {
            return Err("variables are not resolved".to_owned());
        }
        if depth >= MAX_DEPTH {
            return Err(format!("more than {MAX_DEPTH} files include each other"));
        }
        let mut all = Vec::new();
        for (file, text) in self.texts(name)? {
            self.left = self.left.checked_sub(1).ok_or(format!("more than {MAX_FILES} files"))?;
            let file: Arc<str> = file.into();
            let block = parse::parse(&text, Some(&file)).map_err(|fault| format!("{file}:{fault}"))?;
            all.extend(self.expand_below(block, depth + 1, note));
        }
        Ok(all)
    }

    /// Names and texts of the files that a pattern names.
    fn texts(&self, name: &str) -> Result<Vec<(String, String)>, String> {
        if name.contains(['*', '?', '[']) {
            let is_hidden = |part: &str| part.starts_with('.') && part.contains(['*', '?', '[']);
            let has_class = ["[^", "[:", "[.", "[=", "\\"].iter().any(|sign| name.contains(sign));
            if has_class || name.split('/').any(is_hidden) {
                return Err("the files that the pattern names are unknown".to_owned());
            }
            let found = self.files.glob(name)?;
            return found
                .into_iter()
                .map(|file| {
                    let text = self.files.read(&file)?;
                    Ok((file, text))
                })
                .collect();
        }
        match self.files.read(name) {
            Ok(text) => Ok(vec![(name.to_owned(), text)]),
            Err(why) => match shipped(name) {
                Some(text) => Ok(vec![(name.to_owned(), text.to_owned())]),
                None => Err(why),
            },
        }
    }
}

/// What is worth a line in the report.
pub(crate) enum Why<'a> {
    Unread(&'a str),
    DeclaredEmpty,
}

/// Of the files that nginx and Debian ship, what matters here: parameters for other protocols and tables of characters
/// change no answer of what is converted, and our table of types is nginx's.
fn shipped(name: &str) -> Option<&'static str> {
    let path = name.strip_prefix("/etc/nginx/").unwrap_or(name);
    Some(match path.strip_prefix("conf/").unwrap_or(path) {
        "mime.types" | "koi-utf" | "koi-win" | "win-utf" => "",
        "fastcgi_params" | "fastcgi.conf" | "uwsgi_params" | "scgi_params" => "",
        "proxy_params" => {
            "proxy_set_header Host $host; proxy_set_header X-Real-IP $remote_addr;\n\
             proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for; proxy_set_header X-Forwarded-Proto $scheme;"
        }
        "snippets/fastcgi-php.conf" => {
            "fastcgi_split_path_info ^(.+?\\.php)(/.*)$; try_files $fastcgi_script_name =404;\n\
             set $path_info $fastcgi_path_info; fastcgi_param PATH_INFO $path_info; fastcgi_index index.php;"
        }
        "snippets/snakeoil.conf" => {
            "ssl_certificate /etc/ssl/certs/ssl-cert-snakeoil.pem;\n\
             ssl_certificate_key /etc/ssl/private/ssl-cert-snakeoil.key;"
        }
        _ => return None,
    })
}
