//! The router against a naive matcher that was written from APISIX's rules, not from this crate's code, and a
//! table of cases from APISIX's documentation.

use std::{
    net::{IpAddr, Ipv4Addr},
    sync::Arc,
};

use proptest::prelude::*;
use tidegate_routing::{
    AddressSet, Expression, HostPattern, MatchInput, Methods, Mode, Operand, RouteSpec, Router, Variables,
    router::{CandidateResult, Stale},
};

#[derive(Clone, Debug)]
struct Request {
    method: &'static str,
    host: String,
    path: String,
    address: IpAddr,
    argument: &'static str,
    refused: Vec<u32>,
}

impl Request {
    fn get(host: &str, path: &str) -> Self {
        Self {
            method: "GET",
            host: host.to_owned(),
            path: path.to_owned(),
            address: IpAddr::V4(Ipv4Addr::LOCALHOST),
            argument: "",
            refused: Vec::new(),
        }
    }
}

impl Variables for Request {
    type Name = String;

    fn get<'a>(&'a self, _: &String) -> Operand<'a> {
        if self.argument.is_empty() { Operand::Nil } else { self.argument.into() }
    }
}

impl MatchInput for Request {
    fn path(&self) -> &[u8] {
        self.path.as_bytes()
    }

    fn host(&self) -> Option<&[u8]> {
        Some(self.host.as_bytes())
    }

    fn host_with_port(&self) -> Option<&[u8]> {
        Some(b"a.com:8080")
    }

    fn method(&self) -> Methods {
        Methods::of(self.method)
    }

    fn remote_addr(&self) -> IpAddr {
        self.address
    }

    fn filter(&self, route: u32) -> bool {
        !self.refused.contains(&route)
    }
}

#[derive(Clone, Debug)]
struct Plain {
    uris: Vec<String>,
    hosts: Vec<String>,
    methods: Vec<&'static str>,
    argument: Option<&'static str>,
    local_only: bool,
    filter: bool,
    priority: i64,
}

impl Plain {
    fn new(uri: &str) -> Self {
        Self {
            uris: vec![uri.to_owned()],
            hosts: Vec::new(),
            methods: Vec::new(),
            argument: None,
            local_only: false,
            filter: false,
            priority: 0,
        }
    }

    fn hosts(mut self, hosts: &[&str]) -> Self {
        self.hosts = hosts.iter().map(|host| (*host).to_owned()).collect();
        self
    }

    fn priority(mut self, priority: i64) -> Self {
        self.priority = priority;
        self
    }

    fn spec(&self, id: u32) -> Arc<RouteSpec<String>> {
        let mut spec = RouteSpec::new(
            id,
            format!("{id:05}").into(),
            self.uris.iter().map(|uri| uri.as_str().into()).collect(),
        );
        spec.hosts = self.hosts.iter().map(|host| HostPattern::new(host)).collect();
        spec.methods = self.methods.iter().copied().collect();
        spec.remote_addrs = self.local_only.then(|| Box::new(AddressSet::parse(["127.0.0.0/8"]).unwrap()));
        spec.vars = self.argument.map(|value| {
            let condition = serde_json::json!([["arg", "==", value]]);
            Box::new(Expression::compile(&condition, &mut str::to_owned).unwrap())
        });
        spec.has_filter = self.filter;
        spec.priority = self.priority;
        Arc::new(spec)
    }

    fn accepts(&self, id: u32, request: &Request) -> bool {
        (self.methods.is_empty() || self.methods.contains(&request.method))
            && (!self.local_only || request.address == IpAddr::V4(Ipv4Addr::LOCALHOST))
            && self.argument.is_none_or(|value| value == request.argument)
            && (!self.filter || !request.refused.contains(&id))
    }
}

/// Tries every route and pattern, and takes the best by APISIX's order.
fn naive(mode: Mode, routes: &[Plain], request: &Request) -> Option<(u32, String)> {
    let mut best: Option<(Rank, u32, String)> = None;
    for (id, route) in (0u32..).zip(routes) {
        for (position, uri) in route.uris.iter().enumerate() {
            let hosts: Vec<Option<&String>> = match route.hosts.is_empty() {
                true => vec![None],
                false => route.hosts.iter().map(Some).collect(),
            };
            for host in hosts {
                let Some(host_rank) = host_rank(host, &request.host) else { continue };
                let Some(path_rank) = path_rank(mode, uri, &request.path) else { continue };
                if !route.accepts(id, request) {
                    continue;
                }
                let host_rank = if mode == Mode::HostUri { host_rank } else { (0, 0) };
                let order = (std::cmp::Reverse(id), std::cmp::Reverse(position));
                let rank = (host_rank, path_rank, route.priority, uri.len(), order);
                if best.as_ref().is_none_or(|(known, ..)| rank > *known) {
                    best = Some((rank, id, uri.clone()));
                }
            }
        }
    }
    best.map(|(_, id, uri)| (id, uri))
}

type Rank = ((u8, usize), (u8, usize), i64, usize, (std::cmp::Reverse<u32>, std::cmp::Reverse<usize>));

fn host_rank(pattern: Option<&String>, host: &str) -> Option<(u8, usize)> {
    let Some(pattern) = pattern else { return Some((0, 0)) };
    match pattern.strip_prefix('*') {
        Some(suffix) => host.ends_with(suffix).then_some((1, suffix.len())),
        None => (pattern == host).then_some((2, 0)),
    }
}

fn path_rank(mode: Mode, pattern: &str, path: &str) -> Option<(u8, usize)> {
    let variable = match mode {
        Mode::UriWithParameter => pattern.find(':').or_else(|| pattern.find('*')),
        _ => pattern.find('*'),
    };
    let Some(variable) = variable else { return (pattern == path).then_some((1, 0)) };
    if !path.starts_with(&pattern[..variable]) {
        return None;
    }
    let mut expression = String::from("(?s)^");
    let mut names = 0;
    for (position, segment) in pattern.split('/').enumerate() {
        if position > 0 {
            expression.push('/');
        }
        if segment.starts_with('*') {
            expression.push_str(".*");
            names += 1;
        } else if segment.starts_with(':') && mode == Mode::UriWithParameter {
            expression.push_str("[^/]+");
            names += 1;
        } else {
            expression.push_str(&regex_escape(segment));
        }
    }
    let whole = regex::Regex::new(&format!("{expression}$")).unwrap();
    (names == 0 || whole.is_match(path)).then_some((0, variable))
}

fn regex_escape(text: &str) -> String {
    text.chars()
        .flat_map(|letter| if letter.is_alphanumeric() { vec![letter] } else { vec!['\\', letter] })
        .collect()
}

fn pattern() -> impl Strategy<Value = String> {
    let segment = prop_oneof![
        4 => Just("a"), 4 => Just("b"), 2 => Just("ab"), 1 => Just(""),
        2 => Just(":x"), 1 => Just("*y"), 1 => Just("a*"), 1 => Just("a:b"), 2 => Just("*")
    ];
    prop::collection::vec(segment, 1..4).prop_map(|segments| format!("/{}", segments.join("/")))
}

fn path() -> impl Strategy<Value = String> {
    let segment =
        prop_oneof![4 => Just("a"), 4 => Just("b"), 2 => Just("ab"), 1 => Just(""), 1 => Just(":x")];
    prop::collection::vec(segment, 1..5).prop_map(|segments| format!("/{}", segments.join("/")))
}

fn route() -> impl Strategy<Value = Plain> {
    let host = prop_oneof![
        Just("a.com"),
        Just("x.a.com"),
        Just("*.a.com"),
        Just("*a.com"),
        Just("*"),
        Just("*.com"),
        Just("b.org")
    ];
    (
        prop::collection::vec(pattern(), 1..3),
        prop::collection::vec(host.prop_map(str::to_owned), 0..3),
        prop_oneof![3 => Just(vec![]), 1 => Just(vec!["GET"]), 1 => Just(vec!["POST", "PURGE"])],
        prop_oneof![3 => Just(None), 1 => Just(Some("1")), 1 => Just(Some("2"))],
        prop::bool::weighted(0.2),
        prop::bool::weighted(0.2),
        -1i64..2,
    )
        .prop_map(|(uris, hosts, methods, argument, local_only, filter, priority)| Plain {
            uris,
            hosts,
            methods,
            argument,
            local_only,
            filter,
            priority,
        })
}

fn request() -> impl Strategy<Value = Request> {
    (
        prop_oneof![Just("GET"), Just("POST"), Just("PURGE"), Just("FOO")],
        prop_oneof![Just("a.com"), Just("x.a.com"), Just("y.x.a.com"), Just("b.org"), Just("c.net")],
        path(),
        prop_oneof![Just(""), Just("1"), Just("2")],
        prop_oneof![Just([127, 0, 0, 1]), Just([8, 8, 8, 8])],
        prop::collection::vec(0u32..30, 0..10),
    )
        .prop_map(|(method, host, path, argument, address, refused)| Request {
            method,
            host: host.to_owned(),
            path,
            address: IpAddr::V4(address.into()),
            argument,
            refused,
        })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]
    #[test]
    fn agrees_with_the_naive_matcher(
        routes in prop::collection::vec(route(), 1..30),
        requests in prop::collection::vec(request(), 12),
    ) {
        for mode in [Mode::HostUri, Mode::Uri, Mode::UriWithParameter] {
            let router = Router::build(mode, (0u32..).zip(&routes).map(|(id, route)| route.spec(id)));
            for request in &requests {
                let found = router.find(request).map(|found| (found.route, found.matched_uri.to_owned()));
                prop_assert_eq!(&found, &naive(mode, &routes, request), "{:?} {:?}", mode, request);
                // The explanation names the same route, however few candidates are listed.
                for limit in [0, 100] {
                    let explained = router.explain(request, limit);
                    let mut won = explained.considered.iter().filter(|one| one.verdict == CandidateResult::Won);
                    let told = won.next().map(|won| (won.route, won.uri.to_string()));
                    prop_assert_eq!(&told, &found, "{:?} {:?}", mode, request);
                    prop_assert!(won.next().is_none() && explained.considered.len() <= limit + 1);
                }
            }
        }
    }

    /// What is said to be behind others gets no request, whatever it is and wherever the routes are laid out.
    #[test]
    fn routes_behind_others_get_no_request(
        routes in prop::collection::vec(route(), 1..12),
        requests in prop::collection::vec(request(), 16),
    ) {
        for mode in [Mode::HostUri, Mode::Uri, Mode::UriWithParameter] {
            let specs = || (0u32..).zip(&routes).map(|(id, route)| route.spec(id));
            let whole = Router::build(mode, specs());
            let (below, above): (Vec<_>, Vec<_>) = specs().partition(|spec| spec.id % 2 == 0);
            let base = Router::build(mode, below.into_iter());
            let layered = Router::with_changes(base.base().clone(), Stale::default(), above.into_iter(), || {});
            for spec in specs() {
                let behind = whole.shadowed(&spec.order);
                prop_assert_eq!(&layered.shadowed(&spec.order), &behind);
                let again = layered.with(std::slice::from_ref(&spec), &["00001"]).with(&specs().collect::<Vec<_>>(), &[]);
                prop_assert_eq!(&again.shadowed(&spec.order), &behind);
                for by in behind.paths.iter().flat_map(|path| &path.by) {
                    prop_assert!(whole.behind(by).contains(&spec.order), "{:?} of {:?}", behind, routes);
                }
                for request in &requests {
                    let Some(found) = whole.find(request).filter(|found| found.route == spec.id) else { continue };
                    let named = behind.paths.iter().any(|path| {
                        &*path.uri == found.matched_uri && path.host.as_deref() == found.matched_host
                    });
                    prop_assert!(!behind.is_whole && !named, "{:?}: {:?} {:?}", mode, request, behind);
                }
            }
        }
    }

    /// A base of other routes, some of them changed or gone since: the lookup must find the same as one index of
    /// the current routes.
    #[test]
    fn changes_over_a_base(
        routes in prop::collection::vec((prop::option::of(route()), prop::option::of(route()), any::<bool>()), 1..30),
        requests in prop::collection::vec(request(), 12),
    ) {
        for mode in [Mode::HostUri, Mode::Uri, Mode::UriWithParameter] {
            // (before, now): a route without a change is the same in both.
            let versions: Vec<_> = routes
                .iter()
                .map(|(before, now, changed)| (before.as_ref(), if *changed { now.as_ref() } else { before.as_ref() }))
                .collect();
            let numbered = || (0u32..).zip(&versions);
            let before = numbered().filter_map(|(id, (before, _))| Some(before.as_ref()?.spec(id)));
            let base = Router::build(mode, before);
            let mut stale = Stale::default();
            let present = numbered().filter(|(_, (before, _))| before.is_some());
            for (position, (id, _)) in (0u32..).zip(present) {
                if routes[id as usize].2 {
                    stale.mark(position);
                }
            }
            let changed = numbered().filter(|(id, _)| routes[*id as usize].2);
            let changed = changed.filter_map(|(id, (_, now))| Some(now.as_ref()?.spec(id)));
            let router = Router::with_changes(base.base().clone(), stale, changed, || {});
            let now = numbered().filter_map(|(id, (_, now))| Some(now.as_ref()?.spec(id)));
            let whole = Router::build(mode, now);
            for request in &requests {
                let found = router.find(request).map(|found| (found.route, found.matched_uri, found.matched_host));
                let expected = whole.find(request).map(|found| (found.route, found.matched_uri, found.matched_host));
                prop_assert_eq!(&found, &expected, "{:?} {:?}", mode, request);
                let explained = router.explain(request, 100);
                let mut won = explained.considered.iter().filter(|one| one.verdict == CandidateResult::Won);
                prop_assert_eq!(won.next().map(|one| one.route), expected.map(|found| found.0));
            }
        }
    }

    /// Enough keys for the counting half of the tree's construction.
    #[test]
    fn many_prefixes(numbers in prop::collection::hash_set(0u32..5000, 1..600), looked_up in 0u32..5000) {
        let routes: Vec<_> = numbers.iter().map(|number| Plain::new(&format!("/p{number}*"))).collect();
        let router = Router::build(Mode::Uri, (0u32..).zip(&routes).map(|(id, route)| route.spec(id)));
        let request = Request::get("a.com", &format!("/p{looked_up}"));
        let found = router.find(&request).map(|found| (found.route, found.matched_uri.to_owned()));
        prop_assert_eq!(found, naive(Mode::Uri, &routes, &request));
    }
}

fn check(mode: Mode, routes: &[Plain], request: &Request, expected: Option<(u32, &str, Option<&str>)>) {
    let router = Router::build(mode, (0u32..).zip(routes).map(|(id, route)| route.spec(id)));
    let found = router.find(request).map(|found| (found.route, found.matched_uri, found.matched_host));
    assert_eq!(found, expected, "{mode:?} {request:?}");
}

#[test]
fn a_route_behind_another_one_is_named() {
    let check = |mode: Mode, routes: &[Plain], expected: Option<&str>| {
        let router = Router::build(mode, (0u32..).zip(routes).map(|(id, route)| route.spec(id)));
        let last = format!("{:05}", routes.len() - 1);
        let said = router.shadowed(&last).in_words();
        assert_eq!(
            said.as_deref().map(|said| said.split("; ").next().unwrap_or_default()),
            expected,
            "{routes:?}"
        );
    };
    let all = [Mode::HostUri, Mode::Uri, Mode::UriWithParameter];
    let first = "no request reaches this route: route 00000 answers those for";
    let same = "has the same path and priority and comes first in the store";
    for mode in all {
        let a = || Plain::new("/a");
        check(mode, &[a(), a()], Some(&format!("{first} /a first, and {same}")));
        check(mode, &[a(), a().priority(1)], None);
        check(
            mode,
            &[a().priority(2), a()],
            Some(&format!("{first} /a first, and has priority 2, this one 0")),
        );
        check(mode, &[Plain { methods: vec!["GET"], ..a() }, a()], None);
        check(
            mode,
            &[a(), Plain { methods: vec!["GET"], ..a() }],
            Some(&format!("{first} /a first, and {same}")),
        );
        check(mode, &[Plain { argument: Some("1"), ..a() }, a()], None);
        check(mode, &[Plain { filter: true, ..a() }, Plain { filter: true, ..a() }], None);
        check(mode, &[Plain::new("/a/*"), Plain::new("/a/b/*"), Plain::new("/a/b")], None);
        let hosts =
            "no request reaches this route: route 00000 answers those for /a of host b.com first, and ";
        check(mode, &[a().hosts(&["b.com"]), a().hosts(&["b.com"])], Some(&format!("{hosts}{same}")));
        check(mode, &[a().hosts(&["b.com"]), a()], None);
        let two = [
            Plain { methods: vec!["GET"], ..a() },
            Plain { methods: vec!["POST"], ..a() },
            Plain { methods: vec!["GET", "POST"], ..a() },
        ];
        let several = "no request reaches this route: routes 00000, 00001 answer those for /a first, and have the same path and \
                       priority and come first in the store";
        check(mode, &two, Some(several));
        let part = [a(), Plain { uris: vec!["/a".to_owned(), "/b".to_owned()], ..a() }];
        let some = format!(
            "not all of its requests reach this route: route 00000 answers those for /a first, and {same}"
        );
        check(mode, &part, Some(&some));
    }
}

/// Who may not see the other routes learns their ids, and what is in the route itself.
#[test]
fn remarks_have_a_discreet_form() {
    let routes = [
        Plain::new("/secret/*").priority(7),
        Plain::new("/own").priority(3),
        Plain::new("/own"),
        Plain::new("/secret/a"),
    ];
    let router = Router::build(Mode::Uri, (0u32..).zip(&routes).map(|(id, route)| route.spec(id)));
    let remarks = router.remarks("00002");
    let [own] = remarks.as_slice() else { panic!("{remarks:?}") };
    assert_eq!(own.others, [Arc::from("00001")]);
    assert!(own.text.contains("has priority 3, this one 0"), "{}", own.text);
    assert!(own.discreet.contains("route 00001 answers those for /own first"), "{}", own.discreet);
    assert!(!own.discreet.contains("priority 3"), "{}", own.discreet);
    let remarks = router.remarks("00001");
    let [behind] = remarks.as_slice() else { panic!("{remarks:?}") };
    assert_eq!(behind.others, [Arc::from("00002")]);
    assert_eq!(behind.discreet, "routes/00002: route 00001 answers requests of this route first");
    assert!(behind.text.contains("/own"), "{}", behind.text);
}

#[test]
fn hosts() {
    let routes = [
        Plain::new("/*"),
        Plain::new("/*").hosts(&["*.A.com"]),
        Plain::new("/only").hosts(&["x.a.com", "*.x.a.com"]),
        Plain::new("/port").hosts(&["a.com:8080"]),
    ];
    let host_uri = |host: &str, path: &str, expected| {
        check(Mode::HostUri, &routes, &Request::get(host, path), expected);
    };
    host_uri("x.a.com", "/only", Some((2, "/only", Some("x.a.com"))));
    host_uri("y.x.a.com", "/only", Some((2, "/only", Some("*.x.a.com"))));
    host_uri("x.a.com", "/other", Some((1, "/*", Some("*.a.com"))));
    host_uri("a.com", "/other", Some((0, "/*", None)));
    host_uri("", "/other", Some((0, "/*", None)));
    host_uri(&"a".repeat(400), "/other", Some((0, "/*", None)));
    check(Mode::Uri, &routes, &Request::get("a.com", "/port"), Some((3, "/port", Some("a.com:8080"))));
}

#[test]
fn priority_counts_within_one_node_only() {
    let routes = [
        Plain::new("/a/*").priority(100),
        Plain::new("/a/b").priority(-1),
        Plain::new("/a/*").priority(101),
        Plain::new("/a/b*").priority(-5),
    ];
    check(Mode::Uri, &routes, &Request::get("h", "/a/b"), Some((1, "/a/b", None)));
    check(Mode::Uri, &routes, &Request::get("h", "/a/bc"), Some((3, "/a/b*", None)));
    check(Mode::Uri, &routes, &Request::get("h", "/a/c"), Some((2, "/a/*", None)));
}

#[test]
fn parameters_are_captured() {
    let routes = [Plain::new("/user/:id/*rest")];
    let router = Router::build(Mode::UriWithParameter, routes.iter().map(|route| route.spec(7)));
    let request = Request::get("h", "/user/42/a/b");
    let found = router.find(&request).unwrap();
    let params: Vec<_> =
        found.params.iter().map(|param| (param.name, &request.path[param.range.clone()])).collect();
    assert_eq!((found.route, params), (7, vec![("id", "42"), ("rest", "a/b")]));
}

#[test]
fn nothing_configured_matches_nothing() {
    check(Mode::HostUri, &[], &Request::get("a.com", "/"), None);
}
