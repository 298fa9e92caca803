use super::super::tests::{bytes, recording};
use super::*;

fn document(weight: Weight) -> Value {
    let out = bytes(|recording, profile, out| write(recording, profile, weight, out), &recording());
    serde_json::from_slice(&out).unwrap()
}

fn numbers(column: &Value) -> Vec<Option<u64>> {
    column.as_array().unwrap().iter().map(Value::as_u64).collect()
}

/// All columns of a table have the same length, and every index into `target` is valid.
fn assert_points(table: &Value, column: &str, target: &Value) {
    let (len, targets) = (table["length"].as_u64().unwrap() as usize, target["length"].as_u64().unwrap());
    let column = numbers(&table[column]);
    assert_eq!(column.len(), len);
    assert!(column.into_iter().flatten().all(|index| index < targets));
}

#[test]
fn every_table_is_whole_and_every_index_in_range() {
    let document = document(Weight::Time);
    assert_eq!(document["meta"]["product"], "/usr/bin/pro gram");
    let categories = document["meta"]["categories"].as_array().unwrap().len() as u64;
    let shared = &document["shared"];
    for thread in document["threads"].as_array().unwrap() {
        let table = |name: &str| if shared[name].is_null() { &thread[name] } else { &shared[name] };
        assert_points(&thread["samples"], "stack", table("stackTable"));
        assert_points(table("stackTable"), "frame", table("frameTable"));
        assert_points(table("stackTable"), "prefix", table("stackTable"));
        assert_points(table("frameTable"), "func", table("funcTable"));
        assert!(numbers(&table("frameTable")["category"]).into_iter().flatten().all(|at| at < categories));
        let strings = table("stringArray").as_array().unwrap().len() as u64;
        assert!(numbers(&table("funcTable")["name"]).into_iter().flatten().all(|at| at < strings));
        let begins = thread["markers"]["startTime"].as_array().unwrap();
        assert!(begins.iter().all(|begin| begin.as_f64().is_some_and(|begin| begin >= 0.0)));
    }
}

#[test]
fn faults_of_a_stack_close_by_are_one_sample_and_one_marker() {
    let document = document(Weight::Faults);
    let thread = &document["threads"].as_array().unwrap()[0];
    assert_eq!(thread["samples"]["weight"], serde_json::json!([2]));
    assert_eq!(thread["markers"]["data"][0]["faults"], 2.0);
    assert_eq!(thread["nativeAllocations"]["weight"], serde_json::json!([8192, -8192]));
}
