//! Bounds on what a client can make the gateway hold. Names of the statuses: RFC 6585, RFC 9110.

use crate::protocols::case::{Case, check};

fn request(target: &str, fields: &str) -> Vec<u8> {
    format!("GET {target} HTTP/1.1\r\nHost: h\r\n{fields}\r\n").into_bytes()
}

fn many_fields(count: usize) -> String {
    (0..count).map(|number| format!("x{number}: 1\r\n")).collect()
}

#[test]
fn heads() {
    let long = |bytes: usize| format!("/{}", "a".repeat(bytes));
    let field = |bytes: usize| format!("X-Long: {}\r\n", "b".repeat(bytes));
    check(&[
        Case::pass("4 KiB target", "").sending(request(&long(4096), "")).seen(&["aaaaaaaa HTTP/1.1"]),
        Case::pass("7 KiB field", "").sending(request("/", &field(7168))).seen(&["bbbbbbbb\r\n"]),
        Case::pass("80 fields", "").sending(request("/", &many_fields(80))).seen(&["x79: 1"]),
        Case::refuse("40 KiB target", "").sending(request(&long(40_960), "")).statuses(&[414]),
        Case::refuse("40 KiB target, no line end", "")
            .sending(format!("GET {}", long(40_960)))
            .statuses(&[414]),
        Case::refuse("200 KiB field", "").sending(request("/", &field(204_800))).statuses(&[431]),
        Case::refuse("200 KiB of fields", "")
            .sending(request("/", &field(2_000).repeat(100)))
            .statuses(&[431]),
        Case::refuse("fields without an end", "")
            .sending(format!("GET / HTTP/1.1\r\nHost: h\r\n{}", "x: y\r\n".repeat(50_000)))
            .statuses(&[431]),
        Case::refuse("3,000 fields", "").sending(request("/", &many_fields(3_000))).statuses(&[431]),
        Case::refuse("endless method", "").sending("G".repeat(70_000)).statuses(&[501]),
        Case::refuse("endless trailers", "")
            .sending(format!(
                "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n{}",
                "x: y\r\n".repeat(50_000)
            ))
            .statuses(&[400, 431]),
    ]);
}
