"""Counts the page faults of a = b + c * d on 40 MiB arrays, with NumPy's own memory and with the pool.

glibc maps blocks of more than 32 MiB anew each time, so without the pool every round faults."""

import resource

import faultless
import numpy as np


def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt


def work(rounds=20, count=5 << 20):
    b, c, d = (np.full(count, value) for value in (1.0, 2.0, 3.0))
    before = faults()
    for _ in range(rounds):
        a = b + c * d
    return a.sum(), faults() - before


expected, own = work()
with faultless.numpy_pool():
    total, pooled = work()
assert total == expected
print(f"NumPy's own memory: {own:7} faults")
print(f"the pool:           {pooled:7} faults")
