// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * What a finite stock of zeroed pages meets: test=NAME ...
 *
 *   settle ms=N           idle time; the section holds the scrubber's work
 *   dry mib=N             fault without idle time until memory is nearly used up
 *   burst mib=N rep=N ms=N   bursts of faults with idle time between
 *   hot mib=N rep=N       map, touch and unmap the same little memory
 *   churn mib=N rep=N threads=N   maps of 1 to 2048 pages, in and out
 */
#define _GNU_SOURCE
#include "lab.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sysinfo.h>

static int count;
static char **words;
static size_t page;

static void settle(void)
{
	cell_begin(count, words);
	sleep_ms(argument(count, words, "ms", 5000));
	cell_end(0);
}

static void touch_and_lap(char *memory, size_t bytes)
{
	for (size_t at = 0; at < bytes; at += page) {
		((volatile char *)memory)[at] = 1;
		mark(MARK_LAP);
	}
}

static void dry(void)
{
	size_t bytes = (size_t)argument(count, words, "mib", 512) * MIB;
	char *memory = map(bytes);

	/* Half of it comes back dirty, and there is no time to clear it. */
	touch(memory, bytes / 2, 1);
	unmap(memory, bytes / 2);
	memory = memory + bytes / 2;
	cell_begin(count, words);
	touch_and_lap(memory, bytes / 2);
	cell_end(bytes / 2 / page);
}

static void burst(void)
{
	size_t bytes = (size_t)argument(count, words, "mib", 16) * MIB;
	long rep = argument(count, words, "rep", 8), ms = argument(count, words, "ms", 100);
	char *memory = map(bytes);

	cell_begin(count, words);
	for (long round = 0; round < rep; round++) {
		mark(MARK_PAUSE);
		if (round) {
			unmap(memory, bytes);
			memory = map(bytes);
		}
		sleep_ms(ms);
		mark(MARK_RESUME);
		touch_and_lap(memory, bytes);
	}
	cell_end(bytes / page * (size_t)rep);
}

static void hot(void)
{
	size_t bytes = (size_t)argument(count, words, "kib", 256) << 10;
	long rep = argument(count, words, "rep", 64);

	cell_begin(count, words);
	for (long round = 0; round < rep; round++) {
		char *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
				    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

		if (memory == MAP_FAILED)
			fail("mmap");
		touch(memory, bytes, argument(count, words, "lines", 1));
		munmap(memory, bytes);
	}
	cell_end(bytes / page * (size_t)rep);
}

#define SLOTS 64
#define MOST_PAGES 2048

struct worker {
	pthread_t id;
	uint32_t state;
	long steps;
	size_t room;
	unsigned long touched;
};

static uint32_t next(uint32_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 17;
	return *state ^= *state << 5;
}

static void *churner(void *data)
{
	struct worker *worker = data;
	char *slots[SLOTS] = { 0 };
	size_t lens[SLOTS] = { 0 }, used = 0;

	for (long step = 0; step < worker->steps; step++) {
		uint32_t slot = next(&worker->state) % SLOTS;
		/* As many small as large: the size is a random power, then uniform. */
		size_t pages = 1 + next(&worker->state) % (1u << next(&worker->state) % 12);

		if (slots[slot]) {
			munmap(slots[slot], lens[slot]);
			used -= lens[slot];
			slots[slot] = NULL;
		}
		if (used + pages * page > worker->room)
			continue;
		lens[slot] = pages * page;
		slots[slot] = mmap(NULL, lens[slot], PROT_READ | PROT_WRITE,
				   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		if (slots[slot] == MAP_FAILED)
			fail("mmap");
		touch(slots[slot], lens[slot], 1);
		used += lens[slot];
		worker->touched += pages;
	}
	for (int slot = 0; slot < SLOTS; slot++)
		if (slots[slot])
			munmap(slots[slot], lens[slot]);
	return NULL;
}

static void churn(void)
{
	static struct worker workers[64];
	long threads = argument(count, words, "threads", 2);
	unsigned long touched = 0;

	cell_begin(count, words);
	for (long i = 0; i < threads; i++) {
		workers[i].state = 2463534242u + (uint32_t)i;
		workers[i].steps = argument(count, words, "rep", 200);
		workers[i].room = (size_t)argument(count, words, "mib", 128) * MIB / (size_t)threads;
		if (pthread_create(&workers[i].id, NULL, churner, &workers[i]))
			fail("pthread_create");
	}
	for (long i = 0; i < threads; i++) {
		pthread_join(workers[i].id, NULL);
		touched += workers[i].touched;
	}
	cell_end(touched);
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*run)(void);
	} tests[] = {
		{ "settle", settle }, { "dry", dry },	  { "burst", burst },
		{ "hot", hot },	      { "churn", churn },
	};
	const char *test = word(argc, argv, "test");

	count = argc;
	words = argv;
	page = page_bytes();
	for (size_t i = 0; test && i < sizeof(tests) / sizeof(*tests); i++)
		if (!strcmp(test, tests[i].name)) {
			tests[i].run();
			return 0;
		}
	fail("test");
}
