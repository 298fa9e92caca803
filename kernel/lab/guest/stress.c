// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * Stress for zeroed memory: threads make and drop memory of all kinds and
 * check every fresh page whole. Prints the state now and then, and one line:
 *
 *   stress pages=N nonzero=N lost=N hits=N misses=N waste=N scrubbed=N ... seconds=N
 *
 * nonzero: fresh pages with other data. lost: used pages with other data than
 * was written to them, by which memory shows that was zeroed while in use.
 *
 * Arguments, NAME=VALUE: pages (check so many, 2000000), threads (4),
 * seconds (at most so long, 3600), start and stop (vm.scrub_*, left alone),
 * toggle (change settings of the kernel meanwhile, 0), offline (memory blocks
 * too, 0), poison (inject memory errors, 0), swap (MiB of zram, 0), gigantic
 * (pages of 1 GiB from alloc_contig_range(), 0). Those that change settings are
 * for a guest: they leave the settings changed.
 *
 * Does not check memory that another user may legally have filled: copies,
 * memory after MADV_FREE. As PID 1 it mounts what it needs, reads its arguments
 * from the kernel command line after "--", and ends the machine.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/stat.h>
#include <sys/swap.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#ifndef MADV_HWPOISON
#define MADV_HWPOISON 100
#endif
#ifndef MADV_SOFT_OFFLINE
#define MADV_SOFT_OFFLINE 101
#endif
#ifndef MADV_PAGEOUT
#define MADV_PAGEOUT 21
#endif

#define MIB (1ul << 20)
#define HUGE_BYTES (2 * MIB)
#define GIB (1024 * MIB)
#define HUGETLB_PAGES 8
#define MOST_THREADS 64
#define SHOWN 20
#define MAGIC 0x5ca1ab1e0ddba11ul

static struct {
	const char *name, *shown;
	long before;
} counters[] = {
	{ "zero_hit", "hits", 0 },		{ "zero_miss", "misses", 0 },
	{ "zero_waste", "waste", 0 },		{ "zero_scrubbed", "scrubbed", 0 },
	{ "pswpout", "swapped", 0 },		{ "pgmigrate_success", "migrated", 0 },
	{ "thp_fault_alloc", "thp", 0 },	{ "thp_split_page", "thp_splits", 0 },
	{ "pgscan_kswapd", "kswapd_scanned", 0 },
};
#define COUNTERS (sizeof(counters) / sizeof(*counters))

static size_t page;
static size_t budget; /* bytes that one thread may hold */
static atomic_ulong checked, nonzero, lost, rounds;
static atomic_bool done;
static unsigned long goal;
static long swap_mib;
static time_t deadline;

struct worker {
	pthread_t thread;
	uint64_t seed;
};

static uint64_t pick(struct worker *w, uint64_t below)
{
	w->seed ^= w->seed << 13;
	w->seed ^= w->seed >> 7;
	w->seed ^= w->seed << 17;
	return w->seed % below;
}

static bool write_text(const char *text, const char *format, ...)
{
	char path[128];
	va_list list;
	bool ok;
	int file;

	va_start(list, format);
	vsnprintf(path, sizeof(path), format, list);
	va_end(list);
	file = open(path, O_WRONLY);
	if (file < 0)
		return false;
	ok = write(file, text, strlen(text)) == (ssize_t)strlen(text);
	close(file);
	return ok;
}

static long named_number(const char *path, const char *name)
{
	char key[64];
	long value, found = 0;
	FILE *file = fopen(path, "r");

	if (!file)
		return 0;
	while (fscanf(file, "%63s %ld%*[^\n]", key, &value) == 2)
		if (!strcmp(key, name))
			found = value;
	fclose(file);
	return found;
}

static void show(const char *what, const unsigned long *at, size_t word)
{
	if (atomic_load(&nonzero) < SHOWN)
		printf("stress bad: %s, page %p, word %zu, value %#lx\n", what, (const void *)at, word, at[word]);
	fflush(stdout);
}

/* Faults a page in for writing, changes nothing, and checks it whole. */
static void check_page(char *at, const char *what)
{
	unsigned long *words = (unsigned long *)at;
	unsigned long any = 0, count;

	__atomic_fetch_or(at, 0, __ATOMIC_RELAXED);
	for (size_t i = 0; i < page / sizeof(*words); i++)
		any |= words[i];
	if (any) {
		for (size_t i = 0; i < page / sizeof(*words); i++)
			if (words[i]) {
				show(what, words, i);
				break;
			}
		atomic_fetch_add(&nonzero, 1);
	}
	count = atomic_fetch_add(&checked, 1) + 1;
	if (count >= goal)
		atomic_store(&done, true);
	if (!(count % 500000)) {
		printf("stress so far: pages=%lu nonzero=%lu lost=%lu\n", count, atomic_load(&nonzero), atomic_load(&lost));
		fflush(stdout);
	}
}

/* Checks fresh memory and leaves it dirty: in part, or whole. */
static void check(struct worker *w, char *memory, size_t bytes, const char *what)
{
	bool whole = pick(w, 2);

	for (size_t at = 0; at < bytes; at += page) {
		check_page(memory + at, what);
		if (whole)
			memset(memory + at, 0xa5, page);
		else
			memset(memory + at + page - 64, 0x5a, 64);
	}
}

static char *map(size_t bytes, int flags, int file)
{
	char *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, flags, file, 0);

	return memory == MAP_FAILED ? NULL : memory;
}

static size_t some_bytes(struct worker *w, size_t most_pages)
{
	size_t most = budget / page;

	if (most > most_pages)
		most = most_pages;
	return (pick(w, most) + 1) * page;
}

/* Small and large anonymous memory, dropped in part and used again. */
static void anonymous(struct worker *w, int advice)
{
	size_t bytes = some_bytes(w, advice == MADV_HUGEPAGE ? 4096 : 2048);
	char *memory = map(bytes, MAP_PRIVATE | MAP_ANONYMOUS, -1);
	size_t piece;

	if (!memory)
		return;
	madvise(memory, bytes, advice);
	check(w, memory, bytes, "anonymous");
	for (int i = 0; i < 3; i++) {
		size_t begin = pick(w, bytes / page) * page;
		size_t len = (pick(w, (bytes - begin) / page) + 1) * page;

		madvise(memory + begin, len, MADV_DONTNEED);
		check(w, memory + begin, len, "dropped");
	}
	/* Every other piece first: splits of huge pages, blocks of all orders. */
	piece = (pick(w, 64) + 1) * page;
	for (size_t odd = 0; odd < 2; odd++)
		for (size_t at = odd * piece; at < bytes; at += 2 * piece)
			munmap(memory + at, bytes - at < piece ? bytes - at : piece);
}

/* One page per page table. */
static void sparse(struct worker *w)
{
	size_t bytes = 256 * HUGE_BYTES;
	char *memory = map(bytes, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1);

	if (!memory)
		return;
	madvise(memory, bytes, MADV_NOHUGEPAGE);
	for (size_t at = 0; at < bytes; at += HUGE_BYTES)
		check_page(memory + at + pick(w, 512) * page, "sparse");
	munmap(memory, bytes);
}

static void shared(struct worker *w)
{
	int file = (int)syscall(SYS_memfd_create, "stress", 0);
	size_t bytes = some_bytes(w, 1024), hole;
	char *memory;

	if (file < 0)
		return;
	memory = ftruncate(file, (off_t)bytes) ? NULL : map(bytes, MAP_SHARED, file);
	if (memory) {
		madvise(memory, bytes, pick(w, 2) ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
		/* Pages that fallocate(2) made are cleared later than others. */
		if (pick(w, 2))
			fallocate(file, 0, 0, (off_t)(bytes / 2 / page * page));
		/* A partial write: the kernel must clear the rest. */
		if (pick(w, 2) && pwrite(file, "", 1, (off_t)(bytes - page)) != 1)
			perror("pwrite");
		check(w, memory, bytes, "shared");
		hole = pick(w, bytes / page) * page;
		fallocate(file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)hole, (off_t)(bytes - hole));
		check(w, memory + hole, bytes - hole, "hole");
		munmap(memory, bytes);
	}
	close(file);
}

/* Copies of dirty pages beside fresh ones. */
static void forked(struct worker *w)
{
	size_t bytes = some_bytes(w, 256);
	char *memory = map(2 * bytes, MAP_PRIVATE | MAP_ANONYMOUS, -1);
	unsigned long bad;
	int status = 0;
	pid_t child;

	if (!memory)
		return;
	check(w, memory, bytes, "before fork");
	child = fork();
	if (!child) {
		bad = atomic_load(&nonzero);
		for (size_t at = 0; at < bytes; at += page)
			memory[at] = 1;
		for (size_t at = bytes; at < 2 * bytes; at += page)
			check_page(memory + at, "child");
		_exit(atomic_load(&nonzero) != bad);
	}
	if (child > 0) {
		for (size_t at = 0; at < bytes; at += page)
			memory[at] = 2;
		waitpid(child, &status, 0);
		if (status)
			atomic_fetch_add(&nonzero, 1);
		else
			atomic_fetch_add(&checked, bytes / page);
	}
	munmap(memory, 2 * bytes);
}

static void hugetlb(struct worker *w)
{
	size_t bytes = (pick(w, HUGETLB_PAGES / 2) + 1) * HUGE_BYTES;
	char *memory = map(bytes, MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB, -1);

	if (!memory)
		return;
	check(w, memory, bytes, "hugetlb");
	munmap(memory, bytes);
}

/* Memory that reclaim can take: lazily freed, or swapped. */
static void pressure(struct worker *w)
{
	size_t bytes = some_bytes(w, 16384);
	char *memory = map(bytes, MAP_PRIVATE | MAP_ANONYMOUS, -1);
	int advice = pick(w, 2) ? MADV_FREE : MADV_PAGEOUT;

	if (!memory)
		return;
	check(w, memory, bytes, "pressure");
	madvise(memory, bytes, advice);
	for (size_t at = 0; at < bytes; at += page) {
		char last = ((volatile char *)memory)[at + page - 1];

		/* Zero is right after MADV_FREE only. */
		if (last != (char)0xa5 && last != 0x5a && (last || advice != MADV_FREE)) {
			show("pressure", (unsigned long *)(memory + at), page / 8 - 1);
			atomic_fetch_add(&lost, 1);
		}
	}
	munmap(memory, bytes);
}

static void *work(void *argument)
{
	struct worker *w = argument;

	while (!atomic_load(&done)) {
		switch (pick(w, 10)) {
		case 0 ... 2: anonymous(w, MADV_NOHUGEPAGE); break;
		case 3 ... 4: anonymous(w, MADV_HUGEPAGE); break;
		case 5: shared(w); break;
		case 6: forked(w); break;
		case 7: hugetlb(w); break;
		case 8: sparse(w); break;
		case 9: pressure(w); break;
		}
		atomic_fetch_add(&rounds, 1);
		if (time(NULL) >= deadline)
			atomic_store(&done, true);
	}
	return NULL;
}

/* Changes of settings beside the work. */
static void *toggle(void *argument)
{
	static const char *const thp[] = { "always", "madvise", "never" };
	static const char *const mthp[] = { "always", "inherit", "never" };
	struct worker *w = argument;
	char text[16];

	while (!atomic_load(&done)) {
		switch (pick(w, 7)) {
		case 0: write_text(thp[pick(w, 3)], "/sys/kernel/mm/transparent_hugepage/enabled"); break;
		case 1:
			write_text(mthp[pick(w, 3)], "/sys/kernel/mm/transparent_hugepage/hugepages-%lukB/enabled",
				   16ul << pick(w, 7));
			break;
		case 2: write_text(thp[pick(w, 3)], "/sys/kernel/mm/transparent_hugepage/shmem_enabled"); break;
		case 3: write_text("1", "/proc/sys/vm/compact_memory"); break;
		case 4: write_text("7", "/proc/sys/vm/drop_caches"); break;
		case 5:
			snprintf(text, sizeof(text), "%d", (int)pick(w, HUGETLB_PAGES + 1));
			write_text(text, "/proc/sys/vm/nr_hugepages");
			break;
		case 6:
			snprintf(text, sizeof(text), "%d", (int)pick(w, 10));
			write_text(text, "/proc/sys/vm/scrub_stop");
			snprintf(text, sizeof(text), "%d", (int)pick(w, 12));
			write_text(text, "/proc/sys/vm/scrub_start");
			break;
		}
		usleep(20000);
	}
	return NULL;
}

/* Takes blocks of memory away and gives them back. */
static void *offline(void *argument)
{
	struct worker *w = argument;
	unsigned long taken = 0;

	while (!atomic_load(&done)) {
		int block = (int)pick(w, 64);

		if (write_text("offline", "/sys/devices/system/memory/memory%d/state", block)) {
			taken++;
			usleep(100000);
			write_text("online_movable", "/sys/devices/system/memory/memory%d/state", block);
		}
		usleep(200000);
	}
	printf("stress offlined=%lu\n", taken);
	return NULL;
}

/* Memory errors in used and in free pages. */
static void *poison(void *argument)
{
	struct worker *w = argument;
	int soft = 0, hard = 0, by_address = 0, status;
	pid_t child;

	for (int i = 0; i < 60 && !atomic_load(&done); i++) {
		char *memory = map(page, MAP_PRIVATE | MAP_ANONYMOUS, -1);
		char text[32];

		if (!memory)
			break;
		memory[0] = 1;
		soft += !madvise(memory, page, MADV_SOFT_OFFLINE);
		munmap(memory, page);

		/* Free pages as well: they leave their block. */
		snprintf(text, sizeof(text), "%#lx", (unsigned long)pick(w, 32768) * page + 64 * MIB);
		by_address += write_text(text, "/sys/devices/system/memory/soft_offline_page");
		child = i % 4 ? -1 : fork();
		if (!child) {
			memory = map(page, MAP_PRIVATE | MAP_ANONYMOUS, -1);
			memory[0] = 1;
			_exit(madvise(memory, page, MADV_HWPOISON) ? 1 : 0);
		}
		if (child > 0 && waitpid(child, &status, 0) == child)
			hard += !status || (WIFSIGNALED(status) && WTERMSIG(status) == SIGBUS);
		usleep(100000);
	}
	printf("stress soft=%d soft_by_address=%d hard=%d\n", soft, by_address, hard);
	return NULL;
}

/* Pages of 1 GiB, made from what other threads free or must move away. */
static void *gigantic(void *argument)
{
	static const char pool[] = "/sys/kernel/mm/hugepages/hugepages-1048576kB/nr_hugepages";
	struct worker *w = argument;
	unsigned long made = 0, tried = 0;

	while (!atomic_load(&done)) {
		char *memory;

		tried++;
		write_text("1", pool);
		memory = map(GIB, MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB | 30 << MAP_HUGE_SHIFT, -1);
		if (memory) {
			check(w, memory, GIB, "gigantic");
			munmap(memory, GIB);
			made++;
		}
		write_text("0", pool);
		usleep(500000);
	}
	printf("stress gigantic=%lu of=%lu\n", made, tried);
	return NULL;
}

/* Holds more than the memory that is left, so that others cause reclaim. */
static void *ballast(void *argument)
{
	struct worker *w = argument;
	size_t bytes = (size_t)named_number("/proc/meminfo", "MemAvailable:") * 768 + (size_t)swap_mib * MIB / 2;
	char *memory = map(bytes, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1);
	size_t pages = bytes / page, filled = 0;

	if (!memory)
		return NULL;
	while (!atomic_load(&done)) {
		size_t at = filled < pages ? filled : pick(w, pages);
		unsigned long *first = (unsigned long *)(memory + at * page);
		unsigned long *last = first + page / sizeof(*first) - 1;

		if (filled < pages) {
			*first = at ^ MAGIC;
			*last = ~at;
			filled++;
		} else if (*first != (at ^ MAGIC) || *last != ~at) {
			show("ballast", last, 0);
			atomic_fetch_add(&lost, 1);
		} else {
			/* Others are to fault, not this one. */
			usleep(500);
		}
	}
	munmap(memory, bytes);
	return NULL;
}

/* Turns a zram disk into swap: the header is all that mkswap(8) would write. */
static bool add_swap(long mib)
{
	union {
		char bytes[4096];
		struct {
			char boot[1024];
			uint32_t version, last_page, bad_pages;
		};
	} head = { 0 };
	char text[32];
	int file = open("/dev/zram0", O_WRONLY);
	bool ok;

	if (file < 0)
		return false;
	snprintf(text, sizeof(text), "%ldM", mib);
	ok = write_text(text, "/sys/block/zram0/disksize");
	head.version = 1;
	head.last_page = (uint32_t)((size_t)mib * MIB / page - 1);
	memcpy(head.bytes + sizeof(head.bytes) - 10, "SWAPSPACE2", 10);
	ok = ok && write(file, &head, sizeof(head)) == sizeof(head);
	close(file);
	return ok && !swapon("/dev/zram0", 0);
}

static long argument(int argc, char **argv, const char *name, long otherwise)
{
	size_t len = strlen(name);

	for (int i = 1; i < argc; i++)
		if (!strncmp(argv[i], name, len) && argv[i][len] == '=')
			return atol(argv[i] + len + 1);
	return otherwise;
}

static void set_scrub(int argc, char **argv, const char *name)
{
	long value = argument(argc, argv, name, -1);
	char text[32];

	if (value < 0)
		return;
	snprintf(text, sizeof(text), "%ld", value);
	if (!write_text(text, "/proc/sys/vm/scrub_%s", name))
		printf("stress: scrub_%s refused\n", name);
}

int main(int argc, char **argv)
{
	static const char *const extra[] = { "toggle", "offline", "poison", "swap", "gigantic" };
	static void *(*const body[])(void *) = { toggle, offline, poison, ballast, gigantic };
	static struct worker workers[MOST_THREADS + sizeof(body) / sizeof(*body)];
	long threads, count = 0;
	size_t memory;
	time_t begin;

	if (getpid() == 1) {
		mount("proc", "/proc", "proc", 0, NULL);
		mount("sysfs", "/sys", "sysfs", 0, NULL);
		mount("devtmpfs", "/dev", "devtmpfs", 0, NULL);
	}
	page = (size_t)sysconf(_SC_PAGESIZE);
	goal = (unsigned long)argument(argc, argv, "pages", 2000000);
	threads = argument(argc, argv, "threads", 4);
	if (threads < 1 || threads > MOST_THREADS) {
		printf("stress: threads=%ld: give 1 to %d\n", threads, MOST_THREADS);
		return 2;
	}
	for (size_t i = 0; i < COUNTERS; i++)
		counters[i].before = named_number("/proc/vmstat", counters[i].name);
	begin = time(NULL);
	deadline = begin + argument(argc, argv, "seconds", 3600);
	swap_mib = argument(argc, argv, "swap", 0);
	if (swap_mib && !add_swap(swap_mib)) {
		printf("stress: swap=%ld: no zram disk to swap to: %s\n", swap_mib, strerror(errno));
		return 2;
	}
	set_scrub(argc, argv, "stop");
	set_scrub(argc, argv, "start");
	if (argument(argc, argv, "toggle", 0))
		write_text("8", "/proc/sys/vm/nr_hugepages");
	/* Fork may double what a thread holds; the rest is for everybody else. */
	memory = (size_t)named_number("/proc/meminfo", "MemAvailable:") * 1024;
	if (argument(argc, argv, "gigantic", 0))
		memory = memory > 2 * GIB ? memory - GIB : memory / 2;
	budget = memory * 3 / 4 / (size_t)threads;
	if (swap_mib)
		budget /= 2;

	for (long i = 0; i < threads; i++) {
		workers[count].seed = 0x9e3779b97f4a7c15ull * (uint64_t)(i + 1);
		pthread_create(&workers[count].thread, NULL, work, &workers[count]);
		count++;
	}
	for (size_t i = 0; i < sizeof(body) / sizeof(*body); i++) {
		if (!argument(argc, argv, extra[i], 0))
			continue;
		workers[count].seed = 0xbf58476d1ce4e5b9ull * (i + 1);
		pthread_create(&workers[count].thread, NULL, body[i], &workers[count]);
		count++;
	}
	for (long i = 0; i < count; i++)
		pthread_join(workers[i].thread, NULL);

	printf("stress pages=%lu nonzero=%lu lost=%lu", atomic_load(&checked), atomic_load(&nonzero),
	       atomic_load(&lost));
	for (size_t i = 0; i < COUNTERS; i++)
		printf(" %s=%ld", counters[i].shown, named_number("/proc/vmstat", counters[i].name) - counters[i].before);
	printf(" seconds=%ld rounds=%lu\n", (long)(time(NULL) - begin), atomic_load(&rounds));
	fflush(stdout);
	if (getpid() == 1)
		reboot(RB_POWER_OFF);
	return atomic_load(&nonzero) || atomic_load(&lost) ? 1 : 0;
}
