/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A simulated data cache: L1 and L2 per virtual CPU, one last level for all.
 *
 * In: physical addresses. Out: the level that had to be asked.
 * LRU, write-allocate, filled at every level. A store removes the line from
 * the private caches of the other CPUs. No prefetcher, no instruction fetch,
 * no page-table walks.
 */
#ifndef CACHE_H
#define CACHE_H

#include <stdbool.h>
#include <stdint.h>

#define LINE_SHIFT 6
#define MAX_CPUS 64

/* The deepest level that missed. */
enum { HIT_L1, MISS_L1, MISS_L2, MISS_LLC };

int cache_init(unsigned int cpus, unsigned int llc_kib);
/* Forgets all lines. */
void cache_empty(void);
int cache_access(unsigned int cpu, uint64_t line, bool store);
const char *cache_text(void);

#endif
