//! What the history takes on the disk.

use super::*;

const MIB: u64 = 1 << 20;

/// A route that takes so many bytes.
fn large(uri: &str, bytes: usize) -> Value {
    let mut route = route(uri);
    route["plugins"]["mocking"]["response_example"] = json!(uri.repeat(bytes / uri.len()));
    route
}

fn file_bytes(gateway: &Gateway) -> u64 {
    std::fs::metadata(gateway.prefix().join("data/tidegate.redb")).expect("the database").len()
}

#[test]
fn large_writes_take_no_more_of_the_disk_than_the_file_says() {
    let mut gateway = start_with("history: {max_bytes: 2m}\n");
    checked(&gateway, "PUT", "/routes/small", &route("/small"), 201);
    let put = |gateway: &Gateway, number: u64| {
        let status = if number == 0 { 201 } else { 200 };
        checked(gateway, "PUT", "/routes/large", &large(&format!("/{number}"), 200_000), status);
    };
    (0..20).for_each(|number| put(&gateway, number));
    let settled = file_bytes(&gateway);
    assert!(settled < 12 * MIB, "{settled} bytes");
    (20..60).for_each(|number| put(&gateway, number));
    assert_eq!(file_bytes(&gateway), settled, "what is forgotten makes room for what comes");

    // 400 KB each, in pages of 512.
    let list = get(&gateway, "/history");
    assert_eq!((&list["total"], &list["oldest"]), (&json!(3), &json!(58)), "{}", list["list"][0]);
    checked(&gateway, "POST", "/rollback", &json!({"revision": 57}), 410);
    checked(&gateway, "POST", "/rollback", &json!({"revision": 59}), 200);
    assert_eq!((status(&gateway, "/57"), status(&gateway, "/59")), (201, 404));

    // After a restart they count as before.
    gateway.process.signal_kill();
    gateway.process.wait_for_exit();
    gateway.restart();
    (60..70).for_each(|number| put(&gateway, number));
    assert_eq!(get(&gateway, "/history")["total"], 3);
    assert!(file_bytes(&gateway) < 12 * MIB, "{} bytes", file_bytes(&gateway));
    println!("70 writes of 200 KB: the file has {settled} bytes");
}

#[test]
fn a_write_larger_than_the_history_is_told_without_its_values() {
    let gateway = start_with("history: {max_bytes: 1m}\n");
    checked(&gateway, "PUT", "/routes/1", &route("/a"), 201);
    checked(&gateway, "PUT", "/routes/1", &large("/b", 1_200_000), 200);
    checked(&gateway, "PUT", "/routes/2", &route("/c"), 201);
    let list = get(&gateway, "/history");
    assert_eq!((&list["total"], &list["oldest"]), (&json!(3), &json!(2)), "{list}");
    let entry = get(&gateway, "/history/2");
    assert!(entry["left_out"].as_str().is_some_and(|text| text.contains("history.max_bytes")), "{entry}");
    let told = json!([{"resource": "routes/1", "action": "update", "diff": null}]);
    assert_eq!((&entry["changes"], &entry["request"]), (&told, &json!("PUT /apisix/admin/routes/1")));
    assert_eq!(get(&gateway, "/history?key=/routes/1")["total"], 2);
    assert!(get(&gateway, "/history/3")["left_out"].is_null());

    let refused = checked(&gateway, "POST", "/rollback", &json!({"revision": 1}), 410);
    let message = refused["error_msg"].as_str().unwrap_or_default();
    assert!(message.contains("revision 1 is not in the history, which begins at revision 2"), "{message}");
    checked(&gateway, "POST", "/rollback", &json!({"revision": 2}), 200);
    assert_eq!((status(&gateway, "/b"), status(&gateway, "/c")), (201, 404));
}

#[test]
fn what_was_changed_is_not_kept_in_memory() {
    // Without history, so that only what follows the changes is left.
    let gateway = start_with("history: {max_entries: 0}\n");
    let put = |number: u64| {
        let status = if number == 0 { 201 } else { 200 };
        checked(&gateway, "PUT", "/routes/large", &large(&format!("/{number}"), 1_000_000), status);
    };
    // What the gateway takes for a few of them.
    (0..12).for_each(put);
    let ((), grown) = tidegate_testkit::usage::growth(&gateway, || (12..72).for_each(put));
    println!("60 writes of 1 MB: +{} MB", grown >> 20);
    assert!(grown < 45 * MIB, "+{} MB", grown >> 20);
}

/// Each is a whole configuration, and their number alone bounds nothing.
#[test]
fn checkpoints_are_bounded_in_bytes() {
    let gateway = start_with("history: {max_bytes: 2k}\n");
    // Digits in no order hardly get shorter when compressed: some 3 KB each time.
    let mut state = 1_u64;
    let mut digits = String::new();
    while digits.len() < 3_000 {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        digits += &format!("{:08x}", state >> 32);
    }
    let mut object = route("/a");
    object["labels"] = json!({});
    for (number, part) in digits.as_bytes().chunks(200).enumerate() {
        object["labels"][format!("l{number}")] = json!(String::from_utf8_lossy(part));
    }
    checked(&gateway, "PUT", "/routes/1", &object, 201);
    let put =
        |name: &str, status| checked(&gateway, "PUT", &format!("/checkpoints/{name}"), &Value::Null, status);
    put("one", 201);
    put("two", 201);
    let refusal = put("three", 400).to_string();
    assert!(refusal.contains("history.max_bytes") && refusal.contains("8192"), "{refusal}");
    assert_eq!(get(&gateway, "/checkpoints")["total"], 2);
    // One that replaces another takes its place.
    put("two", 200);
    checked(&gateway, "DELETE", "/checkpoints/one", &Value::Null, 200);
    put("three", 201);
}
