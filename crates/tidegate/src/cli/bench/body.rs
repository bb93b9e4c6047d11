//! The body of the requests.

use tidegate_bench::Problem;

use super::{files, load::Load};

pub(super) fn body(arguments: &Load) -> Result<Option<String>, Problem> {
    match arguments.body.as_deref() {
        None => Ok(None),
        Some(text) => match text.strip_prefix('@') {
            Some(file) => files::read(file.as_ref()).map(Some),
            None => Ok(Some(text.to_owned())),
        },
    }
}
