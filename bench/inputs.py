#!/usr/bin/env python3
"""Writes the inputs of the measured programs to DIR, the same bytes each time: bench/inputs.py DIR"""
import json, os, random, sys

if len(sys.argv) != 2 or sys.argv[1].startswith("-"):
    sys.exit(__doc__)
out = sys.argv[1]
os.makedirs(out, exist_ok=True)
draw = random.Random(20261121)
words = ["".join(draw.choices("abcdefghijklmnopqrstuvwxyz", k=draw.randint(2, 10))) for _ in range(5000)]


def write(name, text):
    with open(os.path.join(out, name), "w") as file:
        file.write(text)


records = [{"id": i, "name": " ".join(draw.choices(words, k=4)), "score": draw.random(), "tags": draw.choices(words, k=5),
            "place": {"x": draw.randint(0, 999), "y": draw.randint(0, 999)}} for i in range(150_000)]
write("big.json", json.dumps(records))
lines = "\n".join(" ".join(draw.choices(words, k=8)) for _ in range(1_200_000)) + "\n"
write("lines.txt", lines)
write("some.txt", lines[:16_000_000])
functions = []
for i in range(40):
    body = "\n".join(f"  a[{j}] = (a[{(j * 7 + i) % 64}] * {draw.randint(3, 99)} + b) ^ (a[{(j + i) % 64}] >> {j % 31});" for j in range(64))
    functions.append(f"unsigned f{i}(unsigned *a, unsigned b) {{\n  for (unsigned k = 0; k < b; k++) {{\n{body}\n  }}\n  return a[{i % 64}];\n}}\n")
write("functions.c", "\n".join(functions))
write("parse.py", "import json\ndata = json.load(open('big.json'))\nprint(len(data), sum(r['place']['x'] for r in data))\n")
write("arrays.py", "import numpy as np\ntotal = 0.0\nfor mib in (1, 4, 16, 64):\n    n = (mib << 20) // 8\n    b, c, d = np.ones(n), np.arange(n, dtype=float), np.full(n, 2.0)\n"
      "    for _ in range(512 // mib):\n        a = b + c * d\n    total += float(a[-1])\nprint(total)\n")
write("table.sql", "create table t(a integer, b text);\nwith recursive c(x) as (select 1 union all select x + 1 from c where x < 200000)\n"
      "insert into t select x * 7919 % 200003, hex(x * 104729) from c;\ncreate index i on t(b);\n"
      "select count(*), min(b), max(b) from (select b from t order by b, a desc);\nselect sum(a) from t where b > '8';\n")
write("sum.js", "const rows = JSON.parse(require('fs').readFileSync('big.json'));\nlet n = 0;\nfor (const r of rows) n += r.tags.join('').length;\nconsole.log(rows.length, n);\n")
write("words.cpp", "#include <iostream>\n#include <fstream>\n#include <string>\n#include <unordered_map>\n#include <vector>\n#include <algorithm>\n"
      "int main() {\n  std::ifstream in(\"lines.txt\");\n  std::unordered_map<std::string, long> count;\n  std::vector<std::string> all;\n  std::string word;\n"
      "  while (all.size() < 2000000 && in >> word) { count[word]++; all.push_back(word); }\n  std::sort(all.begin(), all.end());\n"
      "  std::cout << all.size() << ' ' << count.size() << ' ' << all.front() << ' ' << all.back() << '\\n';\n}\n")
write("array.py", "import sys\nimport numpy as np\nmib = int(sys.argv[1])\nn = (mib << 20) // 8\n"
      "b, c, d = np.ones(n), np.arange(n, dtype=float), np.full(n, 2.0)\nfor _ in range(4096 // mib):\n    a = b + c * d\nprint(a.sum(), a[-1])\n")
write("frame.py", "import numpy as np\nimport pandas as pd\nr = np.random.default_rng(1)\nn = 400_000\n"
      "t = pd.DataFrame({'k': r.integers(0, 5000, n), 'x': r.normal(size=n), 'y': r.integers(0, 1 << 40, n)})\n"
      "t['z'] = t.x * t.y + t.k\nt['s'] = t.k.astype(str)\ng = t.groupby('k').agg({'x': 'mean', 'y': 'sum', 'z': 'max'}).reset_index()\n"
      "m = t.merge(g, on='k', suffixes=('', '_g')).sort_values(['y_g', 'y'])\nm['r'] = m.z.rolling(50).mean().fillna(0)\n"
      "p = m.pivot_table(index='s', values='r', aggfunc=['mean', 'std']).round(6)\n"
      "print(len(m), repr(m.r.sum()), int(pd.util.hash_pandas_object(p, index=False).sum()))\n")
commands = []
for i in range(150_000):
    key = draw.randint(0, 40_000)
    commands.append(f"SET key:{key} {'v' * draw.randint(10, 400)}" if i % 3 else f"RPUSH list:{key % 500} {draw.choice(words)}")
    if i % 500 == 0:
        commands.append(f"SET large:{key % 100} {'w' * draw.randint(60_000, 600_000)}")
# In the server's own protocol: a command typed as a line ends at 64 KiB.
resp = lambda words: f"*{len(words)}\r\n" + "".join(f"${len(word)}\r\n{word}\r\n" for word in words)
write("redis.txt", "".join(resp(command.split(" ")) for command in commands))
# Waits for the server, loads it, prints a digest of its data, and ends it.
write("redis-load.sh", "until redis-cli -s \"$1\" ping >/dev/null; do sleep 0.01; done\n"
      "redis-cli -s \"$1\" --pipe <redis.txt >/dev/null\n"
      "redis-benchmark -s \"$1\" -q -n 60000 -c 20 -P 8 -d 400 -t set,get,lpush >/dev/null\n"
      "redis-benchmark -s \"$1\" -q -n 2000 -c 8 -d 300000 -t set,get >/dev/null\n"
      "redis-cli -s \"$1\" debug digest\nredis-cli -s \"$1\" dbsize\nredis-cli -s \"$1\" shutdown nosave >/dev/null\n")
