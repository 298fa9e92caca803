// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * The document's page-fault test: Gb, Rep, Threads, CLine.
 *
 *   mib=N threads=N lines=N rep=N cache=empty
 *
 * The threads share `mib` of fresh memory and write to the first `lines` cache
 * lines of each page. Unmapping between repetitions is not counted. With
 * cache=empty the simulated caches are emptied before the first touch.
 */
#define _GNU_SOURCE
#include "lab.h"

#include <pthread.h>
#include <string.h>

static pthread_barrier_t barrier;
static long threads, lines, rep;
static char *memory;
static size_t bytes;

static void *toucher(void *data)
{
	size_t share = bytes / (size_t)threads;

	for (long round = 0; round < rep; round++) {
		pthread_barrier_wait(&barrier);
		touch(memory + share * (uintptr_t)data, share, lines);
		pthread_barrier_wait(&barrier);
	}
	return NULL;
}

static void touch_alone(void)
{
	size_t page = page_bytes();

	for (size_t at = 0; at < bytes; at += page) {
		touch(memory + at, page, lines);
		mark(MARK_LAP);
	}
}

static void touch_together(void)
{
	pthread_barrier_wait(&barrier);
	pthread_barrier_wait(&barrier);
}

int main(int argc, char **argv)
{
	const char *cache = word(argc, argv, "cache");
	pthread_t ids[64];

	bytes = (size_t)argument(argc, argv, "mib", 64) * MIB;
	threads = argument(argc, argv, "threads", 1);
	lines = argument(argc, argv, "lines", 1);
	rep = argument(argc, argv, "rep", 1);
	if (threads > 1)
		pthread_barrier_init(&barrier, NULL, (unsigned int)threads + 1);
	memory = map(bytes);
	for (long i = 0; threads > 1 && i < threads; i++)
		if (pthread_create(&ids[i], NULL, toucher, (void *)i))
			fail("pthread_create");
	if (threads > 1)
		sleep_ms(10);
	cell_begin(argc, argv);
	if (cache && !strcmp(cache, "empty"))
		mark(MARK_FLUSH);
	for (long round = 0; round < rep; round++) {
		if (round) {
			mark(MARK_PAUSE);
			unmap(memory, bytes);
			memory = map(bytes);
			mark(MARK_RESUME);
		}
		if (threads > 1)
			touch_together();
		else
			touch_alone();
	}
	cell_end(bytes / page_bytes() * (size_t)rep);
	for (long i = 0; threads > 1 && i < threads; i++)
		pthread_join(ids[i], NULL);
	return 0;
}
