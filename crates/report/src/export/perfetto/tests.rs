use std::collections::{HashMap, HashSet};

use prost::bytes::Buf;
use prost::encoding::{decode_key, decode_varint};

use super::super::tests::{bytes, recording};
use super::*;

fn packets() -> Vec<TracePacket> {
    let trace = bytes(write, &recording());
    let mut rest = &trace[..];
    let mut packets = Vec::new();
    while rest.has_remaining() {
        assert_eq!(decode_key(&mut rest).unwrap().0, 1);
        let len = decode_varint(&mut rest).unwrap() as usize;
        packets.push(TracePacket::decode(&rest[..len]).unwrap());
        rest.advance(len);
    }
    packets
}

#[test]
fn slices_begin_and_end_on_tracks_that_exist() {
    let mut tracks = HashSet::new();
    let mut open: HashMap<u64, i64> = HashMap::new();
    for packet in packets() {
        if let Some(track) = packet.track_descriptor {
            assert!(track.parent_uuid.is_none_or(|parent| tracks.contains(&parent)));
            assert!(tracks.insert(track.uuid));
        }
        let Some(event) = packet.track_event else { continue };
        assert!(tracks.contains(&event.track_uuid));
        let depth = open.entry(event.track_uuid).or_default();
        match event.r#type {
            proto::BEGIN => *depth += 1,
            proto::END => *depth -= 1,
            _ => {}
        }
        assert!((0..=1).contains(depth));
    }
    assert!(open.values().all(|depth| *depth == 0));
}

#[test]
fn names_and_stacks_are_said_before_they_are_used() {
    let (mut names, mut stacks, mut frames) = (HashMap::new(), HashMap::new(), HashMap::new());
    let mut functions = HashMap::new();
    let mut leaves = Vec::new();
    for packet in packets() {
        if let Some(new) = packet.interned_data {
            names.extend(new.event_names.into_iter().map(|name| (name.iid, name.name)));
            functions.extend(new.function_names.into_iter().map(|name| (name.iid, name.str)));
            frames.extend(new.frames.into_iter().map(|frame| (frame.iid, frame)));
            stacks.extend(new.callstacks.into_iter().map(|stack| (stack.iid, stack.frame_ids)));
        }
        let Some(event) = packet.track_event.filter(|event| event.r#type == proto::BEGIN) else { continue };
        assert!(names.contains_key(&event.name_iid));
        if let Some(leaf) = stacks.get(&event.callstack_iid).and_then(|frames| frames.last()) {
            leaves.push(String::from_utf8(functions[&frames[leaf].function_name_id].clone()).unwrap());
        }
    }
    assert_eq!(leaves, ["copy<a;b, \"q\">", "copy<a;b, \"q\">", "libc.so.6+0x88", "[unknown]+0x99"]);
}

#[test]
fn a_slice_ends_where_the_next_fault_of_its_thread_begins() {
    let mut times = Vec::new();
    for packet in packets() {
        if packet.track_event.is_some_and(|event| event.callstack_iid > 0 || event.r#type == proto::END) {
            times.push(packet.timestamp.unwrap());
        }
    }
    // The first fault takes 1500 ns, but the next begins after 1000 ns.
    assert_eq!(times[..2], [1_100_000, 1_101_000]);
    assert_eq!(times[2..4], [1_101_000, 1_103_500]);
}
