// SPDX-License-Identifier: MIT OR Apache-2.0
/* What the guest's programs share; lab.h says what for. */
#define _GNU_SOURCE
#include "lab.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define COUNTERS 512

struct counters {
	char text[32768];
	const char *names[COUNTERS];
	unsigned long values[COUNTERS];
	int count;
};

static struct counters before, after;
static char title[256];
static uint64_t begin_ns;

void fail(const char *what)
{
	printf("failed %s: %s\n", what, strerror(errno));
	fflush(stdout);
	exit(1);
}

const char *word(int argc, char **argv, const char *name)
{
	size_t len = strlen(name);

	for (int i = 1; i < argc; i++)
		if (!strncmp(argv[i], name, len) && argv[i][len] == '=')
			return argv[i] + len + 1;
	return NULL;
}

long argument(int argc, char **argv, const char *name, long otherwise)
{
	const char *value = word(argc, argv, name);

	return value ? atol(value) : otherwise;
}

static size_t read_file(const char *path, char *text, size_t room)
{
	int file = open(path, O_RDONLY);
	size_t len = 0;
	ssize_t got;

	if (file < 0)
		return 0;
	while (len < room - 1 && (got = read(file, text + len, room - 1 - len)) > 0)
		len += (size_t)got;
	close(file);
	text[len] = 0;
	return len;
}

long read_number(const char *path)
{
	char text[64];

	return read_file(path, text, sizeof(text)) ? atol(text) : -1;
}

void write_text(const char *path, const char *text)
{
	int file = open(path, O_WRONLY);

	if (file < 0 || write(file, text, strlen(text)) < 0)
		printf("absent %s\n", path);
	if (file >= 0)
		close(file);
}

static void read_counters(struct counters *into)
{
	char *next = into->text;

	into->count = 0;
	if (!read_file("/proc/vmstat", into->text, sizeof(into->text)))
		fail("/proc/vmstat");
	while (*next && into->count < COUNTERS) {
		char *blank = strchr(next, ' ');

		if (!blank)
			break;
		*blank = 0;
		into->names[into->count] = next;
		into->values[into->count++] = strtoul(blank + 1, &next, 10);
		while (*next == '\n')
			next++;
	}
}

static unsigned long value_of(const struct counters *in, const char *name)
{
	for (int i = 0; i < in->count; i++)
		if (!strcmp(in->names[i], name))
			return in->values[i];
	return 0;
}

unsigned long counter(const char *name)
{
	static struct counters now;

	read_counters(&now);
	return value_of(&now, name);
}

uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000ull + (uint64_t)now.tv_nsec;
}

void sleep_ms(long ms)
{
	struct timespec time = { ms / 1000, ms % 1000 * 1000000 };

	while (nanosleep(&time, &time) && errno == EINTR)
		;
}

void cell_begin(int argc, char **argv)
{
	const char *name = strrchr(argv[0], '/');
	size_t len;

	snprintf(title, sizeof(title), "%s", name ? name + 1 : argv[0]);
	for (int i = 1; i < argc; i++) {
		len = strlen(title);
		snprintf(title + len, sizeof(title) - len, " %s", argv[i]);
	}
	read_counters(&after); /* its pages are there from now on */
	read_counters(&before);
	begin_ns = now_ns();
	mark(MARK_BEGIN);
}

/* The counters that a table may need; all of them would be long. */
static bool is_shown(const char *name)
{
	static const char *const shown[] = {
		"pgfault", "pgmajfault", "pgfree", "pgreuse", "thp_fault_alloc",
		"thp_fault_fallback", "thp_split_page", "compact_stall", "compact_success",
		"htlb_buddy_alloc_success", "pgscan_direct", "pgmigrate_success", "allocstall_normal",
	};

	for (size_t i = 0; i < sizeof(shown) / sizeof(*shown); i++)
		if (!strcmp(name, shown[i]))
			return true;
	/* The patch's own. */
	return !strncmp(name, "zero_", 5) || !strncmp(name, "scrub_", 6) ||
	       !strcmp(name, "nr_free_zeroed");
}

void cell_end(unsigned long pages)
{
	uint64_t end_ns;

	mark(MARK_END);
	end_ns = now_ns();
	read_counters(&after);
	printf("cell %s : pages=%lu page_bytes=%zu virtual_ns=%llu", title, pages, page_bytes(),
	       (unsigned long long)(end_ns - begin_ns));
	for (int i = 0; i < after.count; i++) {
		unsigned long was = value_of(&before, after.names[i]);

		if (is_shown(after.names[i]) && after.values[i] != was)
			printf(" %s=%ld", after.names[i], (long)(after.values[i] - was));
	}
	printf("\n");
	fflush(stdout);
}

size_t page_bytes(void)
{
	return (size_t)sysconf(_SC_PAGESIZE);
}

char *map(size_t bytes)
{
	char *memory = mmap(NULL, bytes + HUGE_BYTES, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	size_t ahead;

	if (memory == MAP_FAILED)
		fail("mmap");
	ahead = -(uintptr_t)memory & (HUGE_BYTES - 1);
	if (ahead)
		munmap(memory, ahead);
	munmap(memory + ahead + bytes, HUGE_BYTES - ahead);
	madvise(memory + ahead, bytes, MADV_NOHUGEPAGE);
	return memory + ahead;
}

void unmap(char *memory, size_t bytes)
{
	if (munmap(memory, bytes))
		fail("munmap");
}

void touch(char *memory, size_t bytes, long lines)
{
	size_t page = page_bytes();

	for (size_t at = 0; at < bytes; at += page)
		for (long line = 0; line < lines; line++)
			((volatile char *)memory)[at + (size_t)line * LINE_BYTES] = 1;
}
