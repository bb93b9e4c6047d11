//! What `tidegate connections` is answered.

use tidegate_model::Kind;
use tidegate_proxy::sessions::{self, Selection, Shown};
use tidegate_store::Store;

use super::commands::End;

const HEAD: [&str; 7] = ["ID", "PROTOCOL", "CLIENT", "SERVER", "ROUTE", "NODE", "OPEN"];

/// The error for a session or a stream route that does not exist.
pub(super) fn answer(selection: &Selection, end: Option<End>, store: &dyn Store) -> Result<String, String> {
    let chosen = sessions::list(selection);
    if let Some(id) = &selection.route
        && chosen.is_empty()
        && store.get(Kind::StreamRoute, id).is_none()
    {
        return Err(format!("there is no stream route {id}; `tidegate connections` lists open sessions"));
    }
    if let Some(id) = selection.id
        && chosen.is_empty()
    {
        return Err(format!("there is no open session {id}; `tidegate connections` lists open sessions"));
    }
    Ok(match end {
        None => table(&chosen),
        Some(End::Now) => format!("closed {}\n", counted(sessions::end(selection, false))),
        Some(End::Silent) => {
            format!("{} will close once silent for a second\n", counted(sessions::end(selection, true)))
        }
    })
}

fn counted(count: usize) -> String {
    if count == 1 { "1 session".to_owned() } else { format!("{count} sessions") }
}

fn table(sessions: &[Shown]) -> String {
    let mut rows: Vec<[String; 7]> = vec![HEAD.map(str::to_owned)];
    rows.extend(sessions.iter().map(|one| {
        let draining = if one.is_draining { " draining" } else { "" };
        [
            one.id.to_string(),
            one.transport.to_owned(),
            one.client.to_string(),
            one.local.to_string(),
            one.route.to_string(),
            one.node.to_string(),
            format!("{}s{draining}", one.open_for.as_secs()),
        ]
    }));
    let width =
        |column: usize| rows.iter().filter_map(|row| row.get(column)).map(String::len).max().unwrap_or(0);
    let widths: Vec<usize> = (0..HEAD.len()).map(width).collect();
    let mut text = String::new();
    for row in &rows {
        let cells = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}"));
        text.push_str(cells.collect::<Vec<_>>().join("  ").trim_end());
        text.push('\n');
    }
    text
}
