//! request-validation: a field that comes again, or without a value, does not get around what a schema asks of its text.

use tidegate_testkit::gateway::YAML_PROVIDER;

use super::*;

#[test]
fn repeated_fields_do_not_pass_what_a_schema_asks_of_texts() {
    let validated = |id: &str, conf: &str| {
        format!(
            "- {{id: {id}, uri: /{id}, plugins: {{mocking: {{response_example: open}}, request-validation: {conf}}}}}\n"
        )
    };
    let routes = [
        "routes:\n".to_owned(),
        validated("body", "{body_schema: {properties: {name: {maxLength: 4, pattern: \"^[a-z]+$\"}}}}"),
        validated("typed", "{body_schema: {properties: {name: {type: string}}}}"),
        validated("list", "{body_schema: {properties: {name: {type: array, items: {maxLength: 4}}}}}"),
        validated("head", "{header_schema: {properties: {X_Role: {pattern: \"^(guest|user)$\"}}}}"),
    ]
    .concat();
    let gateway = Gateway::start(YAML_PROVIDER, Some(&routes));
    let post = |path: &str, body: &str| {
        let request = format!(
            "POST {path} HTTP/1.1\r\nHost: h\r\nContent-Type: application/x-www-form-urlencoded\r\n\
             Content-Length: {}\r\n\r\n{body}",
            body.len()
        );
        gateway.client().request(&request).expect("an answer")
    };
    let cases = [
        ("/body", "name=abc", 200),
        ("/body", "name=abcde", 400),
        ("/body", "name=abc&name=abc", 400),
        ("/body", "name=abcdefgh&name=a", 400),
        ("/body", "name=a&n%61me=ADMIN", 400),
        ("/body", "name", 400),
        ("/body", "name=abc&other=1&other=2&flag", 200),
        ("/body", "name=abc&+name=ADMIN", 400),
        ("/body", "+name=ADMIN", 400),
        ("/body", "name[]=ADMIN", 400),
        ("/body", "name%00x=ADMIN", 400),
        ("/body", "names=ADMIN&na.me=1", 200),
        ("/typed", "name=1&name=2", 400),
        ("/list", "name=ab&name=cd", 200),
        ("/list", "name=ab&name=abcde", 400),
        ("/list", "name=ab", 400),
    ];
    for (path, body, status) in cases {
        let answer = post(path, body);
        assert_eq!(answer.status(), status, "{path} {body}: {}", answer.body_text());
    }
    let reason = post("/body", "name=abc&name=abc").body_text();
    assert!(reason.contains("it comes more than once") && reason.contains("\"name\""), "{reason}");
    for (fields, status) in [
        ("X-Role: guest\r\n", 200),
        ("X-Role: admin\r\n", 400),
        ("X_Role: admin\r\n", 400),
        ("X_Role: user\r\n", 200),
        ("X_Role: user\r\nX-Role: user\r\n", 400),
        // No upstream sees it.
        ("X-Role: guest\r\nX.Role: admin\r\n", 200),
        ("X-Role: guest\r\nX-Role: admin\r\n", 400),
        ("x-role: admin\r\nX-ROLE: guest\r\n", 400),
        ("Accept: a\r\nAccept: b\r\nX-Role: user\r\n", 200),
    ] {
        assert_eq!(ask(&gateway, "/head", fields).status(), status, "{fields}");
    }
}

/// A body that the upstream reads as JSON is judged as JSON.
#[test]
fn only_a_form_is_read_as_a_form() {
    let schema = r#"{type: object, required: [role], properties: {role: {type: string, enum: [user]}}}"#;
    let routes = format!(
        "routes:\n- {{id: 1, uri: /rv, plugins: {{mocking: {{response_example: open}}, request-validation: {{body_schema: {schema}}}}}}}\n\
         - {{id: 2, uri: /var, vars: [[post_arg_role, ==, user]], plugins: {{mocking: {{response_example: open}}}}}}\n"
    );
    let gateway = Gateway::start(YAML_PROVIDER, Some(&routes));
    let post = |path: &str, kind: &str, body: &str| {
        let length = body.len();
        let head = format!(
            "POST {path} HTTP/1.1\r\nHost: h\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\n\r\n"
        );
        gateway.client().request(&(head + body)).expect("an answer").status()
    };
    let form = "application/x-www-form-urlencoded";
    let both = r#"{"role":"admin","x":"&role=user&y="}"#;
    for kind in
        ["+json", "json", ",", " x", ";application/json", ", application/json", "; charset=utf-8; a/json"]
    {
        let kind = format!("{form}{kind}");
        assert_eq!(post("/rv", &kind, both), 400, "{kind}");
        // Others take it for a form, and APISIX does: nobody can tell.
        assert_eq!(post("/rv", &kind, r#"{"role":"user"}"#), 400, "{kind}");
        assert_eq!(post("/var", &kind, "role=user"), 404, "{kind}");
    }
    for kind in [form, "Application/X-WWW-Form-Urlencoded ; charset=utf-8"] {
        assert_eq!(post("/rv", kind, "role=user&x={%22"), 200, "{kind}");
        assert_eq!(post("/var", kind, "role=user"), 200, "{kind}");
        for body in [both, " [\"&role=user", "role=user&a{b=1", "role=user&%7B=1", "role=user&%22=1"] {
            assert_eq!(post("/rv", kind, body), 400, "{kind} {body}");
        }
    }
}

/// The name of a part that servers read in different ways decides no condition.
#[test]
fn parts_without_a_certain_name_are_refused() {
    let routes = "routes:\n- {id: 1, uri: /*, vars: [[post_arg.admin, ==, \"1\"]], priority: 1, plugins: {key-auth: {}}}\n\
                  - {id: 2, uri: /*, plugins: {mocking: {response_example: open}}}\n";
    let gateway = Gateway::start(YAML_PROVIDER, Some(routes));
    for (disposition, status) in [
        ("name=\"other\"", 200),
        ("name=\"admin\"", 401),
        ("filename=\"; name=x\"; name=\"admin\"", 401),
        ("name = \"admin\"", 400),
        ("name*=UTF-8''admin", 400),
        ("name='admin'", 400),
        ("name=x; name=admin", 400),
    ] {
        let body = format!("--B\r\nContent-Disposition: form-data; {disposition}\r\n\r\n1\r\n--B--\r\n");
        let head = format!(
            "POST / HTTP/1.1\r\nHost: h\r\nContent-Type: multipart/form-data; boundary=B\r\nContent-Length: {}\r\n\r\n",
            body.len()
        );
        let answer = gateway.client().request(&(head + &body)).expect("an answer");
        assert_eq!(answer.status(), status, "{disposition}");
    }
}
