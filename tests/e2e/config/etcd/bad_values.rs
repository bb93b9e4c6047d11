//! What cannot be used is named, and what it guards is shut; the rest stays. Where there is no object at all, what was in
//! force before stays.

use tidegate_testkit::{Etcd, Gateway, eventually};

use super::{config, mock, status};

#[test]
fn bad_values_are_named_and_change_nothing() {
    let etcd = Etcd::start();
    etcd.put("/apisix/routes/good", &mock("/good", 201));
    etcd.put("/apisix/routes/broken", "{half a val");
    etcd.put("/apisix/rotes/1", "{}");
    let gateway = Gateway::start(&config(&etcd.url()), None);
    assert_eq!(status(&gateway, "/good"), 201);
    let logged = |what: &str| {
        eventually(what, || gateway.error_log().lines().any(|line| line.contains(what)));
    };
    logged("[/apisix/routes/broken] err:it should be JSON");
    logged("[/apisix/rotes/1] err:unknown kind of resource");

    // A plugin that only APISIX has may be what protects the route: kept for APISIX, refused here.
    etcd.put(
        "/apisix/routes/foreign",
        r#"{"uri":"/foreign","plugins":{"mocking":{"response_example":"x"},"only-there":{}}}"#,
    );
    eventually("it is listed", || gateway.admin("GET", "/apisix/admin/routes/foreign", "").0 == 200);
    logged("only-there");
    eventually("its requests are refused", || status(&gateway, "/foreign") == 503);

    // Good ones become bad: not JSON, no object, against the schema.
    for (value, reason, expected) in [
        ("{half a val", "it should be JSON", 201),
        ("[]", "it should be an object", 201),
        (r#"{"uri":"/good","priority":"high"}"#, "invalid configuration: property \"priority\"", 503),
        // Its place is the one it had.
        (r#"{"uri":17}"#, "invalid configuration: property \"uri\"", 503),
    ] {
        etcd.put("/apisix/routes/good", value);
        etcd.put("/apisix/routes/marker", &mock("/marker", 201));
        eventually("the change after the bad one takes effect", || status(&gateway, "/marker") == 201);
        logged(&format!("[/apisix/routes/good] err:{reason}"));
        assert_eq!(status(&gateway, "/good"), expected, "{value}");
        etcd.control(&["del", "/apisix/routes/marker"]);
        eventually("the marker is gone", || status(&gateway, "/marker") == 404);
    }

    // Whoever reads everything again keeps the last good version, too.
    etcd.compact();
    etcd.put("/apisix/routes/good", &mock("/good", 202));
    eventually("it is good again", || status(&gateway, "/good") == 202);

    // A bad one can be deleted, like all below a prefix at once.
    etcd.put("/apisix/routes/good", "no");
    for id in 0..20 {
        etcd.put(&format!("/apisix/routes/{id}"), &mock(&format!("/{id}"), 201));
    }
    eventually("the last one is there", || status(&gateway, "/19") == 201);
    etcd.control(&["del", "--prefix", "/apisix/routes/"]);
    eventually("all are gone", || {
        gateway.admin("GET", "/apisix/admin/routes", "").1.contains(r#""total":0"#)
    });
    for path in ["/good", "/0", "/19"] {
        eventually("none is served", || status(&gateway, path) == 404);
    }
    assert!(!gateway.error_log().contains("panicked"));
}
