//! Questions to the history of the store, for all who answer from it.

use std::time::Duration;

use tidegate_store::{History, history::HistoryError};

use super::answers::store_failed;
use crate::{AdminApi, message::Response};

const NO_HISTORY: &str = "this configuration provider has no history, checkpoints or rollback; the embedded \
one does. etcd keeps its own revisions (etcdctl get --rev, etcdctl snapshot save); GET /apisix/admin/export \
returns the whole configuration";

/// What is durable is visible soon after.
pub(super) const VISIBLE_PATIENCE: Duration = Duration::from_secs(2);

/// Asks on a thread that may wait for the disk.
pub(super) async fn ask<T: Send + 'static>(
    api: &AdminApi,
    question: impl FnOnce(&dyn History) -> Result<T, HistoryError> + Send + 'static,
) -> Result<T, Response> {
    ask_raw(api, question).await?.map_err(|error| failed(&error))
}

pub(super) async fn ask_raw<T: Send + 'static>(
    api: &AdminApi,
    question: impl FnOnce(&dyn History) -> Result<T, HistoryError> + Send + 'static,
) -> Result<Result<T, HistoryError>, Response> {
    let store = api.store.clone();
    if store.history().is_none() {
        return Err(Response::error(501, NO_HISTORY));
    }
    let asked = tokio::task::spawn_blocking(move || store.history().map(question));
    match asked.await {
        Ok(Some(answer)) => Ok(answer),
        Ok(None) => Err(Response::error(501, NO_HISTORY)),
        Err(_) => Err(Response::error(503, "the history cannot be read; see the error log")),
    }
}

pub(super) fn failed(error: &HistoryError) -> Response {
    let status = match error {
        HistoryError::Trimmed { .. } => 410,
        HistoryError::Future { .. } | HistoryError::NoCheckpoint(_) => 404,
        HistoryError::TooManyCheckpoints | HistoryError::LargeCheckpoints { .. } => 400,
        HistoryError::Store(error) => return store_failed(error),
    };
    Response::error(status, &error.to_string())
}
