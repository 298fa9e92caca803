"""Programs on files: sqlite3, git, sort, the compressors, tar, awk, shells."""
from .outcomes import job, suite

TEXT = """import random, sys
random.seed(1)
words = [''.join(random.choice('abcdefghijklmnopqrstuvwxyz') for _ in range(random.randint(2, 12))) for _ in range(5000)]
for number in range(int(sys.argv[1])):
    print(random.randrange(10**9), random.choice(words), *(random.choice(words) for _ in range(random.randint(1, 9))))
"""
SQL = """PRAGMA journal_mode={journal}; PRAGMA threads=2; PRAGMA mmap_size={mmap};
CREATE TABLE t(a INTEGER PRIMARY KEY, b INT, c TEXT, d BLOB);
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n WHERE i<{rows})
  INSERT INTO t SELECT i, (i*7919)%100003, printf('%x-%x',i*31,i*17), zeroblob((i*13)%3000) FROM n;
CREATE INDEX tb ON t(b); CREATE INDEX tc ON t(c,b);
UPDATE t SET d=zeroblob(length(d)*3) WHERE a%5=0; DELETE FROM t WHERE a%7=0;
SELECT count(*), sum(b), sum(length(d)), min(c), max(c) FROM t;
SELECT b%100 AS g, count(*), group_concat(substr(c,1,2)) FROM t GROUP BY g ORDER BY g LIMIT 20;
SELECT length(group_concat(c)) FROM t; SELECT length(hex(zeroblob(9000000))), length(replace(hex(zeroblob(3000000)),'00','abc'));
SELECT sum(x.b) FROM t x JOIN t y ON x.b=y.a WHERE y.b%3=0; SELECT b, rank() OVER (ORDER BY b DESC, a) FROM t ORDER BY c LIMIT 10;
CREATE VIRTUAL TABLE f USING fts5(c); INSERT INTO f SELECT c FROM t; SELECT count(*) FROM f WHERE f MATCH '1f*';
BEGIN; DELETE FROM t WHERE a%2=0; ROLLBACK; VACUUM; ANALYZE; REINDEX;
SELECT count(*), sum(b) FROM t; PRAGMA integrity_check; PRAGMA freelist_count;
"""


@suite("sqlite3", version="sqlite3 --version", needs=("sqlite3",))
def sqlite(box):
    """SQL scripts with integrity_check: in memory, rollback journal, WAL, mmap; dump and restore; limits."""
    for name, file, journal, mmap, rows in (("memory", ":memory:", "memory", 0, 30000), ("delete", "t.db", "delete", 0, 60000),
                                            ("wal", "t.db", "wal", 0, 60000), ("mmap", "t.db", "wal", 1 << 28, 60000)):
        script = box.write(f"{name}.sql", SQL.format(journal=journal, mmap=mmap, rows=rows))
        yield job(name, f"sqlite3 -bail {file} '.read {script}'")
    yield job("dump and restore", f"sqlite3 a.db '.read {script}' && sqlite3 a.db .dump >a.sql && sqlite3 b.db <a.sql && "
              "sqlite3 b.db .dump | cmp - a.sql && sqlite3 a.db '.backup c.db' && sqlite3 c.db 'PRAGMA integrity_check'")
    yield job("hard heap limit", f"sqlite3 :memory: 'PRAGMA hard_heap_limit=4000000' '.read {script}'; echo $?")


FAST_IMPORT = """import random, sys
random.seed(2)
count, commits = map(int, sys.argv[1:])
files = {f'dir{n % 7}/file{n}.txt': [str(random.random()) for _ in range(200)] for n in range(count)}
put = sys.stdout.write
for commit in range(commits):
    put(f'commit refs/heads/main\\ncommitter A <a@example.org> {1700000000 + commit * 60} +0000\\ndata 2\\nc\\n\\n')
    for name in random.sample(sorted(files), 5):
        for _ in range(9):
            files[name][random.randrange(len(files[name]))] = str(random.random())
        text = '\\n'.join(files[name]) + '\\n'
        put(f'M 100644 inline {name}\\ndata {len(text)}\\n{text}\\n')
put('done\\n')
"""


@suite("git", version="git --version", needs=("git",))
def git(box):
    """fast-import, clone, repack -adf, gc, fsck, log, blame, grep, archive, bundle on a generated repository."""
    box.write("import.py", FAST_IMPORT)
    box.write("gitconfig", "[user]\nname=A\nemail=a@example.org\n[init]\ndefaultBranch=main\n[safe]\ndirectory=*\n[gc]\nauto=0\n")
    base = f"export GIT_CONFIG_GLOBAL={box.inputs}/gitconfig GIT_CONFIG_NOSYSTEM=1; "
    box.prepare(f"{base} git init -q repo && python3 import.py 300 900 >stream && "
                "git -C repo fast-import --quiet --done <stream && git -C repo reset -q --hard main")
    objects = "git rev-list --objects --all | sort | sha256sum && git fsck --full --strict"
    clone, repo = f"{base}git clone -q --no-local {box.inputs}/repo c && cd c && ", f"{base}cd {box.inputs}/repo && "
    yield job("fast-import", base + f"git init -q r && cd r && git fast-import --quiet --done <{box.inputs}/stream && {objects}")
    for threads in (1, 2, 8):
        yield job(f"repack -adf, {threads} threads", clone + f"git -c pack.threads={threads} repack -q -adf --depth=50 --window=20 && {objects}")
    yield job("gc --aggressive", clone + f"git gc -q --aggressive --prune=now && {objects}")
    yield job("log -p", repo + "git log -p --stat")
    yield job("blame", repo + "for i in 1 2 3 4 5 6 7 8; do git blame -w -C dir$((i % 7))/file$i.txt; done")
    yield job("grep and archive", repo + "git grep -n --threads=4 '99[0-9]7' && git archive --format=tar.gz HEAD")
    yield job("bundle", clone + "git bundle create -q ../b main && cd .. && git clone -q b d -b main && cd d && " + objects)


@suite("sort", version="sort --version", needs=("sort",))
def sort(box):
    """GNU sort of generated lines: in memory, spilled to files, several threads; and the tools around it."""
    box.write("lines.py", TEXT)
    box.prepare("python3 lines.py 1500000 >lines")
    lines = f"{box.inputs}/lines"
    yield job("in memory", f"sort -S 512M --parallel=2 {lines}")
    yield job("numeric, stable, spilled", f"sort -s -k1n -S 8M --parallel=2 -T . {lines}")
    yield job("unique, shuffle, join", f"cut -d' ' -f2 {lines} | sort -u -S 64M | tee u | shuf --random-source={lines} | sort >v; join u v; comm u v")
    yield job("awk, sed, grep, tac", f"awk '{{n[$2]+=$1; s[$2]=s[$2] $3}} END {{for (w in n) print w, n[w], length(s[w])}}' {lines} | sort; "
              f"sed -E 's/([a-z]+) ([a-z]+)/\\2 \\1/g' {lines} | tac | md5sum; grep -c -E '(ab|cd).*(xy|z)' {lines}")


@suite("compressors", version="xz --version", needs=("gzip", "xz", "zstd", "bzip2", "tar"), quick=True)
def compressors(box):
    """gzip, bzip2, xz, zstd: the same bytes and round trips, with threads; tar of many files."""
    box.write("lines.py", TEXT)
    box.prepare(f"python3 lines.py {30000 if box.quick else 600000} >lines && mkdir tree && split -n 200 lines tree/x")
    lines = f"{box.inputs}/lines"
    for pack, unpack in (("gzip -n9", "gzip -d"), ("bzip2 -9", "bzip2 -d"), ("xz -6 -T2 --block-size=1MiB", "xz -d -T2"),
                         ("zstd -3 -T1", "zstd -d"), ("zstd -19 --long=24 -T2", "zstd -d"), ("zstd -1 -T4 --rsyncable", "zstd -d")):
        yield job(pack, f"{pack} -c <{lines} >p && sha256sum p && {unpack} -c <p | cmp - {lines}", quick=pack.endswith(("9", "MiB", "T1")))
    for letter in "zjJ":
        yield job(f"tar -{letter}", f"tar -c{letter}f t --sort=name --owner=0 --group=0 --mtime=@1700000000 -C {box.inputs} tree && "
                  f"tar -x{letter}f t && diff -r tree {box.inputs}/tree && sha256sum t", quick=letter == "z")


@suite("shells", version="bash --version", needs=("bash", "dash", "xargs"), quick=True)
def shells(box):
    """Shell loops with many forks, pipes, xargs -P, a limit of the address space."""
    times = 100 if box.quick else 1000
    yield job("bash forks", f"bash -c 'for i in $(seq {times}); do x=$(echo $i); (exit $((i % 3))) || n=$((n + x)); done; echo $n'")
    yield job("dash forks", f"dash -c 'i=0; while [ $i -lt {times} ]; do i=$((i + 1)); echo $(true | cat; echo $i); done'")
    yield job("xargs -P4", f"seq {times} | xargs -P4 -n1 sh -c 'head -c 100000 /dev/zero | md5sum >$0' && cat [0-9]* | sort | uniq -c")
    yield job("background jobs", "for i in $(seq 50); do (head -c 3000000 /dev/zero | sort -S 1M | wc -c) & done; wait")
    yield job("large expansions", "bash -c 'x=$(printf %3000000d 7); a=({1..200000}); y=$x$x; echo ${#y} ${#a[@]} ${a[*]: -1}; unset x y a; echo $BASH_SUBSHELL'")
    yield job("ulimit -v", "(ulimit -v 3000000; bash -c 'echo ok'; sort -S 20M /etc/passwd | sha256sum; python3 -c 'print(len(bytes(200 << 20)))')")
    yield job("environment", "env -i PATH=$PATH sort /etc/passwd | sha256sum; env -u LD_PRELOAD python3 -c 'print(len(b\"x\" * (9 << 20)))'")
