// SPDX-License-Identifier: MIT OR Apache-2.0
/* A simulated data cache; cache.h says what it models. */
#include "cache.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define L1_KIB 32
#define L1_WAYS 8
#define L2_KIB 1024
#define L2_WAYS 16
#define LLC_WAYS 16

/* Each set holds its lines from the last used to the first used. 0 is empty. */
struct level {
	uint64_t *lines;
	unsigned int sets;
	unsigned int ways;
};

static struct level l1[MAX_CPUS], l2[MAX_CPUS], llc;
static unsigned int cpu_count;
static char text[160];

static int level_init(struct level *level, unsigned int kib, unsigned int ways)
{
	level->ways = ways;
	level->sets = (kib << 10 >> LINE_SHIFT) / ways;
	level->lines = calloc((size_t)level->sets * ways, sizeof(uint64_t));
	return level->lines && level->sets && !(level->sets & (level->sets - 1)) ? 0 : -1;
}

int cache_init(unsigned int cpus, unsigned int llc_kib)
{
	cpu_count = cpus;
	for (unsigned int cpu = 0; cpu < cpus; cpu++)
		if (level_init(&l1[cpu], L1_KIB, L1_WAYS) ||
		    level_init(&l2[cpu], L2_KIB, L2_WAYS))
			return -1;
	snprintf(text, sizeof(text),
		 "L1 %u KiB %u-way and L2 %u KiB %u-way per CPU, LLC %u KiB %u-way, %u-byte lines, LRU",
		 L1_KIB, L1_WAYS, L2_KIB, L2_WAYS, llc_kib, LLC_WAYS, 1u << LINE_SHIFT);
	return level_init(&llc, llc_kib, LLC_WAYS);
}

static void level_empty(struct level *level)
{
	memset(level->lines, 0, (size_t)level->sets * level->ways * sizeof(uint64_t));
}

void cache_empty(void)
{
	for (unsigned int cpu = 0; cpu < cpu_count; cpu++) {
		level_empty(&l1[cpu]);
		level_empty(&l2[cpu]);
	}
	level_empty(&llc);
}

const char *cache_text(void)
{
	return text;
}

/* Whether the line was there. Afterwards it is, as the last used. */
static bool look_up(struct level *level, uint64_t line)
{
	uint64_t *set = level->lines + (line & (level->sets - 1)) * level->ways;
	uint64_t tag = line + 1;
	unsigned int way = 0;
	bool hit;

	while (way < level->ways - 1 && set[way] != tag)
		way++;
	hit = set[way] == tag;
	memmove(set + 1, set, way * sizeof(*set));
	set[0] = tag;
	return hit;
}

static void drop(struct level *level, uint64_t line)
{
	uint64_t *set = level->lines + (line & (level->sets - 1)) * level->ways;

	for (unsigned int way = 0; way < level->ways; way++) {
		if (set[way] != line + 1)
			continue;
		memmove(set + way, set + way + 1, (level->ways - 1 - way) * sizeof(*set));
		set[level->ways - 1] = 0;
		return;
	}
}

int cache_access(unsigned int cpu, uint64_t line, bool store)
{
	for (unsigned int other = 0; store && other < cpu_count; other++)
		if (other != cpu) {
			drop(&l1[other], line);
			drop(&l2[other], line);
		}
	if (look_up(&l1[cpu], line))
		return HIT_L1;
	if (look_up(&l2[cpu], line))
		return MISS_L1;
	return look_up(&llc, line) ? MISS_L2 : MISS_LLC;
}
