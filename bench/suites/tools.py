"""Debuggers, tracers and checkers around a program: gdb, strace, valgrind, perf."""
import shutil

from .outcomes import job, suite

PROGRAM = r"""#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
static void *each(void *p) { size_t n = 1; unsigned s = 0; for (int i = 0; i < 300; i++) { n = n * 7919 % 400009 + 1; unsigned char *b = i % 3 ? malloc(n) : calloc(1, n); if (i % 3) memset(b, i, n);
  b = realloc(b, n * 2); s = s * 31 + b[n - 1]; free(b); } *(unsigned *)p = s; return 0; }
int deep(int n, int wait) { char pad[64]; memset(pad, n, sizeof pad); if (n) return deep(n - 1, wait) + pad[3] - pad[4]; if (wait) { puts("ready"); fflush(stdout); sleep(20); } return 7; }
int main(int c, char **v) { pthread_t t[3]; unsigned s[3]; for (int i = 0; i < 3; i++) pthread_create(t + i, 0, each, s + i); for (int i = 0; i < 3; i++) pthread_join(t[i], 0);
  printf("%u %u %u\n", s[0], s[1], s[2]); char *keep = malloc(300000); keep[0] = 1; int d = deep(5, c > 1); free(keep); return d - 7; }
"""
WAITS = """for i in $(seq 100); do grep -q ready o && break; sleep 0.05; done; """


def program(box, options=""):
    box.write("p.c", PROGRAM)
    box.prepare(f"cc -g -O0 -pthread {options} -o p p.c")
    return f"{box.inputs}/p"


@suite("gdb", version="gdb --version", needs=("gdb", "cc"))
def gdb(box):
    """gdb -p of a running program, break points, calls of malloc, a core file, gdb around run."""
    p = program(box)
    frames = "grep -o -E 'in (deep|main) |^#[0-9]+ +(deep|main) '"
    yield job("attach", f"{{run}} {p} wait >o & pid=$!; {WAITS} gdb -nx -batch -p $pid -ex bt -ex detach 2>/dev/null | {frames}; kill $pid; wait $pid; echo $?", errors=False)
    yield job("call malloc", f"{{run}} {p} wait >o & pid=$!; {WAITS} gdb -nx -batch -p $pid -ex 'print ((void*(*)(unsigned long))malloc)(200000) != 0' -ex 'print (int)deep(3,0)' -ex detach 2>/dev/null | grep '^\\$'; kill $pid; wait $pid", errors=False)
    yield job("break points", f"gdb -nx -batch -ex 'set startup-with-shell off' -ex 'break deep if n==0' -ex run -ex bt -ex 'finish' -ex continue {p} 2>/dev/null | grep -E '^#|exited normally|Value' | sed -E 's/process [0-9]+//; s/0x[0-9a-f]+//g'", errors=False)
    yield job("core file", f"{{run}} {p} wait >o & pid=$!; {WAITS} ulimit -f 1000000; gdb -nx -batch -p $pid -ex 'generate-core-file c' -ex detach >/dev/null 2>&1; kill $pid; wait $pid; gdb -nx -batch {p} c -ex bt 2>/dev/null | {frames}", errors=False)
    yield job("gdb of python3", "gdb -nx -batch -ex run -ex 'info threads' --args python3 -c 'print(sum(len(bytes(n * 100)) for n in range(3000)))' 2>/dev/null | grep -E '^[0-9]|exited normally' | sed 's/process [0-9]*/process/'", errors=False)


@suite("tracers", version="strace --version", needs=("strace", "cc"))
def tracers(box):
    """strace around a program, run around strace, perf record."""
    p = program(box)
    yield job("strace", f"strace -f -o log {p} && tail -1 log | grep -o 'exited with.*'")
    yield job("strace around run", f"strace -f -o log {{run}} {p} && tail -1 log | grep -o 'exited with.*'")
    yield job("strace -p", f"{{run}} {p} wait >o & pid=$!; {WAITS} timeout 2 strace -f -o log -p $pid 2>/dev/null; kill $pid; wait $pid; echo $?; head -1 o", errors=False)
    yield job("strace -c, sort", "strace -c -f -o log sort -S 8M --parallel=2 /etc/passwd | sha256sum")
    if shutil.which("perf"):
        yield job("perf record", f"perf record -q -o d {p} && perf report -i d --stdio 2>/dev/null | grep -c deep >/dev/null; echo done", errors=False)


@suite("valgrind", version="valgrind --version", needs=("valgrind", "cc"))
def valgrind(box):
    """memcheck, helgrind, massif: run around valgrind, and valgrind around run."""
    p = program(box)
    for tool in ("memcheck --leak-check=full", "helgrind", "massif --massif-out-file=m", "callgrind --callgrind-out-file=m"):
        yield job(tool.split()[0], f"{{run}} valgrind -q --error-exitcode=9 --tool={tool} {p}", errors=False)
    yield job("around run", f"valgrind -q --error-exitcode=9 --trace-children=yes --trace-children-skip='*/faultless' {{run}} {p}", errors=False)
    wrong = box.write("wrong.c", "#include <stdlib.h>\nint main(void) { volatile char *p = malloc(100000); p[100000] = 1; free((void *)p); return p[5]; }\n")
    box.prepare(f"cc -g -O0 -o wrong {wrong}")
    yield job("finds errors", f"{{run}} valgrind --error-exitcode=9 {box.inputs}/wrong 2>&1 | grep -o -E 'Invalid (read|write) of size [0-9]+|[0-9]+ errors from [0-9]+ contexts'; echo ${{PIPESTATUS[0]}}", errors=False)
