//! What a run prints and the files that it writes.

use std::path::Path;

use tidegate_bench::{
    Outcome, Problem,
    report::{self, Style},
};

use super::{
    files::{self, Output},
    load::Load,
};

type Render = fn(&Outcome) -> Result<String, Problem>;

/// The files of a run, open.
pub(super) struct Reports {
    files: Vec<(Output, Render)>,
    pub flame_graph: Option<Output>,
}

/// (flag, path, what goes into it).
fn wanted(arguments: &Load) -> Vec<(&'static str, &Path, Render)> {
    let all: [(&str, &Option<_>, Render); 6] = [
        ("--json", &arguments.json, report::json),
        ("--markdown", &arguments.markdown, |outcome| Ok(report::markdown::render(outcome))),
        ("--html", &arguments.html, report::html::render),
        ("--csv", &arguments.csv, |outcome| Ok(report::lines::csv(outcome))),
        ("--jsonl", &arguments.jsonl, report::lines::json_lines),
        ("--prometheus", &arguments.prometheus, |outcome| Ok(report::prometheus::render(outcome))),
    ];
    all.into_iter().filter_map(|(flag, path, render)| Some((flag, path.as_deref()?, render))).collect()
}

pub(super) fn any(arguments: &Load) -> bool {
    !wanted(arguments).is_empty()
}

impl Reports {
    /// Opens all of them, or says which one cannot be written.
    pub(super) fn open(arguments: &Load) -> Result<Reports, Problem> {
        let wanted = wanted(arguments);
        for (at, (flag, path, _)) in wanted.iter().enumerate() {
            if let Some((other, ..)) = wanted.iter().skip(at + 1).find(|(_, other, _)| other == path) {
                return Err(Problem::usage(format!(
                    "{flag} and {other} both write {}; give each a file of its own",
                    path.display()
                )));
            }
        }
        let files: Result<Vec<_>, Problem> =
            wanted.into_iter().map(|(flag, path, render)| Ok((Output::open(flag, path)?, render))).collect();
        let flame_graph = arguments
            .flamegraph
            .map(|_| Output::open("--flamegraph-file", &arguments.flamegraph_file))
            .transpose()?;
        Ok(Reports { files: files?, flame_graph })
    }

    /// Prints the report and writes the files.
    pub(super) fn write(self, style: Style, outcome: &Outcome) -> Result<Option<Output>, Problem> {
        // Where one fails the others are still written.
        let mut result = files::print(&report::render(style, outcome)?);
        for (file, render) in self.files {
            result = result.and(render(outcome).and_then(|text| file.write(&text)));
        }
        result.map(|()| self.flame_graph)
    }
}
