//! Rows for a table of ClickHouse, over its HTTP interface.

use serde::{Deserialize, Serialize};
use tidegate_clients::http::{ClientOptions, Endpoint, Outgoing};
use tidegate_model::header_text::{HeaderField, Text};

use super::deliver::deliver;

/// The fields that name a table and who writes into it.
#[derive(Deserialize)]
pub(crate) struct Table {
    pub user: String,
    pub password: String,
    pub database: String,
    pub logtable: String,
}

/// Those of them that go into header fields.
pub(crate) const HEADERS: [HeaderField; 3] =
    [("user", Text::Value), ("password", Text::Value), ("database", Text::Value)];

impl Table {
    pub(crate) async fn insert(
        &self,
        rows: &[impl Serialize],
        endpoint: Endpoint,
        options: &ClientOptions,
    ) -> Result<(), String> {
        let outgoing = Outgoing::post(endpoint, "application/json", self.statement(rows))
            .header("X-ClickHouse-User", self.user.as_bytes())
            .header("X-ClickHouse-Key", self.password.as_bytes())
            .header("X-ClickHouse-Database", self.database.as_bytes());
        deliver(outgoing, options).await
    }

    fn statement(&self, rows: &[impl Serialize]) -> String {
        let rows: Vec<String> = rows.iter().filter_map(|row| serde_json::to_string(row).ok()).collect();
        format!("INSERT INTO {} FORMAT JSONEachRow {}", self.logtable, rows.join(" "))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_statement_with_its_rows() {
        let text = String::new;
        let table = Table { user: text(), password: text(), database: text(), logtable: "t".to_owned() };
        let statement = table.statement(&[json!({"a": 1}), json!({"a": "b"})]);
        assert_eq!(statement, r#"INSERT INTO t FORMAT JSONEachRow {"a":1} {"a":"b"}"#);
    }
}
