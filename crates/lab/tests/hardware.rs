//! Every kind of cell of touch, copy and files, and some of chunks, at a small size. They have a test
//! program of their own: faults are counted by process, and other tests would take theirs meanwhile.

use faultless_lab::{Cell, experiments, trial};

const CELLS: &[&str] = &[
    "touch mib=1 threads=3",
    "touch access=read mib=1 threads=2",
    "touch mib=1 threads=2 lock=yes",
    "touch mib=1 threads=2 beside=files others=2",
    "touch mib=1 threads=1 beside=flushed-files others=1",
    "touch memory=interleaved mib=3 threads=3",
    "touch memory=own lines=3 mib=3 threads=3",
    "touch memory=process mib=3 threads=3",
    "touch memory=own mib=2 threads=2 beside=maps others=2",
    "touch memory=own mib=2 threads=2 beside=maps-apart others=2",
    "touch memory=zeroed-on-get lines=3 mib=2 threads=2",
    "touch memory=zeroed-ahead mib=2 threads=2",
    "copy kind=copy mib=1 threads=3",
    "copy kind=read mib=1 threads=3",
    "copy kind=write mib=1 threads=3",
    "files how=fault from=cache mib=1 threads=2",
    "files how=willneed from=cache mib=1",
    "files how=populate from=cache mib=1",
    "files how=read from=cache mib=1 threads=2",
    "files how=fault from=disk mib=1",
    "files how=willneed from=disk mib=1",
    "files how=populate from=disk mib=1",
    "files how=read from=disk mib=1",
    "files from=cache order=random mib=1",
    "files from=new order=random mib=1 threads=2",
    "files from=swap order=random mib=1",
    "files how=remap from=new mib=1",
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
        let cell = experiment.sheet().complete(&Cell::parse(experiment.name(), words).unwrap());
        let sample = trial::measure(experiment, &cell);
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
