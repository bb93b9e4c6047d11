//! The fields of `Authorization: Signature keyId="...",algorithm="...",headers="...",signature="..."`.

#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Fields {
    pub key_id: Option<String>,
    pub algorithm: Option<String>,
    pub headers: Vec<String>,
    pub signature: Option<String>,
}

impl Fields {
    pub(super) fn parse(header: &[u8]) -> Result<Fields, &'static str> {
        let text = String::from_utf8_lossy(header);
        let rest =
            text.strip_prefix("Signature").ok_or("Authorization header does not start with 'Signature'")?;
        let mut fields = Fields::default();
        for (name, value) in rest.split(',').filter_map(field) {
            match name {
                "keyId" => fields.key_id = Some(value.to_owned()),
                "algorithm" => fields.algorithm = Some(value.to_owned()),
                "signature" => fields.signature = Some(value.to_owned()),
                "headers" => fields.headers = value.split(' ').map(str::to_owned).collect(),
                _ => {}
            }
        }
        Ok(fields)
    }
}

/// `name="value"`, whatever stands around it.
fn field(text: &str) -> Option<(&str, &str)> {
    let (before, rest) = text.split_once("=\"")?;
    let (value, _) = rest.split_once('"')?;
    let start = before.rfind(|c: char| !c.is_ascii_alphanumeric()).map_or(0, |at| at + 1);
    let name = before.get(start..).filter(|name| !name.is_empty())?;
    Some((name, value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers() {
        let parse = |text: &str| Fields::parse(text.as_bytes());
        assert!(parse("Basic x").is_err());
        assert_eq!(parse("Signature"), Ok(Fields::default()));
        let expected = Fields {
            key_id: Some("k".to_owned()),
            algorithm: Some("hmac-sha256".to_owned()),
            headers: vec!["@request-target".to_owned(), "date".to_owned()],
            signature: Some("a+/=".to_owned()),
        };
        let text = "Signature keyId=\"k\", algorithm=\"hmac-sha256\" ,headers=\"@request-target date\",\
                    signature=\"a+/=\",other=\"x\",broken";
        assert_eq!(parse(text), Ok(expected));
    }
}
