#!/bin/sh
# Takes the records of this machine into record/DATE-NAME: record/take.sh NAME [PART ...], the parts being run, stat, user,
# advise (10 minutes each), peers, cold and programs (30 to 40 each) and prezero (25), all by default; nothing else should run.
# Peers are libraries for LD_PRELOAD, in PEERS="NAME=LIBRARY ..."; PYTHON is one that has NumPy and pandas (and that every user may
# run). For peers, cold, programs and prezero ROUNDS sets how often, and for the first three MINUTES after how long no round begins.
# By name only: older (25 minutes; what changed since an older build, which is OLDER=PROGRAM; ONLY is a pattern of the names that are
# taken), record (40; what recording costs, root and user), sites (20; recorded times beside what a program times itself), lab (40), and
# crosschecks (20), which needs programs that are not ours, with WILL_IT_SCALE=DIR and LAT_PAGEFAULT=PROGRAM where they are not on
# the PATH.
set -eu
cd "$(dirname "$0")/.."
host=$1
DATE=$(date -u +%Y-%m-%d)
export DATE
out="$PWD/record/$DATE-$host"
shift
parts=" ${*:-run stat user advise peers cold programs prezero} "
for part in $parts; do
    case $part in
        run | older | stat | user | advise | prezero | record | sites | diffs | lab | crosschecks) ;;
        peers | cold | programs) : "${PEERS:?libraries of the peers, as NAME=LIBRARY ...}" ;;
        *) echo "no part $part: run, stat, user, advise, peers, cold, programs, prezero, older, record, sites, diffs, lab or crosschecks" >&2; exit 2 ;;
    esac
done
part() { case $parts in *" $1 "*) true ;; *) false ;; esac; }
work="${TMPDIR:-/tmp}/faultless-record"
cargo build --release
mkdir -p "$out"
record/inputs.py "$work"
cp target/release/faultless "$work/faultless"
chmod -R a+rX "$work"
PATH="$work:$PATH"
# Parts may be taken one by one, and not all of the same commit.
{ echo "parts:   ${parts% }"; sh record/host.sh; } >>"$out/host.txt"
[ -e "$out/doctor.txt" ] || faultless doctor >"$out/doctor.txt"
ln -sf "$("${PYTHON:-python3}" -c 'import os, sys; print(os.path.realpath(sys.executable))')" "$work/python"
root=$PWD
pair() { "$root/record/paired.py" --out "$out" "$@"; }
cd "$work"
g++ -O2 -o words words.cpp
rm -rf tree && git init -q tree && cp big.json functions.c some.txt tree

# run: workloads against plain glibc, and real programs, which must lose nothing
program() { pair --name "run-$1" --warm "$2" --rounds 15 plain="$3" pool="faultless run -- $3"; }
if part run; then
    pair --name run-chunk-pipeline --warm 256 --rounds 30 --warmup 2 \
        plain="faultless workload --quiet chunk-pipeline" pool="faultless run -- faultless workload --quiet chunk-pipeline"
    for each in temporaries:800 bursts:1024 growth:2600; do
        name=${each%:*}
        pair --name "run-$name" --warm "${each#*:}" --rounds 12 --warmup 2 \
            plain="faultless workload --quiet $name" pool="faultless run -- faultless workload --quiet $name"
    done
    program gcc 150 "gcc -O1 -c functions.c -o -"
    program python3 300 "./python parse.py"
    program sqlite3 100 "sqlite3 :memory: '.read table.sql'"
    program xz 100 "xz -0 -T2 -c some.txt"
    program git 150 "git -C tree hash-object big.json functions.c some.txt"
    program node 300 "node sum.js"
    program cpp 300 "./words"
fi
# older: workloads, real programs and first passes over a fresh block by an older build, by this one, and as they are
since() {
    case $1 in ${ONLY:-*}) ;; *) return ;; esac
    pair --name "older-$1" --warm "$2" --rounds "${ROUNDS:-11}" older="./older run -- $3" now="faultless run -- $3" plain="$3"
}
if part older; then
    : "${OLDER:?an older build of faultless, whose figures come first}"
    cp "$OLDER" older
    cc -O2 -o first "$root/record/first.c"
    for each in chunk-pipeline:256 temporaries:1000 mixed:128 calloc-sparse:128 calloc-full:128 growth:2600 bursts:1024 \
        idle-bursts:1024 thread-churn:256 touch-once:600; do
        since "${each%:*}" "${each#*:}" "faultless workload --quiet ${each%:*}"
    done
    since gcc 150 "gcc -O1 -S functions.c -o -"
    since json 400 "./python parse.py"
    since sqlite3 150 "sqlite3 :memory: '.read table.sql'"
    since xz 150 "xz -0 -T2 -c some.txt"
    since zstd 200 "zstd -3 -T2 -qc lines.txt"
    since git 150 "git -C tree hash-object big.json functions.c some.txt"
    since node 400 "node sum.js"
    since cpp 300 "./words"
    for mib in 1 16 64; do since "numpy-$mib" 900 "./python array.py $mib"; done
    since pandas 600 "./python frame.py"
    for call in malloc calloc; do
        for mib in 16 64 256 1024 3000; do since "first-$call-$mib" "$mib" "./first $call $mib"; done
    done
    "$root/record/paired.py" --summary "$out"/older-*.csv >"$out/older.txt"
fi
# stat, user: what measuring costs root and a normal user; and the corrected median against the program's own
# counting: one counter of perf's beside it, which is what counting alone costs a program that faults much
measured() { pair $user --name "stat$by-$1" --warm "$2" --rounds "$3" plain="$4" stat="faultless stat -o /dev/null -- $4"; }
counting() {
    command -v perf >/dev/null || { measured "$@"; return; }
    pair $user --name "stat$by-$1" --warm "$2" --rounds "$3" plain="$4" perf="perf stat -e page-faults -o /dev/null -- $4" \
        stat="faultless stat -o /dev/null -- $4"
}
overheads() {
    by=$1 user=$2
    measured gcc 150 12 "gcc -O1 -c functions.c -o -"
    measured python3 300 12 "./python parse.py"
    counting numpy 600 24 "./python arrays.py"
    measured sort 300 12 "sort lines.txt"
    measured zstd 150 24 "zstd -3 -T2 -qc lines.txt"
    counting chunk-pipeline 256 12 "faultless workload --quiet chunk-pipeline --chunks 16000"
    counting temporaries 800 12 "faultless workload --quiet temporaries"
    measured mixed 64 12 "faultless workload --quiet mixed --ops 20000000"
    counting bursts 1024 12 "faultless workload --quiet bursts"
}
if part stat; then
    overheads "" ""
    "$root/record/truth.py" faultless >"$out/stat-p50.csv"
fi
if part user; then overheads -user "--user nobody"; fi
# record: what recording costs, beside other recorders on the same programs
recorded() {
    arms="$user --name record$by-$1 --warm $2 --rounds ${ROUNDS:-10}" program=$3
    set -- plain="$program" record="faultless record -o recorded/trace -- $program" \
        alloc="faultless record --alloc -o recorded/trace -- $program"
    ! command -v perf >/dev/null || set -- "$@" perf="perf record -q -e page-faults -c 97 -g -o /dev/null -- $program"
    ! command -v heaptrack >/dev/null || set -- "$@" heaptrack="heaptrack -o recorded/heaptrack $program"
    pair $arms "$@"
}
recordings() {
    by=$1 user=$2
    mkdir -p recorded && chmod 1777 recorded
    cc -O2 -g -o faults "$root/record/faults.c"
    recorded faults 128 "./faults 400"
    recorded chunk-pipeline 256 "faultless workload --quiet chunk-pipeline --chunks 64000"
    recorded numpy 600 "./python -c \"exec(open('arrays.py').read() * 18)\""
    rm -f recorded/*
}
# A program of a tenth of the length: the arm takes seven times as long.
traced() {
    ! command -v perf >/dev/null ||
        pair --name record-perf-trace --warm 128 --rounds "${ROUNDS:-10}" plain="./faults 40" perf-trace="perf trace -F all -o /dev/null -- ./faults 40"
}
if part record; then recordings "" ""; traced; recordings -user "--user nobody"; fi
# sites: recorded times beside the program's own
if part sites; then
    for each in fp:-fno-omit-frame-pointer nofp:-fomit-frame-pointer; do
        cc -O2 -g "${each#*:}" -pthread -o "sites-${each%:*}" "$root/record/sites.c"
    done
    "$root/record/sites.py" --out "$out" --faultless "$work/faultless" --rounds "${ROUNDS:-20}" --ms 1000 >"$out/sites.txt"
fi
# diffs: what diff names of two builds whose differences are known, and of one and the same
if part diffs; then
    for each in a: pages:-DPAGES price:-DPRICE; do
        cc -O2 -g -fno-ipa-icf -fno-inline -pthread ${each#*:} -o "diffs-${each%:*}" "$root/record/diffs.c"
    done
    "$root/record/diffs.py" --out "$out" --faultless "$work/faultless" --rounds "${ROUNDS:-20}" >"$out/diffs.txt"
fi
# advise: the verdicts, each checked by a paired run
if part advise; then
    "$root/record/verdicts.py" faultless "$out"
    faultless advise >"$out/advise-chunk-pipeline.txt"
fi
# peers, cold: every workload under every allocator, in warm and in cold memory; programs: the real ones
peers() {
    name=peers-$1 rounds=${ROUNDS:-$2} minutes=${MINUTES:-$3}
    shift 3
    "$root/record/peers.py" --out "$out" --faultless "$work/faultless" --name "$name" --rounds "$rounds" --minutes "$minutes" \
        "$@" $PEERS >"$out/$name.txt"
}
if part peers; then peers warm 9 30; fi
if part cold; then peers cold 3 40 --cold; fi
if part programs; then peers programs 9 30 --programs "$work" --python "${PYTHON:-python3}"; fi
# prezero: where zeroing ahead of need pays
if part prezero; then "$root/record/prezero.sh" "$host" "${ROUNDS:-5}"; fi
# lab: every experiment and claim
if part lab; then faultless lab --output "$out/lab" >"$out/lab.txt"; fi
# crosschecks: our figures beside those of programs that are not ours
if part crosschecks; then
    cd "$root"
    record/crosschecks.py --out "$out" --faultless "$work/faultless" --rounds "${ROUNDS:-12}" \
        ${WILL_IT_SCALE:+--will-it-scale "$WILL_IT_SCALE"} ${LAT_PAGEFAULT:+--lat-pagefault "$LAT_PAGEFAULT"} >"$out/crosschecks.txt"
fi
found=$(ls "$out"/run-*.csv "$out"/stat-*.csv "$out"/verdict-*.csv 2>/dev/null | grep -v stat-p50) || exit 0
"$root/record/paired.py" --summary $found >"$out/summary.txt"
