// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// Times every page fault of the machine in the kernel, and adds up the times by process.
//
// Runs on software events of each processor, with a period of 1. `fault_begins` runs on page-faults, which the kernel raises
// before it handles a fault; `minor_ends` and `major_ends` run on minor-faults and major-faults, which it raises after that.
// There is no kprobe, no tracepoint, and nothing at a thread switch. All return 0, so that no event writes a sample.
//
// Needs Linux 5.8, CAP_BPF and CAP_PERFMON. `build` in this folder makes the objects.

typedef unsigned int u32;
typedef unsigned long long u64;

// Registers as the kernel gives them to programs of perf events (`bpf_user_pt_regs_t`), and how many there are.
#if defined(AARCH64)
#define REGISTERS 34
// PSTATE: an exception level of 0 is user mode.
#define IN_KERNEL(registers) (((registers)[33] & 0xf) != 0)
#elif defined(X86_64)
#define REGISTERS 21
// CS: a privilege level of 0 is kernel mode.
#define IN_KERNEL(registers) (((registers)[17] & 3) == 0)
#endif

struct bpf_perf_event_data {
	u64 registers[REGISTERS];
	u64 sample_period;
	u64 address;
};

// The loader puts in where the running kernel has these fields: how often the thread gave its processor up, and lost it.
struct task_struct {
	unsigned long nvcsw, nivcsw;
} __attribute__((preserve_access_index));

// Of bpf-helpers(7), by number.
static void *(*const lookup)(void *map, const void *key) = (void *)1;
static long (*const update)(void *map, const void *key, const void *value, u64 flags) = (void *)2;
static u64 (*const now_ns)(void) = (void *)5;
static u32 (*const this_cpu)(void) = (void *)8;
static u64 (*const process_and_thread)(void) = (void *)14;
// Its fields may be read without another call (Linux 5.11).
static struct task_struct *(*const this_task)(void) = (void *)158;

#define INLINE static inline __attribute__((always_inline))
#define SECTION(name) __attribute__((section(name), used))
#define NUMBER(name, value) int(*name)[value]
#define TYPE(name, type) type *name

enum { HASH = 1, PER_CPU_ARRAY = 6 };
enum { ONLY_IF_NEW = 1 };

// The fault that is under way on a processor.
struct under_way {
	u64 begin_ns;
	// How often its thread had been switched out by then.
	u64 switches;
	// 0: none.
	u64 thread;
	// Faults of processes for which `sums` has no room.
	u64 beyond;
};

struct sum {
	u64 faults;
	// Those that had the processor from begin to end, and their time.
	u64 timed;
	u64 ns;
	// Those whose thread was switched out meanwhile, and their time. The others ended on another processor, or a fault of
	// another thread came between.
	u64 switched;
	u64 switched_ns;
};

// Minor faults of user and of kernel mode, major faults of user and of kernel mode.
struct sums {
	struct sum of[4];
};

struct {
	NUMBER(type, PER_CPU_ARRAY);
	NUMBER(max_entries, 1);
	TYPE(key, u32);
	TYPE(value, struct under_way);
} under_way SECTION(".maps");

// By process and processor: no two write the same. The loader sets the size.
struct {
	NUMBER(type, HASH);
	NUMBER(max_entries, 1);
	TYPE(key, u64);
	TYPE(value, struct sums);
} sums SECTION(".maps");

// Whether the loader knows `task_struct`.
volatile const u64 KNOWS_TASKS = 0;

static const u32 FIRST = 0;
static const struct sums NO_SUMS;

INLINE u64 switches(void)
{
	const struct task_struct *task;

	if (!KNOWS_TASKS)
		return 0;
	task = this_task();
	return task->nvcsw + task->nivcsw;
}

SECTION("perf_event") int fault_begins(struct bpf_perf_event_data *context)
{
	struct under_way *fault = lookup(&under_way, &FIRST);

	if (!fault)
		return 0;
	fault->thread = process_and_thread();
	fault->switches = switches();
	fault->begin_ns = now_ns();
	return 0;
}

INLINE struct sums *sums_of(u32 process)
{
	u64 key = (u64)this_cpu() << 32 | process;
	struct sums *found = lookup(&sums, &key);

	if (found)
		return found;
	update(&sums, &key, &NO_SUMS, ONLY_IF_NEW);
	return lookup(&sums, &key);
}

// Adds up a fault that ended at `end_ns`.
INLINE int ends(struct bpf_perf_event_data *context, u64 end_ns, u32 is_major)
{
	u64 task = process_and_thread();
	struct under_way *fault = lookup(&under_way, &FIRST);
	struct sums *of_process = sums_of(task >> 32);
	struct sum *sum;

	if (!fault)
		return 0;
	if (!of_process) {
		fault->beyond++;
		return 0;
	}
	sum = &of_process->of[2 * is_major + IN_KERNEL(context->registers)];
	sum->faults++;
	if (fault->thread != task)
		return 0;
	fault->thread = 0;
	if (fault->switches == switches()) {
		sum->timed++;
		sum->ns += end_ns - fault->begin_ns;
	} else {
		sum->switched++;
		sum->switched_ns += end_ns - fault->begin_ns;
	}
	return 0;
}

SECTION("perf_event") int minor_ends(struct bpf_perf_event_data *context)
{
	return ends(context, now_ns(), 0);
}

SECTION("perf_event") int major_ends(struct bpf_perf_event_data *context)
{
	return ends(context, now_ns(), 1);
}

SECTION("license") const char LICENSE[] = "Dual MIT/GPL";
