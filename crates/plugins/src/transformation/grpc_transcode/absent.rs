//! In place of grpc-transcode, in a build without it.

#![allow(missing_docs, reason = "documented where the feature is on")]

use tidegate_model::catalog::built_without;

pub(crate) fn check_proto(_: &str) -> Result<(), String> {
    Err(built_without("grpc-transcode"))
}
