"""What do estimates of `advise` miss? Programs that fault for one reason each, and the savings of the cures that it names."""
import json, os, shlex, shutil, subprocess

from harness import record
from topics import PROGRAMS, left_out, topic

FIELDS = ["program", "cure", "rounds", "cpu_ms", "estimate_low_ms", "estimate_high_ms", "measured_low_ms", "measured_ms", "measured_high_ms"]
# Time of one `advise`, the recorded run included: some forty of them take 20 minutes.
TIME = "20s"

JEMALLOC = "LD_PRELOAD=libjemalloc.so.2"
AT_ONCE = "MALLOC_CONF=dirty_decay_ms:0,muzzy_decay_ms:0"
SOURCES = {
    "lists.py": "for _ in range(12):\n    a = [[i] for i in range(200000)]\n    del a\n",
    "texts.py": "for _ in range(40):\n    a = [str(i) * 20 for i in range(60000)]\n    b = ''.join(a)\n    c = b.encode()\n    del a, b, c\n",
    "bytes.py": "for i in range(600):\n    a = bytearray(3000000 + i * 1000)\n    b = bytes(a)\n",
    "vectors.py": "import numpy as np\na = np.ones(1 << 18)\nfor i in range(900):\n    b = a * i + a\nprint(b[7])\n",
    "images.py": "import numpy as np\nfor i in range(60):\n    a = np.zeros((1024, 1024, 3), dtype=np.float32)\n    a += i\n    b = a.astype(np.uint8)\nprint(b.sum())\n",
    "matrices.py": "import numpy as np\na = np.random.default_rng(1).random((700, 700))\nfor i in range(150):\n    b = (a + i).T.copy()\nprint(b[3, 4])\n",
    "buffers.js": "let s = 0; for (let i = 0; i < 400; i++) { const b = Buffer.alloc(2000000 + i, i & 255); s += b[i] } console.log(s)\n",
    "objects.js": "let s = 0; for (let i = 0; i < 60; i++) { const a = []; for (let j = 0; j < 100000; j++) a.push({j}); s += a.length } console.log(s)\n",
    "slices.go": """package main
import ("fmt"; "runtime/debug")
func main() {
    sum := 0
    for i := 0; i < 120; i++ {
        a := make([]byte, 8<<20)
        for j := 0; j < len(a); j += 4096 { a[j] = byte(i) }
        sum += int(a[4096])
        if i%4 == 3 { a = nil; debug.FreeOSMemory() }
    }
    fmt.Println(sum)
}
""",
    "Lists.java": """import java.util.*;
class Lists {
    public static void main(String[] words) {
        long sum = 0;
        for (int i = 0; i < 40; i++) {
            List<byte[]> all = new ArrayList<>();
            for (int j = 0; j < 400; j++) all.add(new byte[100000]);
            sum += all.size();
        }
        System.out.println(sum);
    }
}
""",
}


def programs():
    """Name -> shell command."""
    mechanism = {"heap_top": 250, "arena": 250, "large": 40}
    found = {name: f"./mechanisms {name} {times}" for name, times in mechanism.items()}
    found |= {f"{name}, jemalloc at once": f"{AT_ONCE} {JEMALLOC} ./mechanisms {name} {times}" for name, times in mechanism.items()}
    found |= {name: f"./mechanisms {name} 400" for name in ("unmaps", "advises", "threads", "copies")}
    found["heap_top, threshold"] = "GLIBC_TUNABLES=glibc.malloc.mmap_threshold=65536 ./mechanisms heap_top 200"
    found["arena, one"] = "GLIBC_TUNABLES=glibc.malloc.arena_max=1 ./mechanisms arena 200"
    found["large, kept top"] = "GLIBC_TUNABLES=glibc.malloc.trim_threshold=4294967296 ./mechanisms large 40"
    workload = "faultless workload --quiet "
    jobs = {"temporaries": "temporaries --total-mib 2048", "small temporaries": "temporaries --max-mib 8 --total-mib 3000", "bursts": "bursts",
            "idle bursts": "idle-bursts", "growth": "growth", "chunk-pipeline": "chunk-pipeline --chunks 2000"}
    jobs = {name: workload + job for name, job in jobs.items()}
    found |= jobs
    found |= {f"{name}, jemalloc at once": f"{AT_ONCE} {JEMALLOC} {jobs[name]}" for name in ("temporaries", "small temporaries", "bursts", "chunk-pipeline")}
    scripts = {name.split(".")[0]: f"./python {name}" for name in SOURCES if name.endswith(".py")}
    scripts |= {name: f"./python {name}.py" for name in ("parse", "analysis")}
    found |= scripts | {"array": "./python array.py 4"}
    found |= {f"{name}, jemalloc at once": f"{AT_ONCE} {JEMALLOC} {scripts[name]}" for name in ("vectors", "images", "bytes", "texts", "matrices", "analysis", "parse")}
    found |= {"buffers": "node buffers.js", "objects": "node objects.js", "slices": "./slices", "slices, limit": "GOMEMLIMIT=30MiB ./slices",
              "java lists": "java -Xmx400m Lists.java", "gcc": "gcc -O1 -c functions.c -o /dev/null", "words": "./words",
              "sort": "sort -S 64M some.txt", "sqlite3": "sqlite3 :memory: '.read table.sql'"}
    return found


def prepare(to):
    for name, text in SOURCES.items():
        with open(name, "w") as file:
            file.write(text)
    shutil.copy(f"{PROGRAMS}/analysis.py", ".")
    to.built("mechanisms", os.path.join(record.ROOT, "crates/cli/tests/programs/mechanisms.c"), "-O1", "-fno-builtin")
    if shutil.which("go"):
        subprocess.run(["go", "build", "-o", "slices", "slices.go"], check=True)


def rows(document):
    """The row of each cure that has an estimate and was measured."""
    base_ms = document["scores"][0]["cpu_ns"]["median"]["value"] / 1e6 if document["scores"] else 0
    for score in document["scores"]:
        if score["estimate_ns"] and score["measured_ns"]:
            estimate, (low, high) = ([end / 1e6 for end in score[name]] for name in ("estimate_ns", "measured_ns"))
            value = base_ms * (1 - score["cpu_ns"]["ratio"]["value"])
            yield [score["arm"]["name"], len(score["runs"]), base_ms, *estimate, low, value, high]


@topic("estimates", rounds=0)
def take_estimates(to):
    """* what `advise` estimates that cures save, beside what they save; --rounds N, or twenty seconds a program"""
    prepare(to)
    count = ["--runs", str(to.rounds)] if to.rounds else ["--time", TIME]
    with to.table("estimates", FIELDS, programs()) as table:
        for name, command in programs().items():
            words = shlex.split(command)
            begin = next(at for at, word in enumerate(words) if "=" not in word)
            if not shutil.which(words[begin]):
                left_out(name, f"{words[begin]} is not installed")
                continue
            advise = [to.faultless, "advise", "--json", *count, "--any-output", "--"]
            done = subprocess.run(["env", *words[:begin], *advise, *words[begin:]], stdin=subprocess.DEVNULL, capture_output=True, text=True)
            if done.returncode > 1:
                left_out(name, done.stderr.strip().splitlines()[-1])
                continue
            found = list(rows(json.loads(done.stdout)))
            for row in found:
                table.row(name, *row)
            if not found:
                left_out(name, "no cure with an estimate was measured")
            print(f"{name}: {len(found)}")
