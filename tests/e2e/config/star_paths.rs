//! Routes whose paths have several `*`: a client cannot make the search for a match so long that it is given up, and be
//! served by a route with a wider path.

use std::time::{Duration, Instant};

use tidegate_testkit::Gateway;
use tidegate_testkit::gateway::YAML_PROVIDER;

#[test]
fn no_path_is_too_long_for_a_pattern_with_many_stars() {
    let route = |id: &str, uri: &str, status: u16| {
        format!(
            "- {{id: {id}, uri: \"{uri}\", plugins: {{mocking: {{response_status: {status}, response_example: x}}}}}}\n"
        )
    };
    let many = format!("/many{}/z", "/*/a".repeat(200));
    let routes = [
        "routes:\n".to_owned(),
        route("guarded", "/in/*p/k/*q/a/*r/a/m/*s", 403),
        route("many", &many, 403),
        route("open", "/*", 200),
    ]
    .concat();
    let gateway = Gateway::start(YAML_PROVIDER, Some(&routes));
    let mut client = gateway.client();
    let long = "/a".repeat(4000);
    let cases = [
        ("/in/1/k/2/a/3/a/m/4".to_owned(), 403),
        (format!("/in/1/k/2/a/3/a/m{long}"), 403),
        (format!("/in/1/k/2/a/3/a/n{long}"), 200),
        (format!("/many{long}/z"), 403),
        (format!("/many{long}/y"), 200),
    ];
    for (path, status) in cases {
        let started = Instant::now();
        let answer = client.get("h", &path).expect("an answer").status();
        assert_eq!(answer, status, "{}", path.get(..40).unwrap_or(&path));
        assert!(started.elapsed() < Duration::from_secs(3), "{:?}", started.elapsed());
    }
}
