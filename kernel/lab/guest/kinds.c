// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * Kinds of faults, one cell each: kind=NAME mib=N.
 *
 * What a kind needs before its faults is prepared before the cell begins.
 */
#define _GNU_SOURCE
#include "lab.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

static int count;
static char **words;
static size_t bytes, page;

static void read_pages(char *memory)
{
	for (size_t at = 0; at < bytes; at += page)
		(void)((volatile char *)memory)[at];
}

/* Writes and laps page by page. */
static void write_pages(char *memory, size_t step)
{
	for (size_t at = 0; at < bytes; at += step) {
		((volatile char *)memory)[at] = 1;
		mark(MARK_LAP);
	}
}

static void measured(char *memory, size_t step, unsigned long pages)
{
	cell_begin(count, words);
	write_pages(memory, step);
	cell_end(pages);
}

static void read_fresh(void)
{
	char *memory = map(bytes);

	cell_begin(count, words);
	read_pages(memory);
	cell_end(bytes / page);
}

static void write_after_read(void)
{
	char *memory = map(bytes);

	read_pages(memory);
	measured(memory, page, bytes / page);
}

static void populate(void)
{
	char *memory = map(bytes);

	cell_begin(count, words);
	if (madvise(memory, bytes, MADV_POPULATE_WRITE))
		fail("MADV_POPULATE_WRITE");
	cell_end(bytes / page);
}

/* A child shares the pages until the pipe is closed. */
static void after_fork(bool child_lives)
{
	char *memory = map(bytes), byte;
	int ends[2];
	pid_t child;

	touch(memory, bytes, 1);
	if (pipe(ends))
		fail("pipe");
	child = fork();
	if (child < 0)
		fail("fork");
	if (!child) {
		close(ends[1]);
		_exit(read(ends[0], &byte, 1) != 0);
	}
	if (!child_lives) {
		close(ends[1]);
		waitpid(child, NULL, 0);
	}
	measured(memory, page, bytes / page);
	if (child_lives) {
		close(ends[1]);
		waitpid(child, NULL, 0);
	}
}

static void copy_on_write(void)
{
	after_fork(true);
}

static void reuse(void)
{
	after_fork(false);
}

static void fork_itself(void)
{
	char *memory = map(bytes);
	pid_t child;

	touch(memory, bytes, 1);
	cell_begin(count, words);
	child = fork();
	if (!child)
		_exit(0);
	waitpid(child, NULL, 0);
	cell_end(bytes / page);
}

static void shared(void)
{
	char *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	if (memory == MAP_FAILED)
		fail("mmap");
	measured(memory, page, bytes / page);
}

static void tmpfs_write(void)
{
	static char text[65536];
	int file = open("/tmp/file", O_CREAT | O_RDWR | O_TRUNC, 0600);

	if (file < 0)
		fail("/tmp/file");
	memset(text, 1, sizeof(text));
	cell_begin(count, words);
	for (size_t at = 0; at < bytes; at += sizeof(text))
		if (write(file, text, sizeof(text)) != sizeof(text))
			fail("write");
	cell_end(bytes / page);
	close(file);
	unlink("/tmp/file");
}

/* One page of each 2 MiB: a page of data and a page of the page table. */
static void page_tables(void)
{
	size_t regions = bytes / page / 2;
	char *memory = mmap(NULL, regions * HUGE_BYTES, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (memory == MAP_FAILED)
		fail("mmap");
	madvise(memory, regions * HUGE_BYTES, MADV_NOHUGEPAGE);
	cell_begin(count, words);
	for (size_t i = 0; i < regions; i++) {
		((volatile char *)memory)[i * HUGE_BYTES] = 1;
		mark(MARK_LAP);
	}
	cell_end(regions);
}

static void huge(void)
{
	char *memory = map(bytes);

	if (madvise(memory, bytes, MADV_HUGEPAGE))
		fail("MADV_HUGEPAGE");
	measured(memory, HUGE_BYTES, bytes / page);
}

static void middle(void)
{
	const char *enabled = "/sys/kernel/mm/transparent_hugepage/hugepages-64kB/enabled";
	char *memory;

	if (access(enabled, W_OK)) { /* before 6.8 */
		printf("absent %s\n", enabled);
		return;
	}
	write_text(enabled, "madvise");
	write_text("/sys/kernel/mm/transparent_hugepage/hugepages-2048kB/enabled", "never");
	memory = map(bytes);
	madvise(memory, bytes, MADV_HUGEPAGE);
	measured(memory, 64 << 10, bytes / page);
	write_text(enabled, "never");
	write_text("/sys/kernel/mm/transparent_hugepage/hugepages-2048kB/enabled", "inherit");
}

static void hugetlb(void)
{
	char text[32], *memory;

	snprintf(text, sizeof(text), "%zu", bytes / HUGE_BYTES);
	write_text("/proc/sys/vm/nr_hugepages", text);
	sleep_ms(2000);
	memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB,
		      -1, 0);
	if (memory == MAP_FAILED)
		fail("MAP_HUGETLB");
	measured(memory, HUGE_BYTES, bytes / page);
	munmap(memory, bytes);
	write_text("/proc/sys/vm/nr_hugepages", "0");
}

static void release(void)
{
	char *memory = map(bytes);

	touch(memory, bytes, 1);
	cell_begin(count, words);
	unmap(memory, bytes);
	cell_end(bytes / page);
}

static const struct {
	const char *name;
	void (*run)(void);
} kinds[] = {
	{ "zero-page", read_fresh },
	{ "write-after-read", write_after_read },
	{ "populate", populate },
	{ "copy-on-write", copy_on_write },
	{ "reuse", reuse },
	{ "fork", fork_itself },
	{ "shmem", shared },
	{ "tmpfs-write", tmpfs_write },
	{ "page-tables", page_tables },
	{ "thp", huge },
	{ "mthp-64k", middle },
	{ "hugetlb", hugetlb },
	{ "munmap", release },
};

int main(int argc, char **argv)
{
	const char *kind = word(argc, argv, "kind");

	count = argc;
	words = argv;
	page = page_bytes();
	bytes = (size_t)argument(argc, argv, "mib", 32) * MIB;
	for (size_t i = 0; kind && i < sizeof(kinds) / sizeof(*kinds); i++)
		if (!strcmp(kind, kinds[i].name)) {
			kinds[i].run();
			return 0;
		}
	fail("kind");
}
