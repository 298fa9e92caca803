//! Every kind of cell of touch, copy, filemap and scale, and some of chunks, at a small size. They have a test
//! program of their own: faults are counted by process, and other tests would take theirs meanwhile.

use faultless_lab::{Cell, experiments, trial};

const CELLS: &[&str] = &[
    "touch access=write mib=1 threads=3 lock=no mappers=0 flush=no",
    "touch access=read mib=1 threads=2 lock=no mappers=0 flush=no",
    "touch access=write mib=1 threads=2 lock=yes mappers=0 flush=no",
    "touch access=write mib=1 threads=2 lock=no mappers=2 flush=no",
    "touch access=write mib=1 threads=1 lock=no mappers=1 flush=yes",
    "copy kind=copy mib=1 threads=3",
    "copy kind=read mib=1 threads=3",
    "copy kind=write mib=1 threads=3",
    "filemap how=fault cache=warm mib=1 threads=2",
    "filemap how=willneed cache=warm mib=1 threads=1",
    "filemap how=populate cache=warm mib=1 threads=1",
    "filemap how=read cache=warm mib=1 threads=2",
    "filemap how=fault cache=cold mib=1 threads=1",
    "filemap how=willneed cache=cold mib=1 threads=1",
    "filemap how=populate cache=cold mib=1 threads=1",
    "filemap how=read cache=cold mib=1 threads=1",
    "scale memory=interleaved threads=3 mib=1 writers=0 beside=none",
    "scale memory=shared threads=3 mib=1 writers=0 beside=none",
    "scale memory=own threads=3 mib=1 writers=0 beside=none",
    "scale memory=process threads=3 mib=1 writers=0 beside=none",
    "scale memory=own threads=2 mib=1 writers=2 beside=threads",
    "scale memory=own threads=2 mib=1 writers=2 beside=processes",
    "chunks memory=pool workers=2 queue=2 chunks=12",
    "chunks memory=mmap workers=2 queue=2 chunks=12",
    "chunks memory=thp workers=2 queue=2 chunks=12",
];

#[test]
fn every_cell_does_its_work_and_takes_the_faults_it_must() {
    let mut refused = 0;
    for text in CELLS {
        let mut words = text.split(' ');
        let experiment = experiments::find(words.next().unwrap()).unwrap();
        let sample = trial::measure(experiment, &Cell::parse(experiment.name(), words).unwrap());
        if let Some(reason) = sample.refused {
            // No disk below the temporary folder, an older kernel, a small limit on what may be locked.
            refused += 1;
            faultless_wants::missing_feature("the lab's cells", format_args!("{text}: {reason}"));
            continue;
        }
        assert_eq!(sample.violations, [""; 0], "{text}");
    }
    assert!(refused < CELLS.len() / 2, "{refused} of {} cells were refused", CELLS.len());
}
