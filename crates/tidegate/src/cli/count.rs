//! How many, in words.

/// `1 object`, `2 objects`.
pub(super) fn objects(count: u64) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{count} object{plural}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_is_singular() {
        assert_eq!([0, 1, 2].map(objects), ["0 objects", "1 object", "2 objects"]);
    }
}
