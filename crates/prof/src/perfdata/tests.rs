//! Files of `perf record -e page-faults:u -c 4 -g` of a program that touches 16 pages. They are also seeds of
//! the fuzz target.

use super::*;

/// With -d, written into a file.
const FILE: &[u8] = include_bytes!("../../../../fuzz/seeds/perfdata/touch.data");
/// Without, through a pipe.
const PIPE: &[u8] = include_bytes!("../../../../fuzz/seeds/perfdata/touch.pipe");

fn faults(recording: &Recording) -> Vec<(u64, u64, Option<u32>)> {
    let sample = |record: &Record| match record.what {
        What::Sample { addr, weight, stack, .. } => Some((addr, weight, stack)),
        _ => None,
    };
    recording.observation.records.iter().filter_map(sample).collect()
}

#[test]
fn samples_weigh_their_period_and_have_address_and_stack() {
    let recording = read(FILE).unwrap();
    let faults = faults(&recording);
    assert!(faults.len() >= 4, "{faults:?}");
    assert!(faults.iter().all(|&(addr, weight, stack)| addr > 0 && weight == 4 && stack.is_some()));
    assert_eq!(recording.header.settings.sample_period, 4);
    assert!(recording.header.settings.user_only && !recording.header.settings.every_fault);
}

#[test]
fn code_lies_in_its_file() {
    let recording = read(FILE).unwrap();
    let leaf =
        |stack: u32| recording.stacks.frames_of(stack).next().map(|frame| recording.stacks.place(frame));
    let leaves: Vec<String> = faults(&recording).into_iter().filter_map(|(.., stack)| leaf(stack?)).collect();
    assert!(leaves.iter().any(|leaf| leaf.starts_with("touch+0x")), "{leaves:?}");
    let offsets = recording.stacks.frames.iter().filter(|frame| frame.module.is_some());
    assert!(offsets.clone().count() > 0);
    assert!(offsets.clone().all(|frame| frame.address < 16 << 20), "{:?}", recording.stacks.frames);
}

#[test]
fn the_machine_is_known_and_its_name_is_not() {
    let recording = read(FILE).unwrap();
    let host = &recording.header.host;
    assert!(host.kernel.starts_with("6."), "{host:?}");
    assert!(host.cpus > 0 && host.memory_bytes > 1 << 30 && !host.cpu.is_empty(), "{host:?}");
    assert!(recording.header.tool.starts_with("perf 6."), "{}", recording.header.tool);
    assert_eq!(recording.header.command, ["./touch"]);
}

#[test]
fn what_perf_does_not_record_is_said() {
    let file = read(FILE).unwrap().missing;
    assert!(file.iter().any(|text| text.starts_with("times")), "{file:?}");
    assert!(!file.iter().any(|text| text.starts_with("what was touched")), "{file:?}");
    let pipe = read(PIPE).unwrap().missing;
    assert!(pipe.iter().any(|text| text.starts_with("what was touched")), "{pipe:?}");
}

#[test]
fn a_pipe_holds_what_a_file_holds() {
    let (file, pipe) = (read(FILE).unwrap(), read(PIPE).unwrap());
    assert_eq!(faults(&file).len(), faults(&pipe).len());
    assert_eq!(file.header.host.kernel, pipe.header.host.kernel);
}

#[test]
fn a_file_cut_anywhere_gives_what_it_holds_and_says_so() {
    let whole = faults(&read(FILE).unwrap()).len();
    let mut most = 0;
    for len in (0..FILE.len()).step_by(11).chain([FILE.len()]) {
        let Ok(found) = read(&FILE[..len]) else { continue };
        let faults = faults(&found).len();
        assert!(faults >= most && faults <= whole, "cut at {len}");
        most = faults;
        if faults < whole {
            assert!(found.missing.iter().any(|text| text.contains("cut off")), "cut at {len}");
        }
    }
    assert_eq!(most, whole);
}

#[test]
fn a_killed_recorder_leaves_a_readable_file() {
    let mut bytes = FILE.to_vec();
    bytes[48..56].fill(0); // the length of the data
    let recording = read(&bytes).unwrap();
    assert!(recording.missing.iter().any(|text| text.contains("killed")), "{:?}", recording.missing);
    assert!(!faults(&recording).is_empty());
}

#[test]
fn flipped_bits_do_no_harm() {
    for bytes in [FILE, PIPE] {
        for at in (0..bytes.len()).step_by(19) {
            let mut bytes = bytes.to_vec();
            bytes[at] ^= 0xff;
            let _ = read(&bytes);
        }
    }
}

#[test]
fn files_that_cannot_be_read_are_refused_with_a_reason() {
    assert_eq!(read(b"ELF").unwrap_err(), Refused::NotPerfData);
    assert_eq!(read(b"2ELIFREP").unwrap_err(), Refused::BigEndian);
    assert_eq!(read(b"PERFILE2").unwrap_err(), Refused::NoEvents);
    let mut clock = PIPE.to_vec();
    // The event's config in its attribute, behind the headers of the pipe and of the record.
    clock[16 + 8 + 8] = 0;
    assert_eq!(read(&clock).unwrap_err(), Refused::NoFaults);
    let mut compressed = PIPE[..16].to_vec();
    compressed.extend([81, 0, 0, 0, 0, 0, 8, 0]);
    assert_eq!(read(&compressed).unwrap_err(), Refused::Compressed);
}
