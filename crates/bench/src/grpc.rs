//! What gRPC calls things: paths, messages on the wire, codes and their names.

use bytes::Bytes;

use crate::Problem;

pub(crate) const UNKNOWN: u32 = 2;

const NAMES: [&str; 17] = [
    "OK",
    "CANCELLED",
    "UNKNOWN",
    "INVALID_ARGUMENT",
    "DEADLINE_EXCEEDED",
    "NOT_FOUND",
    "ALREADY_EXISTS",
    "PERMISSION_DENIED",
    "RESOURCE_EXHAUSTED",
    "FAILED_PRECONDITION",
    "ABORTED",
    "OUT_OF_RANGE",
    "UNIMPLEMENTED",
    "INTERNAL",
    "UNAVAILABLE",
    "DATA_LOSS",
    "UNAUTHENTICATED",
];
pub(crate) const CODES: usize = NAMES.len();

/// Such as `UNAVAILABLE`; a code beyond those of gRPC counts as `UNKNOWN`.
pub fn name(code: u32) -> &'static str {
    NAMES.get(code as usize).copied().unwrap_or("UNKNOWN")
}

pub(crate) fn is_known(code: u32) -> bool {
    (code as usize) < CODES
}

/// What a status of HTTP stands for where there is no `grpc-status`, as gRPC's own table has it.
pub(crate) fn code_of_status(status: u16) -> u32 {
    match status {
        400 => 13,
        401 => 16,
        403 => 7,
        404 => 12,
        429 | 502 | 503 | 504 => 14,
        _ => UNKNOWN,
    }
}

/// A message as it stands in a body, not compressed.
pub fn frame(message: &[u8]) -> Result<Bytes, Problem> {
    let length = u32::try_from(message.len()).map_err(|_| {
        Problem::usage("--body is longer than 4 GiB, which is the most that a message of gRPC can have")
    })?;
    let mut framed = Vec::with_capacity(message.len() + 5);
    framed.push(0);
    framed.extend(length.to_be_bytes());
    framed.extend(message);
    Ok(Bytes::from(framed))
}

/// Refuses what no method of a service can be.
pub fn check_path(path: &str) -> Result<(), Problem> {
    let mut parts = path.strip_prefix('/').unwrap_or_default().split('/');
    let named = |part: Option<&str>| part.is_some_and(|part| !part.is_empty() && !part.contains('?'));
    if named(parts.next()) && named(parts.next()) && parts.next().is_none() {
        return Ok(());
    }
    Err(Problem::usage(format!(
        "{path:?} is not a gRPC method; give a URL such as http://127.0.0.1:9080/package.Service/Method"
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths() {
        for path in ["/a.B/C", "/B/C"] {
            assert!(check_path(path).is_ok(), "{path}");
        }
        for path in ["/", "/a.B", "/a.B/", "//C", "/a.B/C/D", "/a.B/C?x=1", ""] {
            assert!(check_path(path).is_err(), "{path}");
        }
    }
}
