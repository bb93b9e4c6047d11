//! Teams of one gateway, each with a scope: what one learns of the objects of another, and what it can do to them, by names, ids and
//! values that both could use.

use serde_json::{Value, json};
use tidegate_testkit::{Gateway, eventually};

use super::scopes::{KEY, gateway, json_of, with_key};
use super::sessions::{as_admin, send};
use super::traffic::Viewer;

fn admin(gateway: &Gateway, method: &str, path: &str, value: &Value) -> Value {
    let text = if value.is_null() { String::new() } else { value.to_string() };
    let answer = as_admin(gateway, method, path, &text);
    assert!(answer.status() < 300, "{method} {path}: {}", answer.body_text());
    json_of(&answer)
}

fn route(team: &str, path: &str) -> Value {
    let mocking = json!({"mocking": {"response_example": "x"}});
    json!({"uri": path, "plugins": mocking, "labels": {"team": team}})
}

fn limited(team: &str, plugin: &str, group: &str) -> Value {
    let mut limited = route(team, "/limited");
    limited["plugins"][plugin] = json!({"count": 5, "time_window": 60, "group": group});
    limited
}

/// A group has one quota: who joins it uses it up.
#[test]
fn groups_of_others_are_not_joined() {
    let gateway = gateway();
    admin(&gateway, "PUT", "/routes/b", &limited("b", "limit-count", "shared"));
    admin(&gateway, "PUT", "/consumer_groups/b", &{
        let limit = json!({"limit-count": {"count": 1, "time_window": 9, "group": "of-group"}});
        json!({"plugins": limit, "labels": {"team": "b"}})
    });
    for (plugin, group) in
        [("limit-count", "shared"), ("graphql-limit-count", "shared"), ("limit-count", "of-group")]
    {
        let refused = format!("plugins.{plugin}.group {group} is used outside of your scope");
        let body = limited("a", plugin, group);
        let answer = with_key(&gateway, "PUT", "/routes/a", &body.to_string());
        assert!(
            answer.status() == 403 && answer.body_text().contains(&refused),
            "{plugin} {group}: {}",
            answer.body_text()
        );
        let change = json!({"changes": [{"method": "PUT", "path": "/routes/a", "value": body}]});
        let answer = with_key(&gateway, "POST", "/transactions", &change.to_string());
        assert!(answer.status() == 400 && answer.body_text().contains(&refused), "{}", answer.body_text());
    }
    // Those of one's own are shared, and what an admin gave stays.
    for id in ["a", "a2"] {
        let answer = with_key(
            &gateway,
            "PUT",
            &format!("/routes/{id}"),
            &limited("a", "limit-count", "own").to_string(),
        );
        assert_eq!(answer.status(), 201, "{}", answer.body_text());
    }
    admin(&gateway, "PUT", "/routes/given", &limited("a", "limit-count", "shared"));
    assert_eq!(with_key(&gateway, "PATCH", "/routes/given", r#"{"desc":"d"}"#).status(), 200);
}

#[test]
fn rollbacks_history_and_refusals_tell_nothing_of_others() {
    let gateway = gateway();
    let revision =
        || admin(&gateway, "GET", "/revision", &Value::Null)["stored"].as_u64().expect("a revision");
    admin(&gateway, "PUT", "/checkpoints/known", &Value::Null);
    admin(&gateway, "PUT", "/routes/gone", &route("b", "/gone"));
    let with_gone = revision();
    admin(&gateway, "PATCH", "/routes/other", &json!({"desc": "changed"}));
    let changed = revision();
    admin(&gateway, "DELETE", "/routes/gone", &Value::Null);
    let back = |body: Value| {
        let answer = with_key(&gateway, "POST", "/rollback", &body.to_string());
        (answer.status(), answer.body_text())
    };
    // The same whether it has changed since, was not there then, or never was.
    let nothing = (404, r#"{"message":"Key not found"}"#.to_owned());
    for at in [with_gone, changed, revision()] {
        for key in [
            "/routes/other",
            "/routes/gone",
            "/routes/never",
            "/consumers/other/credentials/c",
            "/consumers/never/credentials/c",
        ] {
            for dry_run in [true, false] {
                let (status, text) = back(json!({"revision": at, "key": key, "dry_run": dry_run}));
                assert_eq!((status, text.trim().to_owned()), nothing, "{at} {key}");
            }
        }
    }
    let checkpoints =
        ["known", "unknown"].map(|name| back(json!({"checkpoint": name, "key": "/routes/own"})));
    assert_eq!(checkpoints[0], checkpoints[1]);
    assert_eq!(checkpoints[0].0, 403, "{checkpoints:?}");
    // An id that others had is a new object: its history begins with it.
    let answer = with_key(&gateway, "PUT", "/routes/gone", &route("a", "/gone").to_string());
    assert_eq!(answer.status(), 201, "{}", answer.body_text());
    let history = json_of(&with_key(&gateway, "GET", "/history?key=/routes/gone", ""));
    assert_eq!((&history["total"], &history["list"][0]["who"]["name"]), (&json!(1), &json!("ci")));
    // Nor is it said whose a key is.
    admin(&gateway, "PUT", "/consumers/own", &json!({"username": "own", "labels": {"team": "a"}}));
    let credential = r#"{"plugins":{"key-auth":{"key":"k-other"}}}"#;
    let change = json!({"changes": [{"method": "PUT", "path": "/consumers/own/credentials/1",
        "value": {"plugins": {"key-auth": {"key": "k-other"}}}}]});
    for answer in [
        with_key(&gateway, "PUT", "/consumers/own/credentials/1", credential),
        with_key(&gateway, "POST", "/transactions", &change.to_string()),
    ] {
        let text = answer.body_text();
        assert!(answer.status() == 400 && text.contains("found with another consumer"), "{text}");
        assert!(!text.contains("consumer: other"), "{text}");
    }
    let answer = with_key(&gateway, "PUT", "/routes/other", &route("a", "/n").to_string());
    assert!(
        answer.status() == 403 && answer.body_text().contains("its id is taken"),
        "{}",
        answer.body_text()
    );
}

/// Who answers first is told, and nothing else of what others have.
#[test]
fn warnings_name_routes_of_others_by_their_ids_alone() {
    let gateway = gateway();
    let others = json!({"uri": "/hidden/*", "plugins": {}, "priority": 9, "hosts": ["b.example"], "labels": {"team": "b"}});
    admin(&gateway, "PUT", "/routes/rb", &others);
    let own = json!({"uri": "/hidden/*", "plugins": {}, "hosts": ["b.example"], "priority": 1, "labels": {"team": "a"}});
    let told = |answer: &tidegate_testkit::Message| {
        answer.header("x-tidegate-warning").map(str::to_owned).unwrap_or_default()
    };
    let answer = with_key(&gateway, "PUT", "/routes/ra", &own.to_string());
    let text = told(&answer);
    assert!(text.contains("route rb answers those for /hidden/*"), "{text}");
    assert!(!text.contains("priority 9"), "{text}");
    let text = told(&as_admin(&gateway, "PUT", "/routes/ra", &own.to_string()));
    assert!(text.contains("has priority 9, this one 1"), "{text}");
    // The other way round: one's own comes before theirs.
    let mut first = own.clone();
    first["priority"] = json!(20);
    let text = told(&with_key(&gateway, "PUT", "/routes/ra", &first.to_string()));
    assert!(text.contains("routes/rb: route ra answers requests of this route first"), "{text}");
    assert!(!text.contains("priority 9"), "{text}");
    let change = json!({"dry_run": true, "changes": [{"method": "PUT", "path": "/routes/ra", "value": own}]});
    let text = with_key(&gateway, "POST", "/transactions", &change.to_string()).body_text();
    assert!(text.contains("route rb answers") && !text.contains("priority 9"), "{text}");
}

/// Requests and figures are of an object, not of whoever has its id next.
#[test]
fn requests_and_figures_stay_with_the_route_that_had_them() {
    let gateway = gateway();
    admin(&gateway, "PUT", "/global_rules/count", &json!({"plugins": {"prometheus": {}}}));
    admin(&gateway, "PUT", "/routes/sx", &route("b", "/sx"));
    admin(&gateway, "PUT", "/routes/mine", &route("a", "/mine"));
    // Older than the range.
    admin(&gateway, "PATCH", "/routes/mine", &json!({"create_time": 1}));
    let mut viewer = Viewer::watching(&gateway, "");
    for path in ["/sx?order=private", "/mine?order=own"] {
        assert_eq!(viewer.shown(&gateway, path, "")["target"], path);
    }
    let names = |answer: Value| {
        let routes = answer["routes"].as_array().expect("routes").iter();
        let mut names: Vec<String> =
            routes.filter_map(|route| route["id"].as_str().map(str::to_owned)).collect();
        names.sort();
        names
    };
    eventually("both are counted", || {
        names(admin(&gateway, "GET", "/stats?range=1h", &Value::Null)) == ["mine", "sx"]
    });
    admin(&gateway, "DELETE", "/routes/sx", &Value::Null);
    assert_eq!(with_key(&gateway, "PUT", "/routes/sx", &route("a", "/sx").to_string()).status(), 201);
    let kept =
        |route: &str| with_key(&gateway, "GET", &format!("/traffic?route={route}&seconds=1"), "").body_text();
    let (own, others) = (kept("mine"), kept("sx"));
    assert!(own.contains("event: slowest") && own.contains("order=own"), "{own}");
    assert!(others.contains("retry: ") && !others.contains("order=private"), "{others}");
    assert_eq!(names(json_of(&with_key(&gateway, "GET", "/stats?range=1h", ""))), ["mine"]);
    // Requests of the new one are shown.
    let mut viewer = Viewer::begin(gateway.admin, "route=sx", KEY);
    assert_eq!(viewer.shown(&gateway, "/sx?order=new", "")["target"], "/sx?order=new");
    // No one with a scope makes an object older than it is.
    for (path, body) in [("/routes/sx", r#"{"create_time":1}"#), ("/routes/sx/create_time", "1")] {
        let answer = with_key(&gateway, "PATCH", path, body);
        assert!(
            answer.status() == 403 && answer.body_text().contains("create_time is not for who has a scope"),
            "{path} {body}: {} {}",
            answer.status(),
            answer.body_text()
        );
    }
    let created = || json_of(&with_key(&gateway, "GET", "/routes/mine", ""))["value"]["create_time"].clone();
    assert_eq!(created(), 1);
    let before = admin(&gateway, "GET", "/revision", &Value::Null)["stored"].clone();
    assert_eq!(with_key(&gateway, "DELETE", "/routes/mine", "").status(), 200);
    let back = json!({"revision": before, "key": "/routes/mine"}).to_string();
    let answer = with_key(&gateway, "POST", "/rollback", &back);
    assert_eq!(answer.status(), 200, "{}", answer.body_text());
    assert!(created().as_u64().is_some_and(|time| time > 1), "{}", created());
    assert_eq!(send(gateway.admin, "GET", "/routes/mine", "", "").status(), 401);
}
