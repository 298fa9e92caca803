#!/usr/bin/env python3
"""Writes the inputs of the real programs that are measured, the same bytes each time: record/inputs.py DIR."""
import json, os, random, sys

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
write("lines.txt", "\n".join(" ".join(draw.choices(words, k=8)) for _ in range(1_200_000)) + "\n")
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
