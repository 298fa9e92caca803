#!/usr/bin/env python3
"""Writes the inputs of the measured programs to DIR, the same bytes each time: bench/inputs.py DIR"""
import json, os, random, sys

PROGRAMS = {
    "parse.py": "import json\ndata = json.load(open('big.json'))\nprint(len(data), sum(r['place']['x'] for r in data))\n",
    "array.py": """import sys
import numpy as np
n = (int(sys.argv[1]) << 20) // 8
b, c, d = np.ones(n), np.arange(n, dtype=float), np.full(n, 2.0)
for _ in range((1 << 29) // n):
    a = b + c * d
print(a.sum(), a[-1])
""",
    "table.sql": """create table t(a integer, b text);
with recursive c(x) as (select 1 union all select x + 1 from c where x < 200000) insert into t select x * 7919 % 200003, hex(x * 104729) from c;
create index i on t(b); select count(*), min(b), max(b) from (select b from t order by b, a desc); select sum(a) from t where b > '8';
""",
    "sum.js": """const rows = JSON.parse(require('fs').readFileSync('big.json'));
let n = 0; for (const r of rows) n += r.tags.join('').length; console.log(rows.length, n);
""",
    "words.cpp": "".join(f"#include <{name}>\n" for name in ("algorithm", "fstream", "iostream", "unordered_map", "vector")) + """
int main() {
  std::ifstream in("lines.txt"); std::unordered_map<std::string, long> count; std::vector<std::string> all; std::string word;
  while (all.size() < 2000000 && in >> word) { count[word]++; all.push_back(word); }
  std::sort(all.begin(), all.end()); std::cout << all.size() << ' ' << count.size() << ' ' << all.front() << ' ' << all.back() << '\\n';
}
""",
}


def function(draw, i):
    body = "\n".join(f"  a[{j}] = (a[{(j * 7 + i) % 64}] * {draw.randint(3, 99)} + b) ^ (a[{(j + i) % 64}] >> {j % 31});" for j in range(64))
    return f"unsigned f{i}(unsigned *a, unsigned b) {{\n  for (unsigned k = 0; k < b; k++) {{\n{body}\n  }}\n  return a[{i % 64}];\n}}\n"


def main(out):
    draw = random.Random(20261121)
    words = ["".join(draw.choices("abcdefghijklmnopqrstuvwxyz", k=draw.randint(2, 10))) for _ in range(5000)]
    records = [{"id": i, "name": " ".join(draw.choices(words, k=4)), "score": draw.random(), "tags": draw.choices(words, k=5),
                "place": {"x": draw.randint(0, 999), "y": draw.randint(0, 999)}} for i in range(150_000)]
    lines = "\n".join(" ".join(draw.choices(words, k=8)) for _ in range(1_200_000)) + "\n"
    functions = "\n".join(function(draw, i) for i in range(40))
    texts = PROGRAMS | {"big.json": json.dumps(records), "lines.txt": lines, "some.txt": lines[:16_000_000], "functions.c": functions}
    os.makedirs(out, exist_ok=True)
    for name, text in texts.items():
        with open(os.path.join(out, name), "w") as file:
            file.write(text)


if __name__ == "__main__":
    if len(sys.argv) != 2 or sys.argv[1].startswith("-"):
        sys.exit(__doc__)
    main(sys.argv[1])
