#!/bin/sh
# Records where zeroing ahead of need pays into record/DATE-NAME: record/prezero.sh NAME [ROUNDS [OPTION ...]], the options
# being the bench's, for a part of it. About 5 minutes per round, 5 by default; nothing else may run: the keeper works only
# while a processor is idle.
set -eu
cd "$(dirname "$0")/.."
out="record/${DATE:-$(date -u +%Y-%m-%d)}-$1"
rounds=${2:-5}
shift
[ $# = 0 ] || shift
bench() { cargo bench -q -p faultless-pool --bench prezero -- "$@"; }
measure() {
    name=$1
    shift
    if [ -e "$out/$name.csv" ]; then echo "$out/$name.csv exists: records are never overwritten" >&2; exit 1; fi
    bench --rounds "$rounds" "$@" >"$out/$name.csv.new"
    mv "$out/$name.csv.new" "$out/$name.csv"
    bench --summary "$PWD/$out/$name.csv" >"$out/$name.txt"
}
cargo bench -q -p faultless-pool --bench prezero --no-run
mkdir -p "$out"
[ -e "$out/host.txt" ] || sh record/host.sh >"$out/host.txt"
measure prezero "$@"
# Blocks of whole huge pages, for the arm that gets its memory in them.
measure prezero-4m --block 4096 --alive 20 --pause 0,500 --lines 1,8,64 "$@"
