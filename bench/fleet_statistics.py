#!/usr/bin/env python3
"""Writes python/faultless_fleet/faultless_fleet/statistics.json, what the synthetic fleet takes from our records.

    bench/fleet_statistics.py            # writes the file
    bench/fleet_statistics.py --check    # status 1 if that would change it

Of `run`: faults per second of CPU time of real programs. Of `check`: ns of a fault by kind and machine, how far runs and
intervals spread. Of `mechanisms`: which mechanisms a program has and their shares.
"""
import json, math, os, sys

from harness import record
from harness.figures import median
from harness.folders import newest
from harness.tables import of

PATH = os.path.join(record.ROOT, "python/faultless_fleet/faultless_fleet/statistics.json")
# Jobs of `run` that do nothing but fault, or end at once: no service is like them.
ARTIFICIAL = {"bursts", "growth", "touch-once", "chunk-pipeline", "git"}
# Expected range of ten values of a normal distribution, in standard deviations.
RANGE_OF_TEN = 3.078


def programs():
    """Program -> faults per second of CPU time, without a cure."""
    folder, found = newest("run")[0], {}
    for name in folder.names(".json.gz"):
        plain = folder.json(name)["commands"][0]
        found[name.split(".")[0]] = plain["faults"]["median"]["value"] / plain["cpu_ns"]["median"]["value"] * 1e9
    return {name: round(rate) for name, rate in sorted(found.items()) if name not in ARTIFICIAL}


def machines():
    """Processor -> kind -> ns, of the programs with one kind of fault; the programs' spreads; the intervals' half widths."""
    prices, spreads, widths = {}, [], []
    for folder in newest("check"):
        document = folder.json("check.json.gz")
        kinds = prices.setdefault(f"{document['host']['cpu']}, {document['host']['cpus']} processors", {})
        for program in document["programs"]:
            if len(program["faults"]) == 1 and program["faults"][0][1]:
                kind, count = program["faults"][0]
                kinds.setdefault(kind, []).append(program["truth_ns"] / count)
            spreads.append(program["spread"])
            widths.append(program["stat"]["half_width"])
    prices = {name: {kind: round(median(values)) for kind, values in sorted(kinds.items())} for name, kinds in sorted(prices.items())}
    return prices, round(math.log(median(spreads)) / RANGE_OF_TEN, 3), round(median(widths), 3)


def mixes():
    """For each program with a mechanism: mechanism -> share of CPU time. Equal mixes stand once."""
    rows, found = newest("mechanisms")[0].rows("mechanisms.csv.gz"), []
    for row in of(rows, round=0):
        mix = {}
        for entry in row["all"].split():
            name, share = entry.rsplit(":", 1)
            mix[name] = round(mix.get(name, 0) + float(share), 3)
        mix = {name: share for name, share in mix.items() if share}
        if mix and mix not in found:
            found.append(mix)
    return found


def main():
    prices, spread, width = machines()
    document = {"faults_per_cpu_s": programs(), "price_ns": prices, "price_log_sd": spread, "half_width": width, "mechanism_shares": mixes()}
    text = json.dumps(document, indent=1) + "\n"
    if "--check" in sys.argv[1:]:
        with open(PATH) as file:
            raise SystemExit(0 if file.read() == text else f"{PATH} is not what the records say: run bench/fleet_statistics.py")
    with open(PATH, "w") as file:
        file.write(text)


if __name__ == "__main__":
    main()
