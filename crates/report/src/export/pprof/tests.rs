use std::io::Read;

use flate2::read::GzDecoder;

use super::super::tests::{bytes, recording};
use super::*;

fn decoded() -> proto::Profile {
    let mut message = Vec::new();
    GzDecoder::new(&bytes(write, &recording())[..]).read_to_end(&mut message).unwrap();
    proto::Profile::decode(&message[..]).unwrap()
}

#[test]
fn every_number_points_to_something() {
    let profile = decoded();
    let texts = profile.string_table.len() as i64;
    let text = |index: i64| assert!((0..texts).contains(&index), "text {index} of {texts}");
    assert_eq!(profile.string_table[0], "");
    for (at, function) in profile.function.iter().enumerate() {
        assert_eq!(function.id, at as u64 + 1);
        [function.name, function.filename].into_iter().for_each(text);
    }
    for location in &profile.location {
        assert!(location.mapping_id <= profile.mapping.len() as u64);
        assert!(!location.line.is_empty());
        assert!(
            location.line.iter().all(|line| (1..=profile.function.len() as u64).contains(&line.function_id))
        );
    }
    for sample in &profile.sample {
        assert_eq!(sample.value.len(), profile.sample_type.len());
        assert!(sample.location_id.iter().all(|id| (1..=profile.location.len() as u64).contains(id)));
        sample.label.iter().flat_map(|label| [label.key, label.str]).for_each(text);
    }
}

#[test]
fn inlined_functions_are_lines_of_one_location() {
    let profile = decoded();
    let name = |id: u64| &profile.string_table[profile.function[id as usize - 1].name as usize];
    let inlined = profile.location.iter().find(|location| location.line.len() == 2).unwrap();
    assert_eq!(name(inlined.line[0].function_id), "copy<a;b, \"q\">");
    assert_eq!(inlined.line[1].line, 12);
}

#[test]
fn the_allocating_stack_is_a_label() {
    let profile = decoded();
    let text = |index: i64| profile.string_table[index as usize].as_str();
    let label = profile.sample.iter().flat_map(|sample| &sample.label);
    let allocated = label.filter(|label| text(label.key) == "allocated_by").map(|label| text(label.str));
    assert_eq!(allocated.collect::<Vec<_>>(), ["libc.so.6+0x88 < main"]);
}

#[test]
fn the_programs_own_file_comes_first_and_locations_point_to_their_files() {
    let recording = recording();
    let mut message = Vec::new();
    GzDecoder::new(&bytes(write, &recording)[..]).read_to_end(&mut message).unwrap();
    let profile = proto::Profile::decode(&message[..]).unwrap();
    let text = |index: i64| profile.string_table[index as usize].as_str();
    let command = recording.header.command[0].rsplit('/').next().unwrap();
    assert!(text(profile.mapping[0].filename).ends_with(command), "{}", text(profile.mapping[0].filename));
    assert!(profile.mapping.iter().enumerate().all(|(at, mapping)| mapping.id == at as u64 + 1));
    let stacks = &recording.stacks;
    for location in profile.location.iter().filter(|location| location.mapping_id > 0) {
        let file = text(profile.mapping[location.mapping_id as usize - 1].filename);
        let mut there = stacks.frames.iter().filter(|frame| frame.address == location.address);
        let is_file = |module: u32| stacks.modules[module as usize].path == file;
        assert!(there.any(|frame| frame.module.is_some_and(is_file)), "{file} at {:#x}", location.address);
    }
}
