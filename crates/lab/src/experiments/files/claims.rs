//! What "Bringing The Hardware And Windows To Its Limits" says of hard faults and of disks, and "A queue of page faults" of
//! threads that wait for a hard fault.

use crate::claim::{Cells, Claim, Here, Series, short};
use crate::document::Document::{Hardware, Queue};

/// The phase of the reads.
const READ: &str = "first";

/// One page of each 64 KiB, in a random order: from a file on a disk, from swap, or never touched.
fn random<'a>(here: &Here<'a>, from: &str) -> Cells<'a> {
    here.cells("files").with("how", "fault").with("from", from).most("mib")
}

/// Maps, touches and unmaps 64 KiB again and again, beside this.
fn remap<'a>(here: &Here<'a>, beside: &str) -> Cells<'a> {
    here.cells("files").with("how", "remap").with("beside", beside).most("mib")
}

/// read(2) of a file into new memory, by a thread per processor.
fn read<'a>(here: &Here<'a>, from: &str) -> Cells<'a> {
    here.cells("files").with("how", "read").with("from", from).with("threads", here.processors()).most("mib")
}

/// Time of a fault.
fn fault(here: &Here, from: &str, quantity: &str) -> Series {
    let cell = random(here, from);
    cell.wall(READ) / cell.of(READ, quantity)
}

/// What `beside` adds to mapping, over what another neighbour adds.
fn beside(here: &Here, what: &str, other: &str) -> Series {
    remap(here, what).wall(READ) / remap(here, other).wall(READ)
}

/// The last of these over mapping alone.
fn alone(here: &Here) -> String {
    let of = |what| beside(here, what, "none").median().map_or("-".into(), short);
    format!(
        "over mapping alone: beside major faults {} times, beside reads {}, beside a thread that only computes {}",
        of("major"),
        of("read"),
        of("spin")
    )
}

pub(super) fn claims() -> Vec<Claim> {
    vec![
        Claim::at_least(
            ("hardware-hard-faults", Hardware),
            ["If you access paged out memory a hard page fault happens (slow, …. very slow)", "no figure"],
            (10.0, "times", "there is no figure: an order of magnitude is the least that is very slow"),
            |here| fault(here, "swap", "major_faults") / fault(here, "new", "minor_faults"),
        )
        .stand_in("swap may lie in zram, which reads no disk")
        .beside(|here| {
            let disk = fault(here, "disk", "major_faults") / fault(here, "new", "minor_faults");
            disk.median().map_or(String::new(), |times| format!("a page of a file on the disk {} times", short(times)))
        })
        .why("a fault on a page in swap over a first touch, in random order"),
        Claim::between(
            ("hardware-ssd-faults", Hardware),
            [
                "With SSDs getting nearly as fast as RAM the soft fault performance becomes a limiting factor in multithreaded \
                 applications",
                "no figure",
            ],
            (0.5, 1.0, "of the time of a read"),
            |here| (read(here, "cache").wall("first") - read(here, "cache").wall("second")) / read(here, "disk").wall("first"),
        )
        .processors(2)
        .unless(|here| {
            let slow = read(here, "disk").wall("first") / read(here, "cache").wall("first");
            let times = slow.median().filter(|times| *times > 2.0)?;
            Some(format!("this disk is not nearly as fast as memory: a read takes {} times as long", short(times)))
        })
        .why(
            "what a first read of a file in the page cache takes more than a second into the same memory, over a first read \
             from the disk; by a thread per processor; half of the time is the least that limits",
        ),
        Claim::at_least(
            ("queue-hard-fault-blocks", Queue),
            [
                "the thread that waits for hard page fault (which takes ages compared to a soft page fault!) often blocked the \
                 thread performing virtual memory operations as a part of GC processing",
                "no figure",
            ],
            (1.25, "times", "there is no figure, and a blocked thread waits as long as the disk takes"),
            |here| beside(here, "major", "read"),
        )
        .processors(2)
        .beside(alone)
        .why(
            "map, touch and unmap beside a thread that takes major faults, over the same beside one that reads the same places \
             with read(2): both share the address space, the disk and the processors, and only one waits in a fault",
        ),
    ]
}
