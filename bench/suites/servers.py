"""Servers under load on Unix sockets: Redis and PostgreSQL. Nothing listens on a network."""
from .outcomes import UNPRIVILEGED, root, steps, suite

# redis-benchmark sends whole pipelines: a count that is no multiple of theirs would leave the data open.
REDIS = r"""
serve() { {run} redis-server --port 0 --unixsocket $PWD/s --dir $PWD --save "" --appendonly $1 --enable-debug-command yes \
    --lazyfree-lazy-user-del $2 --io-threads $3 --logfile $PWD/log >/dev/null 2>&1 & server=$!; for i in $(seq 200); do [ "$(r ping 2>&1)" = PONG ] && return; sleep 0.05; done; }
r() { redis-cli -s $PWD/s "$@"; }
load() { redis-benchmark -s $PWD/s -q -n $2 -c 10 -P 8 -d $1 --dbnum $3 -t set,incr,lpush,rpush,sadd,hset,zadd,mset >/dev/null; echo "load $1: $?"; }
done_with() { for i in $(seq 600); do r info persistence | grep -q "$1:0" && return; sleep 0.05; done; }
set -- %(arguments)s
serve $1 $2 $3
python3 $INPUTS/commands.py 0 | r --pipe >pipe 2>&1; echo "piped: $(grep -c 'errors: 0' pipe)"
load 3000 4000 0 & one=$!; load 100000 320 1 & two=$!; python3 $INPUTS/commands.py 1 | r --pipe >/dev/null & three=$!
r bgsave >/dev/null; sleep 0.2; r bgrewriteaof >/dev/null; wait $one $two $three
done_with rdb_bgsave_in_progress; done_with aof_rewrite_in_progress
r bgrewriteaof >/dev/null; sleep 0.1; done_with aof_rewrite_in_progress; r bgsave >/dev/null; sleep 0.1; done_with rdb_bgsave_in_progress
echo "bgsave: $(r info persistence | grep -c 'rdb_last_bgsave_status:ok')"
echo "aof rewrite: $(r info persistence | grep -c 'aof_last_bgrewrite_status:ok')"
before=$(r debug digest); echo "data: $before $(r dbsize)"
r debug reload >/dev/null; [ "$(r debug digest)" = "$before" ]; echo "reload: $?"
r memory purge >/dev/null; r memory usage blob1 >/dev/null; echo "memory commands: $?"
r shutdown save >/dev/null 2>&1; wait $server; echo "shutdown: $?"
serve $1 $2 $3; [ "$(r debug digest)" = "$before" ]; echo "restarted: $?"
r shutdown nosave >/dev/null 2>&1; wait $server; echo "second shutdown: $?"
[ $1 = no ] || redis-check-aof appendonlydir/*.manifest >/dev/null 2>&1; echo "check-aof: $?"
redis-check-rdb dump.rdb >/dev/null 2>&1; echo "check-rdb: $?"
grep -c -E 'BUG REPORT|Guru|crashed' log | sed 's/^/crashes: /'
"""

REDIS_COMMANDS = r"""import random, sys
part, put = int(sys.argv[1]), sys.stdout.buffer.write
random.seed(part)
def command(*words):
    words = [word if isinstance(word, bytes) else str(word).encode() for word in words]
    put(b'*%d\r\n' % len(words) + b''.join(b'$%d\r\n%s\r\n' % (len(word), word) for word in words))
for number in range(3000):
    key = f'{part}:{number % 300}'
    command('SET', f'blob{part}{number % 60}', random.randbytes(random.choice([100, 5000, 70000, 300000, 1000000])) if number % 10 == 0 else 'x' * number)
    command('APPEND', f'a{key}', 'y' * random.randint(1, 9000))
    command('HSET', f'h{key}', number, random.random(), 'f', 'z' * number)
    command('ZADD', f'z{key}', number, f'm{number % 77}')
    command('SETRANGE', f'r{key}', random.randrange(200000), 'abc')
    command('XADD', f'x{key}', f'{number + 1}-1', 'f', 'v' * 50)
    if number % 3 == 0: command('DEL', f'a{part}:{random.randrange(300)}')
"""


@suite("redis", version="redis-server --version", needs=("redis-server", "redis-cli", "redis-benchmark"))
def redis(box):
    """Load with BGSAVE and AOF rewrite, then a restart: the data, the files' own checks."""
    box.write("commands.py", REDIS_COMMANDS)
    for name, arguments in (("snapshots only", "no no 1"), ("append-only file", "yes no 1"), ("I/O threads, lazy free", "yes yes 2")):
        yield steps(name, REDIS % {"arguments": arguments}, limit_s=300)


POSTGRES = r"""
export PGHOST=$PWD PGUSER=p PGDATABASE=postgres PGDATA=$PWD/data
{run} initdb -U p -A trust --locale=C -E UTF8 >init.log 2>&1; echo "initdb: $?"
start() { {run} postgres -k $PWD -c listen_addresses= -c shared_buffers=%(buffers)s -c work_mem=8MB -c max_parallel_workers_per_gather=2 \
    -c min_parallel_table_scan_size=0 -c parallel_setup_cost=0 -c parallel_tuple_cost=0 -c jit=%(jit)s -c huge_pages=try \
    -c dynamic_shared_memory_type=%(shared)s -c autovacuum_naptime=1 >log 2>&1 & server=$!
    for i in $(seq 300); do pg_isready -q && return; sleep 0.1; done; }
sum() { psql -XAtc "$1" 2>&1 | sha256sum | cut -c1-12; }
start; echo "start: $(psql -XAtc 'select 1')"
{run} pgbench -i -s %(scale)d -q >bench.log 2>&1; echo "pgbench -i: $?"
{run} pgbench -c 4 -j 2 -t %(count)d --no-vacuum -M prepared >bench.log 2>&1; echo "pgbench: $?"
grep -c 'number of failed transactions: 0 ' bench.log | sed 's/^/transactions without failures: /'
echo "balances agree: $(psql -XAtc 'select (select sum(abalance) from pgbench_accounts)=(select sum(tbalance) from pgbench_tellers) and (select sum(bbalance) from pgbench_branches)=(select coalesce(sum(delta),0) from pgbench_history)')"
psql -Xqc "create table t as select i, i*7919%%100003 b, md5(i::text) c, repeat(md5((i%%97)::text),(i%%300)) d from generate_series(1,%(rows)d) i; analyze t" ; echo "create: $?"
echo "parallel aggregate: $(sum 'select b%%50, count(*), sum(length(d)), max(c) from t group by 1 order by 1')"
echo "parallel plan: $(psql -XAtc 'explain select count(*) from t' | grep -c 'Parallel Seq Scan')"
echo "hash join: $(sum 'select count(*), sum(x.b) from t x join t y on x.b=y.i where y.b%%3=0')"
echo "sort: $(sum 'select c from t order by d, c limit 50000')"
echo "window: $(sum 'select i, rank() over (partition by b%%7 order by c) from t order by i limit 20000')"
echo "strings: $(sum "select length(string_agg(d, ',' order by i)), md5(string_agg(c, '' order by i)) from t")"
echo "json: $(sum 'select md5(jsonb_agg(x order by i)::text) from (select i, b, c from t order by i limit 30000) x')"
psql -Xqc 'create index concurrently tc on t(c); create index td on t using gin (to_tsvector($$simple$$, c)); update t set b=b+1 where i%%3=0; delete from t where i%%5=0' ; echo "indexes, update: $?"
psql -Xqc 'vacuum (full, analyze) t' -c 'vacuum (parallel 2) pgbench_accounts' -c 'reindex table t' -c 'cluster t using tc'; echo "vacuum full, cluster: $?"
echo "after: $(sum 'select count(*), sum(b), sum(length(d)) from t')"
pg_dump -t t postgres >a.sql && createdb q && psql -Xq -d q -f a.sql >/dev/null && pg_dump -t t q >b.sql && diff <(grep -v '^\\\|^SELECT pg_cat' a.sql) <(grep -v '^\\\|^SELECT pg_cat' b.sql) >/dev/null; echo "dump and restore: $?"
{run} pg_dump -Fc -f c.dump postgres && createdb u && {run} pg_restore -j 2 -d u c.dump; echo "parallel restore: $?"
kill -INT $server; wait $server; echo "stop: $?"
start; echo "restarted: $(sum 'select count(*), sum(b), sum(length(d)) from t')"
kill -QUIT $server; wait $server; start; echo "after a crash: $(sum 'select count(*), sum(b), sum(length(d)) from t')"
pg_amcheck --heapallindexed postgres --install-missing >/dev/null 2>&1; echo "amcheck: $?"
kill -TERM $server; wait $server; echo "second stop: $?"
grep -c -E 'PANIC|terminated by signal' log | sed 's/^/crashes: /'
"""


@suite("postgresql", version="postgres --version", needs=("postgres", "initdb", "pgbench", "psql", "pg_dump"))
def postgresql(box):
    """initdb, pgbench, parallel queries, VACUUM FULL, dump and restore, restart and recovery; as an unprivileged user."""
    user = UNPRIVILEGED if root() else None
    for name, jit, shared, buffers in (("defaults", "off", "posix", "64MB"), ("JIT, mmap", "on", "mmap", "16MB")):
        values = {"jit": jit, "shared": shared, "buffers": buffers, "scale": 2, "count": 300, "rows": 40000}
        yield steps(name, POSTGRES % values, limit_s=400, user=user)
