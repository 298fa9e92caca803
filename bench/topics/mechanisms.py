"""Does `report` name the mechanism? Programs that have one each, and programs that have none."""
import os, shutil, subprocess
from collections import namedtuple

from harness.process import warm
from topics import left_out, topic

# `also`: mechanisms that the program has beside its own. `id`: None if nothing is to be named.
Program = namedtuple("Program", "name id command also", defaults=((),))

JEMALLOC = "env LD_PRELOAD=libjemalloc.so.2"
MIMALLOC = "env LD_PRELOAD=libmimalloc.so.2"
NO_DECAY = "MALLOC_CONF=dirty_decay_ms:0,muzzy_decay_ms:0"

GO = """package main
import "runtime/debug"
func main() {
	for i := 0; i < 12; i++ { b := make([]byte, 32<<20); for j := range b { b[j] = 1 }; b = nil; %s }
}"""
GO_LIMIT = """package main
import "runtime/debug"
var kept [][]byte
func main() {
	debug.SetMemoryLimit(48 << 20)
	for i := 0; i < 60; i++ { kept = nil; for j := 0; j < 8; j++ { b := make([]byte, 4<<20); for k := 0; k < len(b); k += 4096 { b[k] = 1 }; kept = append(kept, b) } }
}"""
JAVA = "class Rounds { public static void main(String[] a) { int n = Integer.parseInt(a[0]); for (int i = 0; i < n; i++) { byte[][] b = new byte[60][]; for (int j = 0; j < 60; j++) b[j] = new byte[1 << 20]; if (a.length > 1) { b = null; System.gc(); } } } }"
NODE_BUFFERS = "let s = 0; for (let i = 0; i < 100; i++) { const b = Buffer.alloc(6 << 20, 1); s += b[i]; if (i % 4 == 3 && global.gc) gc(); }"
NODE_ARRAYS = "let s = 0; for (let i = 0; i < 250; i++) { const b = new Float64Array(1 << 20).fill(i); s += b[i]; if (global.gc) gc(); }"
NODE_HEAP = "for (let r = 0; r < 6; r++) { let a = []; for (let i = 0; i < 400000; i++) a.push({i, s: [i]}); a = null; if (global.gc) gc(); }"
NODE_YOUNG = "let n = 0; for (let i = 0; i < 12000000; i++) { const o = {a: i, b: [i]}; n += o.b[0]; }"
PYTHON_LISTS = "for r in range(8):\n  a = [[i] for i in range(150000)]; del a"
PYTHON_DICTS = "for r in range(8):\n  a = [{'k': str(i)} for i in range(50000)]; del a"
NUMPY = "import numpy as np\nb, c, d = np.ones((3, 5_000_000))\nfor r in range(30): a = b + c * d"
NUMPY_CHAIN = "import numpy as np\nx = np.ones(6_000_000)\nfor r in range(20): y = np.sqrt(x * x + 1) - x"

OWN_FRESH = "first_touch_of_mappings"

PROGRAMS_WITH = [
    Program("heap-messages", "heap_top_trimmed", "./by_malloc heap-messages"),
    Program("heap-list", "heap_top_trimmed", "./by_malloc heap-list"),
    Program("frames", "block_above_mmap_threshold", "./by_malloc frames"),
    Program("fixed-threshold", "block_above_mmap_threshold", "./by_malloc fixed-threshold"),
    Program("arena-messages", "arena_trimmed", "./by_malloc arena-messages"),
    Program("arena-lists", "arena_trimmed", "./by_malloc arena-lists", ("mmap_lock_writer",)),
    Program("jemalloc-no-decay", "allocator_purge", f"{JEMALLOC} {NO_DECAY} ./by_malloc churn"),
    Program("mimalloc-no-delay", "allocator_purge", f"{MIMALLOC} MIMALLOC_PURGE_DELAY=0 MIMALLOC_DECOMMIT_DELAY=0 ./by_malloc churn"),
    Program("jemalloc-oversize", "oversize_blocks", f"{JEMALLOC} ./by_malloc oversize"),
    Program("jemalloc-oversize-more", "oversize_blocks", f"{JEMALLOC} ./by_malloc oversize-more"),
    Program("doubling", "growth_by_copy", "./by_malloc doubling", ("first_touch",)),
    Program("half-more", "growth_by_copy", "./by_malloc half-more", ("first_touch",)),
    Program("benchmarks", "threshold_learned", "./by_malloc benchmarks", ("first_touch",)),
    Program("trained-by-one", "threshold_learned", "./by_malloc trained-by-one", ("first_touch",)),
    Program("thread-a-request", "thread_churn", "./by_malloc thread-a-request"),
    Program("threads-a-batch", "thread_churn", "./by_malloc threads-a-batch"),
    Program("flag-buffer", "huge_page_flag_outlives_block", "./by_malloc flag-buffer"),
    Program("flag-table", "huge_page_flag_outlives_block", "./by_malloc flag-table"),
    Program("start", "first_touch", "./by_malloc start"),
    Program("start-lists", "first_touch", "./by_malloc start-lists"),
    Program("sums-first", "read_before_write", "./by_malloc sums-first", ("block_above_mmap_threshold",)),
    Program("sums-then-writes", "read_before_write", "./by_malloc sums-then-writes", ("first_touch",)),
    Program("map-a-chunk", "own_mapping", "./by_mmap map-a-chunk"),
    Program("advise-a-chunk", "own_mapping", "./by_mmap advise-a-chunk"),
    Program("chunks-kept", OWN_FRESH, "./by_mmap chunks-kept"),
    Program("table-kept", OWN_FRESH, "./by_mmap table-kept"),
    Program("populate-a-round", "populate", "./by_mmap populate-a-round", ("own_mapping",)),
    Program("populate-too-early", "populate", "./by_mmap populate-too-early"),
    Program("child-writes", "copy_on_write", "./by_mmap child-writes", ("fork_page_tables", "first_touch", OWN_FRESH)),
    Program("snapshot", "copy_on_write", "./by_mmap snapshot", ("fork_page_tables", "first_touch", OWN_FRESH)),
    Program("fork-and-end", "fork_page_tables", "./by_mmap fork-and-end", ("first_touch", OWN_FRESH, "copy_on_write")),
    Program("fork-and-execute", "fork_page_tables", "./by_mmap fork-and-execute", ("first_touch", OWN_FRESH, "copy_on_write", "file_pages")),
    Program("file-read", "file_remapped", "./by_mmap file-read", ("own_mapping",)),
    Program("shared-a-message", "file_remapped", "./by_mmap shared-a-message"),
    Program("file-copied", "file_pages", "./by_mmap file-copied"),
    Program("shared", "file_pages", "./by_mmap shared"),
    Program("shared-file", "file_pages", "./by_mmap shared-file"),
    Program("cold-in-order", "cold_file", "./by_mmap cold-in-order", ("file_pages",)),
    Program("cold-at-random", "cold_file", "./by_mmap cold-at-random", ("file_pages",)),
    Program("writer-protects", "mmap_lock_writer", "./by_mmap writer-protects", ("own_mapping", "first_touch", OWN_FRESH, "tlb_victim")),
    Program("writer-forbids", "mmap_lock_writer", "./by_mmap writer-forbids", ("own_mapping", "first_touch", OWN_FRESH, "tlb_victim")),
    Program("victim", "tlb_victim", "./by_mmap victim", ("mmap_lock_writer", "own_mapping")),
    Program("victim-of-more", "tlb_victim", "./by_mmap victim-of-more", ("mmap_lock_writer", "own_mapping")),
    Program("filled-by-copies", "userfaultfd", "./by_mmap filled-by-copies"),
    Program("filled-by-zeroes", "userfaultfd", "./by_mmap filled-by-zeroes"),
    Program("go-free", "go_scavenger", "./go-free", ("first_touch",)),
    Program("go-limit", "go_scavenger", "./go-limit", ("first_touch",)),
    Program("java-growth", "java_heap_growth", "java -XX:+UseSerialGC -Xmx1g -Xmn600m -cp . Rounds 9", ("file_pages", "first_touch")),
    Program("java-growth-g1", "java_heap_growth", "java -XX:+UseG1GC -Xms512m -Xmx1g -cp . Rounds 8", ("file_pages", "first_touch")),
    Program("java-uncommit-regions", "java_uncommit", "java -XX:+UseG1GC -Xmx1g -XX:G1HeapRegionSize=8m -XX:MaxHeapFreeRatio=5 -XX:MinHeapFreeRatio=1 -cp . Rounds 12 gc",
            ("file_pages", "first_touch", "java_heap_growth")),
    Program("java-uncommit-g1", "java_uncommit", "java -XX:+UseG1GC -Xmx1g -XX:MaxHeapFreeRatio=5 -XX:MinHeapFreeRatio=1 -cp . Rounds 12 gc",
            ("file_pages", "first_touch", "java_heap_growth")),
    Program("node-buffers", "v8_buffers", ["node", "--expose-gc", "-e", NODE_BUFFERS], ("file_pages", "first_touch")),
    Program("node-arrays", "v8_buffers", ["node", "--expose-gc", "-e", NODE_ARRAYS], ("file_pages", "first_touch")),
    Program("node-heap", "v8_heap", ["node", "--expose-gc", "-e", NODE_HEAP], ("file_pages", "first_touch")),
    Program("node-young", "v8_heap", ["node", "--max-semi-space-size=1", "-e", NODE_HEAP.replace("global.gc", "false")], ("file_pages", "first_touch")),
    Program("python-lists", "pymalloc_arenas", ["./python", "-c", PYTHON_LISTS], ("file_pages", "first_touch")),
    Program("python-dicts", "pymalloc_arenas", ["./python", "-c", PYTHON_DICTS], ("file_pages", "first_touch")),
    Program("numpy-expression", "numpy_temporaries", ["./python", "-c", NUMPY], ("file_pages", "first_touch")),
    Program("numpy-chain", "numpy_temporaries", ["./python", "-c", NUMPY_CHAIN], ("file_pages", "first_touch")),
]
PROGRAMS_WITHOUT = [
    Program("computes", None, "./by_malloc computes"), Program("keeps", None, "./by_malloc keeps"), Program("sorts", None, "./by_malloc sorts"),
    Program("small-blocks", None, "./by_malloc small-blocks"),
    Program("python-sum", None, ["./python", "-c", "print(sum(i * i % 7 for i in range(6_000_000)))"]),
    Program("perl-loop", None, ["perl", "-e", "$s += $_ % 7 for 1 .. 9000000; print $s"]),
    Program("ruby-loop", None, ["ruby", "-e", "s = 0; 12_000_000.times { |i| s += i % 7 }; puts s"]),
    Program("node-loop", None, ["node", "-e", "let s = 0; for (let i = 0; i < 1e9; i++) s += i % 7; console.log(s)"]),
    Program("sqlite3-count", None, ["sqlite3", ":memory:", "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n LIMIT 4000000) SELECT sum(x % 7) FROM n"]),
    Program("sha256sum", None, "sha256sum lines.txt lines.txt lines.txt"),
]
FIELDS = ["round", "program", "wanted", "named", "share", "right", "others", "all"]
# A mechanism below this share of the CPU time does no harm where it is wrong.
HARMS_FROM = 0.1


def build(to):
    """What the programs need; which of them this machine can run."""
    for name in ("by_malloc", "by_mmap"):
        to.built(name, f"{name}.c", "-fno-builtin")
    if shutil.which("go"):
        for name, text in (("go-free", GO % "debug.FreeOSMemory()"), ("go-limit", GO_LIMIT)):
            with open(f"{name}.go", "w") as file:
                file.write(text)
            subprocess.run(["go", "build", "-o", name, f"{name}.go"], check=True, env=os.environ | {"GOCACHE": f"{os.getcwd()}/go-cache", "GOFLAGS": "-mod=mod"})
    if shutil.which("javac"):
        with open("Rounds.java", "w") as file:
            file.write(JAVA)
        subprocess.run(["javac", "Rounds.java"], check=True)


def words(program):
    return program.command if isinstance(program.command, list) else program.command.split()


def lacks(program):
    """What a program needs and this machine lacks."""
    needed = next(word for word in words(program) if "=" not in word and word != "env")
    if not shutil.which(needed):
        return f"{needed} is not installed"
    if "numpy" in program.name and subprocess.run([needed, "-c", "import numpy"], capture_output=True).returncode:
        return "NumPy is not installed"
    if subprocess.run(words(program), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode:
        return "it can't run here"


def row(program, mechanisms):
    """The columns behind the round. Right: its mechanism is named first, or none of weight where it has none."""
    weighty = [found for found in mechanisms if found["share"] >= HARMS_FROM]
    first = mechanisms[0] if mechanisms else {"id": "", "share": 0.0}
    allowed = {program.id, *program.also}
    others = [found["id"] for found in weighty if found["id"] not in allowed]
    is_right = first["id"] == program.id if program.id else not weighty
    told = lambda found: f"{found['id']}:{found['share']:.3f}"
    return [program.name, program.id or "", first["id"], first["share"], int(is_right), " ".join(others), " ".join(map(told, mechanisms))]


@topic("mechanisms")
def take_mechanisms(to):
    """* the mechanism that `report` names first, of programs with a known one, and of programs without"""
    build(to)
    with to.table("mechanisms", FIELDS) as table:
        for number in range(to.rounds):
            for program in PROGRAMS_WITH + PROGRAMS_WITHOUT:
                if to.more and program.name not in to.more:
                    continue
                if why := lacks(program):
                    left_out(program.name, why)
                    continue
                warm(600)
                subprocess.run([to.faultless, "record", "-o", "mechanisms.trace", "--", *words(program)], stdout=subprocess.DEVNULL,
                               stderr=subprocess.DEVNULL, check=True)
                found = to.said("report", "--json", "mechanisms.trace")["mechanisms"]
                table.row(number, *row(program, found))
                print(f"{program.name}: {found[0]['id'] if found else 'none'}")
