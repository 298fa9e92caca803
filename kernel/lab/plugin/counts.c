// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * A TCG plugin: instructions, cleared and copied bytes, and cache misses by
 * kernel function, for the sections that the guest marks.
 *
 * In: map=System.map,out=FILE,cpus=N[,llc=KIB]. Out: FILE, CSV.
 *
 * An instruction belongs to one class. `clear` is an iteration of `rep stos` in
 * a function clear_*, which clears pages. `string` is an iteration of any other
 * `rep stos` or `rep movs`, which set small structures or copy. TCG runs an
 * iteration as an instruction, so their number says nothing about time. Their
 * bytes are counted instead. All else is `path`. Instructions below the kernel's
 * half of the addresses belong to the function [user].
 *
 * The guest marks with a NOP that no compiler writes: lab.h has the list. The
 * cache is simulated from the first ARM on, so that the boot takes no time.
 * The clock of -icount counts every instruction; nothing here changes it.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cache.h"
#include "qemu-plugin-v1.h"
#include "symbols.h"

#include "../guest/marks.h"

/*
 * QEMU looks for these two. Everything else is hidden (-fvisibility=hidden):
 * QEMU has functions of the same names, such as cache_init().
 */
#define EXPORTED __attribute__((visibility("default")))

EXPORTED int qemu_plugin_version = 1;

enum class { PATH, CLEAR, STRING, CLASSES };

/* What one class of instructions of one function did. */
struct site {
	uint64_t count;
	uint64_t bytes;
	uint64_t misses[4]; /* by the deepest level that missed */
	enum class class;
};

struct lap {
	uint64_t path, clear_bytes, misses;
};

static struct symbol *symbols;
static long symbol_count;
/* [user], [unknown], then one row of CLASSES for each function. */
static struct site *sites, *at_begin, *sum;
static size_t site_count;
/* Sums over all sites, for laps. */
static uint64_t path_total, clear_bytes_total, miss_total;

static FILE *out;
static bool is_armed, is_counting;
static unsigned int section;
static struct lap *laps, last_lap;
/* What happened while a section was paused: unmapping, and work in idle time. */
static struct lap paused, pause_begin;
static bool is_paused;
static size_t lap_count, lap_room;

/* The last line of each CPU: a hit in L1 without a look-up. */
static struct {
	uint64_t line;
	bool stored;
} last[MAX_CPUS];
static unsigned int cpu_count;

#define KERNEL_HALF 0x8000000000000000ull

static size_t function_of(uint64_t address)
{
	long index;

	if (address < KERNEL_HALF)
		return 0;
	index = symbols_find(symbols, symbol_count, address);
	return index < 0 ? 1 : (size_t)index + 2;
}

static const char *name_of(size_t function)
{
	if (function < 2)
		return function ? "[unknown]" : "[user]";
	return symbols[function - 2].name;
}

static void on_memory(unsigned int cpu, qemu_plugin_meminfo_t info, uint64_t vaddr, void *data)
{
	struct site *site = data;
	bool store = qemu_plugin_mem_is_store(info);
	uint64_t line = vaddr >> LINE_SHIFT;
	struct qemu_plugin_hwaddr *address;
	int level;

	if (!is_armed || cpu >= cpu_count)
		return;
	if (store && site->class != PATH) {
		site->bytes += 1ull << qemu_plugin_mem_size_shift(info);
		if (site->class == CLEAR)
			clear_bytes_total += 1ull << qemu_plugin_mem_size_shift(info);
	}
	if (last[cpu].line == line && (last[cpu].stored || !store))
		return;
	last[cpu].line = line;
	last[cpu].stored = store;
	address = qemu_plugin_get_hwaddr(info, vaddr);
	if (!address || qemu_plugin_hwaddr_is_io(address))
		return;
	line = qemu_plugin_hwaddr_phys_addr(address) >> LINE_SHIFT;
	level = cache_access(cpu, line, store);
	if (level == HIT_L1)
		return;
	site->misses[level]++;
	if (level == MISS_LLC)
		miss_total++;
	/* Another CPU's last line may just have been taken from it. */
	for (unsigned int other = 0; store && other < cpu_count; other++)
		if (other != cpu)
			last[other].line = UINT64_MAX;
}

static void counting_from_here(void)
{
	memcpy(at_begin, sites, site_count * sizeof(*sites));
	last_lap = (struct lap){ path_total, clear_bytes_total, miss_total };
	is_counting = true;
}

static void counting_to_here(void)
{
	if (!is_counting)
		return;
	is_counting = false;
	for (size_t i = 0; i < site_count; i++) {
		sum[i].count += sites[i].count - at_begin[i].count;
		sum[i].bytes += sites[i].bytes - at_begin[i].bytes;
		for (int level = MISS_L1; level <= MISS_LLC; level++)
			sum[i].misses[level] += sites[i].misses[level] - at_begin[i].misses[level];
	}
}

static int by_path(const void *a, const void *b)
{
	const struct lap *x = a, *y = b;

	return (x->path > y->path) - (x->path < y->path);
}

static int by_bytes(const void *a, const void *b)
{
	const struct lap *x = a, *y = b;

	return (x->clear_bytes > y->clear_bytes) - (x->clear_bytes < y->clear_bytes);
}

static int by_misses(const void *a, const void *b)
{
	const struct lap *x = a, *y = b;

	return (x->misses > y->misses) - (x->misses < y->misses);
}

static void write_laps(void)
{
	static const unsigned int at[] = { 50, 90, 99, 100 };
	static int (*const order[])(const void *, const void *) = { by_path, by_bytes, by_misses };

	for (int what = 0; what < 3 && lap_count; what++) {
		qsort(laps, lap_count, sizeof(*laps), order[what]);
		fprintf(out, "laps,%u,%s,%zu", section,
			what == 0 ? "path" : what == 1 ? "clear_bytes" : "llc_misses", lap_count);
		for (unsigned int i = 0; i < 4; i++) {
			const struct lap *lap = &laps[(lap_count - 1) * at[i] / 100];

			fprintf(out, ",%llu",
				(unsigned long long)(what == 0	? lap->path
						     : what == 1 ? lap->clear_bytes
								 : lap->misses));
		}
		fprintf(out, "\n");
	}
}

static void write_section(void)
{
	for (size_t function = 0; function < site_count / CLASSES; function++) {
		struct site *of = sum + function * CLASSES;

		if (!of[PATH].count && !of[CLEAR].count && !of[STRING].count)
			continue;
		fprintf(out, "function,%u,%s,%llu,%llu,%llu,%llu", section, name_of(function),
			(unsigned long long)of[PATH].count, (unsigned long long)of[CLEAR].bytes,
			(unsigned long long)of[STRING].bytes,
			(unsigned long long)(of[CLEAR].count + of[STRING].count));
		/* A miss of the last level missed the two before it too. */
		for (int class = PATH; class < CLASSES; class++)
			fprintf(out, ",%llu,%llu,%llu",
				(unsigned long long)(of[class].misses[MISS_L1] +
						     of[class].misses[MISS_L2] +
						     of[class].misses[MISS_LLC]),
				(unsigned long long)(of[class].misses[MISS_L2] +
						     of[class].misses[MISS_LLC]),
				(unsigned long long)of[class].misses[MISS_LLC]);
		fprintf(out, "\n");
	}
	write_laps();
	fprintf(out, "paused,%u,all,%llu,%llu,%llu\n", section, (unsigned long long)paused.path,
		(unsigned long long)paused.clear_bytes, (unsigned long long)paused.misses);
	fprintf(out, "end,%u\n", section);
	fflush(out);
}

static struct lap totals(void)
{
	return (struct lap){ path_total, clear_bytes_total, miss_total };
}

static void pause_begins(void)
{
	counting_to_here();
	pause_begin = totals();
	is_paused = true;
}

static void pause_ends(void)
{
	struct lap now = totals();

	if (is_paused) {
		paused.path += now.path - pause_begin.path;
		paused.clear_bytes += now.clear_bytes - pause_begin.clear_bytes;
		paused.misses += now.misses - pause_begin.misses;
	}
	is_paused = false;
	counting_from_here();
}

static void lap_ends(void)
{
	struct lap now = totals();

	if (!is_counting)
		return;
	if (lap_count == lap_room) {
		size_t room = lap_room ? lap_room * 2 : 1 << 16;
		struct lap *more = realloc(laps, room * sizeof(*laps));

		if (!more)
			return;
		laps = more;
		lap_room = room;
	}
	laps[lap_count++] = (struct lap){ now.path - last_lap.path,
					  now.clear_bytes - last_lap.clear_bytes,
					  now.misses - last_lap.misses };
	last_lap = now;
}

static void forget_last_lines(void)
{
	for (unsigned int cpu = 0; cpu < MAX_CPUS; cpu++)
		last[cpu].line = UINT64_MAX;
}

static void on_mark(unsigned int cpu, void *data)
{
	(void)cpu;
	switch ((uintptr_t)data) {
	case MARK_ARM:
		is_armed = true;
		break;
	case MARK_BEGIN:
		section++;
		memset(sum, 0, site_count * sizeof(*sum));
		lap_count = 0;
		paused = (struct lap){ 0 };
		is_paused = false;
		counting_from_here();
		break;
	case MARK_PAUSE:
		pause_begins();
		break;
	case MARK_RESUME:
		pause_ends();
		break;
	case MARK_LAP:
		lap_ends();
		break;
	case MARK_END:
		counting_to_here();
		write_section();
		break;
	case MARK_FLUSH:
		cache_empty();
		forget_last_lines();
		break;
	}
}

static bool clears_pages(const char *function)
{
	return !strncmp(function, "clear_", 6);
}

/* REP and the string instruction's opcode, behind prefixes. */
static enum class class_of(const uint8_t *bytes, size_t len, const char *function)
{
	bool repeats = false;

	for (size_t i = 0; i < len; i++) {
		uint8_t byte = bytes[i];

		if (byte == 0xf3)
			repeats = true;
		else if (byte == 0xaa || byte == 0xab)
			return !repeats ? PATH : clears_pages(function) ? CLEAR : STRING;
		else if (byte == 0xa4 || byte == 0xa5)
			return repeats ? STRING : PATH;
		else if (byte != 0x66 && (byte & 0xf0) != 0x40)
			return PATH;
	}
	return PATH;
}

static void on_translation(qemu_plugin_id_t id, struct qemu_plugin_tb *tb)
{
	static const uint8_t mark[] = { MARK_BYTES };

	(void)id;
	for (size_t i = 0; i < qemu_plugin_tb_n_insns(tb); i++) {
		struct qemu_plugin_insn *insn = qemu_plugin_tb_get_insn(tb, i);
		const uint8_t *bytes = qemu_plugin_insn_data(insn);
		size_t len = qemu_plugin_insn_size(insn);
		size_t function = function_of(qemu_plugin_insn_vaddr(insn));
		enum class class = class_of(bytes, len, name_of(function));
		struct site *site = sites + function * CLASSES + class;

		qemu_plugin_register_vcpu_insn_exec_inline(insn, QEMU_PLUGIN_INLINE_ADD_U64,
							   &site->count, 1);
		if (class == PATH)
			qemu_plugin_register_vcpu_insn_exec_inline(
				insn, QEMU_PLUGIN_INLINE_ADD_U64, &path_total, 1);
		qemu_plugin_register_vcpu_mem_cb(insn, on_memory, QEMU_PLUGIN_CB_NO_REGS,
						 QEMU_PLUGIN_MEM_RW, site);
		if (len == sizeof(mark) + 1 && !memcmp(bytes, mark, sizeof(mark)))
			qemu_plugin_register_vcpu_insn_exec_cb(insn, on_mark, QEMU_PLUGIN_CB_NO_REGS,
							       (void *)(uintptr_t)bytes[len - 1]);
	}
}

static void on_exit_of_qemu(qemu_plugin_id_t id, void *data)
{
	(void)id;
	(void)data;
	fprintf(out, "sections,%u\n", section);
	fclose(out);
}

static int refuse(const char *what, const char *why)
{
	fprintf(stderr, "counts: %s: %s\n", what, why);
	return -1;
}

EXPORTED int qemu_plugin_install(qemu_plugin_id_t id, const qemu_info_t *info, int argc, char **argv)
{
	const char *map = NULL, *file = NULL;
	unsigned int llc_kib = 8192;

	for (int i = 0; i < argc; i++) {
		char *value = strchr(argv[i], '=');

		if (!value)
			return refuse(argv[i], "expected NAME=VALUE");
		*value++ = 0;
		if (!strcmp(argv[i], "map"))
			map = value;
		else if (!strcmp(argv[i], "out"))
			file = value;
		else if (!strcmp(argv[i], "cpus"))
			cpu_count = (unsigned int)atoi(value);
		else if (!strcmp(argv[i], "llc"))
			llc_kib = (unsigned int)atoi(value);
		else
			return refuse(argv[i], "takes map, out, cpus and llc");
	}
	if (!map || !file)
		return refuse(map ? "out" : "map", "is missing");
	if (!info->system_emulation)
		return refuse(info->target_name, "needs a whole machine");
	/* QEMU 7.2 loads plugins before it knows -smp, so info does not say. */
	if (cpu_count < 1 || cpu_count > MAX_CPUS)
		return refuse("cpus", "takes 1 to 64, as -smp has");
	symbol_count = symbols_read(map, &symbols);
	if (symbol_count <= 0)
		return refuse(map, "is no System.map");
	if (cache_init(cpu_count, llc_kib))
		return refuse("llc", "takes a power of two, in KiB");
	site_count = ((size_t)symbol_count + 2) * CLASSES;
	sites = calloc(site_count, sizeof(*sites));
	at_begin = calloc(site_count, sizeof(*sites));
	sum = calloc(site_count, sizeof(*sites));
	if (!sites || !at_begin || !sum)
		return refuse(map, "no memory for its functions");
	for (size_t i = 0; i < site_count; i++)
		sites[i].class = (enum class)(i % CLASSES);
	forget_last_lines();
	out = fopen(file, "w");
	if (!out)
		return refuse(file, "cannot be written");
	fprintf(out, "cache,%s\n", cache_text());
	qemu_plugin_register_vcpu_tb_trans_cb(id, on_translation);
	qemu_plugin_register_atexit_cb(id, on_exit_of_qemu, NULL);
	return 0;
}
