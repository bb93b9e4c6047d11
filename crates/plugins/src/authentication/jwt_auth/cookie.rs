//! Removing one cookie from a request.

use tidegate_plugin_api::Request;
use tidegate_protocol::HeaderId;

pub(super) fn remove(request: &mut Request, name: &str) {
    let mut kept = Vec::new();
    for line in request.head.headers.all_known(HeaderId::Cookie) {
        for pair in without(line, name) {
            if !kept.is_empty() {
                kept.extend_from_slice(b"; ");
            }
            kept.extend_from_slice(pair);
        }
    }
    if kept.is_empty() {
        request.head.headers.remove_known(HeaderId::Cookie);
    } else {
        request.head.headers.set("Cookie", kept);
    }
}

fn without<'a>(line: &'a [u8], name: &'a str) -> impl Iterator<Item = &'a [u8]> {
    line.split(|&byte| byte == b';')
        .map(<[u8]>::trim_ascii)
        .filter(|pair| !pair.is_empty())
        .filter(move |pair| pair.split(|&byte| byte == b'=').next() != Some(name.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::without;

    #[test]
    fn only_the_named_one_goes() {
        let cases: [(&str, &[&str]); 4] = [
            ("jwt=abc", &[]),
            ("a=b; jwt=x.y.z; c=d=e", &["a=b", "c=d=e"]),
            ("jwt2=1;;ajwt=2", &["jwt2=1", "ajwt=2"]),
            ("", &[]),
        ];
        for (line, expected) in cases {
            let got: Vec<&[u8]> = without(line.as_bytes(), "jwt").collect();
            let expected: Vec<&[u8]> = expected.iter().map(|pair| pair.as_bytes()).collect();
            assert_eq!(got, expected, "{line}");
        }
    }
}
