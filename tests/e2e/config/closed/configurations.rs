//! `PUT /apisix/admin/configs`: what is not a configuration changes nothing.

use super::{OPEN, admin, api_driven, configure, status};

#[test]
fn a_body_that_is_no_configuration_is_refused() {
    let gateway = api_driven();
    let good = format!(r#"{{"routes":[{{"id":1,"uri":"/x","plugins":{{{OPEN}}}}}]}}"#);
    assert_eq!(configure(&gateway, "good", &good).status(), 202);
    for (body, message) in [
        ("5", "expected an object with lists such as routes and upstreams"),
        ("null", "expected an object with lists"),
        (r#""x""#, "expected an object with lists"),
        ("[]", "expected an object with lists"),
        (r#"[{"routes":[]}]"#, "expected an object with lists"),
        (r#"{"routez":[]}"#, "expected an object with lists"),
        (r#"{"routes":{}}"#, "invalid data of [routes], it should be a list"),
        (r#"{"routes":null}"#, "invalid data of [routes], it should be a list"),
        (r#"{"routes":"x"}"#, "invalid data of [routes], it should be a list"),
        (r#"{"routes":[],"plugins":{}}"#, "invalid data of [plugins], it should be a list"),
    ] {
        let answer = configure(&gateway, "bad", body);
        assert_eq!((answer.status(), status(&gateway, "/x")), (400, 200), "{body}: {}", answer.body_text());
        assert!(answer.body_text().contains(message), "{body}: {}", answer.body_text());
    }
    // Told to whoever sent it, not in the log alone.
    let answer = configure(&gateway, "typo", &good.replacen('{', r#"{"global_rulez":[],"#, 1));
    let warning = answer.header("X-Tidegate-Warning").map(str::to_owned);
    assert_eq!(answer.status(), 202);
    assert_eq!(warning.as_deref(), Some("unknown key [global_rulez] is ignored; did you mean global_rules?"));
    // One that holds something might be a guard.
    for key in ["global_rulez", "global-rules", "route", "GLOBAL_RULES", "globalRules", "Routes"] {
        let list = format!(r#"{{"{key}":[{{"id":1,"plugins":{{"key-auth":{{}}}}}}],"#);
        let answer = configure(&gateway, key, &good.replacen('{', &list, 1));
        assert_eq!(answer.status(), 400, "{key}");
        assert!(answer.body_text().contains("did you mean"), "{key}: {}", answer.body_text());
    }
    let answer = admin(&gateway, "PUT", "configs", "", &good);
    assert_eq!(answer.status(), 400);
    assert!(answer.body_text().contains("X-Digest"), "{}", answer.body_text());
    // Nothing at all can be meant.
    assert_eq!((configure(&gateway, "empty", "{}").status(), status(&gateway, "/x")), (202, 404));
}
