/* A random program, the same for each seed: fuzzed SEED OPERATIONS PROFILE [silent]
 *
 * It prints a line per operation with all that the C library and the kernel promise, and nothing that may differ between
 * allocators: no address, no time, no exact amount of memory. So under any allocator the output and the status are the same.
 * Each operation takes its random numbers from the seed alone: with fewer operations the program is the beginning of itself.
 *
 * What is left out, as the answer depends on the allocator: requests near a limit (`answer_to`), what pages of the heap are
 * left as (`is_sole`), content that nobody wrote, blocks of another thread after fork. */
#include "fuzzed/world.h"
#include "fuzzed/blocks.h"
#include "fuzzed/calls.h"
#include "fuzzed/pages.h"
#include "fuzzed/altered.h"
#include "fuzzed/limits.h"
#include "fuzzed/group.h"
#include "fuzzed/processes.h"
#include "fuzzed/threads.h"
#include "fuzzed/endings.h"
#include <sys/sysinfo.h>

enum operation {
    ALLOCATE, RESIZE, RELEASE, WRITE, USABLE, CORNER, OVERSIZE, TOUCH, ALTER, REPLACE, FORK, CONFINED, UNSHARED, SPAWN, PHASE, COLLECT,
    LOCK_ALL, PROCESS, LOOK, SIGNAL, ALARM, LIMIT_MEMORY, MEET_LIMIT, LIMIT_PROCESSES, LOCK_LIMIT, IDLE, FILL, OPERATIONS
};

/* How often each profile does what. The memory operations of all are as in the first row, but for their weight. */
static const unsigned char weights[PROFILES][OPERATIONS] = {
    /*          al  re fr  wr us co ov to at rp fo cf us sp ph cl la pr lo si al lm ml lp ll id fi */
    [BLOCKS] = {40, 30, 10, 10, 3, 4, 3, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 3, 0},
    [SMALL] = {40, 30, 12, 10, 4, 4, 0, 5, 3, 0, 1, 0, 0, 1, 1, 1, 0, 0, 1, 1, 0, 0, 0, 0, 0, 1, 0},
    [LARGE] = {30, 20, 10, 15, 3, 2, 15, 10, 5, 5, 2, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 4, 0},
    [PAGES] = {20, 8, 8, 6, 1, 1, 1, 40, 20, 20, 2, 0, 0, 0, 0, 0, 3, 1, 1, 0, 0, 0, 0, 0, 0, 3, 0},
    [FORKS] = {20, 8, 6, 6, 1, 1, 1, 20, 10, 8, 8, 3, 3, 3, 0, 0, 1, 2, 2, 1, 0, 0, 0, 0, 0, 3, 0},
    [THREADS] = {20, 10, 10, 8, 2, 2, 1, 6, 4, 2, 2, 0, 1, 1, 8, 4, 0, 1, 2, 0, 1, 0, 0, 0, 0, 2, 0},
    [LIMITS] = {20, 8, 8, 6, 1, 3, 0, 16, 6, 8, 3, 1, 0, 0, 0, 0, 4, 1, 2, 0, 0, 5, 8, 3, 3, 3, 0},
    [SIGNALS] = {20, 10, 8, 8, 2, 2, 1, 6, 3, 3, 2, 0, 1, 1, 2, 2, 0, 2, 3, 6, 5, 0, 0, 0, 0, 2, 0},
    [MIXED] = {20, 10, 8, 8, 2, 3, 3, 16, 8, 6, 3, 1, 1, 1, 2, 1, 2, 2, 2, 2, 1, 0, 0, 0, 0, 3, 0},
    [ALTERED] = {16, 4, 6, 10, 1, 0, 0, 24, 24, 24, 6, 1, 1, 1, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0, 0, 2, 0},
    [GROUP] = {24, 16, 12, 16, 1, 1, 0, 4, 4, 6, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 3, 12},
};

static enum operation some_operation(struct worker *w) {
    const unsigned char *weight = weights[world.profile];
    size_t sum = 0;
    for (int at = 0; at < OPERATIONS; at++) sum += weight[at];
    size_t number = pick(w, sum);
    enum operation operation = ALLOCATE;
    while (number >= weight[operation]) number -= weight[operation++];
    return operation;
}

/* What a slot's block is used for; its special pages end before a call that reads or moves them. */
static void use_slot(struct worker *w, struct slot *s, enum operation operation) {
    if (operation == ALLOCATE || (!s->p && operation <= REPLACE && operation != CORNER && operation != OVERSIZE)) {
        if (s->p) leave_or_end(w, s), release(w, s);
        allocate(w, s);
        return;
    }
    switch (operation) {
    case RELEASE: leave_or_end(w, s), release(w, s); return;
    case TOUCH: touch_pages(w, s); return;
    case ALTER: alter(w, s); return;
    case REPLACE: renew(w, s); return;
    default: end_special(w, s);
    }
    switch (operation) {
    case RESIZE: resize(w, s); return;
    case WRITE: write_block(w, s), say(w, "write %zu, %s", s->len, check(w, s, chance(w, 20)) ? "right" : "wrong"); return;
    case USABLE: use_all(w, s); return;
    case CORNER: corner(w, s); return;
    default: oversize(w, s);
    }
}

static void operate(struct worker *w, enum operation operation) {
    struct slot *s = &w->slots[pick(w, SLOTS)];
    some_route(w);
    int is_alone = w->id == 0 && world.threads_live == 0;
    if (operation <= REPLACE) {
        use_slot(w, s, operation);
        return;
    }
    switch (operation) {
    case FORK: fork_child(w); return;
    case CONFINED: fork_confined(w); return;
    case UNSHARED: fork_unshared(w); return;
    case SPAWN: spawn_child(w); return;
    case IDLE: idle(w); return;
    case FILL: fill_group(w); return;
    default: if (!is_alone) return;
    }
    switch (operation) {
    case PHASE: thread_phase(w); return;
    case COLLECT: collect(w); return;
    case LOCK_ALL: lock_all(w); return;
    case PROCESS: set_process(w); return;
    case LOOK: look(w); return;
    case SIGNAL: signal_self(w); return;
    case ALARM: alarm_clock(w); return;
    case LIMIT_MEMORY: limit_memory(w); return;
    case MEET_LIMIT: end_special(w, s), meet_limit(w, s); return;
    case LIMIT_PROCESSES: limit_processes(w); return;
    default: lock_limit(w);
    }
}

static void run_operations(struct worker *w, int count) {
    for (; count > 0; count--) {
        w->step++;
        operate(w, some_operation(w));
    }
}

/* Where blocks may be freed with changed pages, the C library maps all of them by themselves: from 4 KiB on, and without a gap
 * at the end of the heap, so that 12 smaller blocks can't leave one of 512 KiB in it. musl does so from 128 KiB on anyway. */
static void settle(void) {
    world.is_fixed = world.profile == PAGES || world.profile == LIMITS || world.profile == FORKS || world.profile >= ALTERED || mixed(world.seed) % 2;
#ifdef __GLIBC__
    if (world.is_fixed) mallopt(M_MMAP_THRESHOLD, 4096), mallopt(M_TOP_PAD, 0);
#endif
}

static int read_overcommit(void) {
    char text = '0';
    int file = open("/proc/sys/vm/overcommit_memory", O_RDONLY);
    if (file >= 0 && read(file, &text, 1) != 1) text = '0';
    if (file >= 0) close(file);
    return text - '0';
}

/* A user of whom there is no other process. */
static void become_nobody(void) {
    uid_t user = 200000 + getpid();
    if (geteuid() == 0 && setresuid(user, user, user)) _exit(96);
}

static void prepare_world(void) {
    struct sysinfo info;
    struct rlimit limit;
    sysinfo(&info);
    world.page = sysconf(_SC_PAGESIZE);
    world.machine_bytes = (info.totalram + info.totalswap) * info.mem_unit;
    world.overcommit = read_overcommit();
    world.len_max = world.profile == SMALL || world.profile == THREADS ? 6 * MIB : 404 * MIB;
    if (world.profile == FORKS || world.profile == SIGNALS || world.profile >= ALTERED) world.len_max = 48 * MIB;
    world.live_max = 700 * MIB < world.machine_bytes / 8 ? 700 * MIB : world.machine_bytes / 8;
    if (world.profile == GROUP) world.live_max = GROUP_LIVE;
    world.is_alone = world.profile == LIMITS;
    if (world.is_alone) become_nobody();
    world.is_user = geteuid() != 0;
    getrlimit(RLIMIT_MEMLOCK, &limit);
    world.lock_limit = limit.rlim_cur;
    for (int id = 1; id < WORKERS && !world.is_alone; id++)
        logs[id] = mmap(NULL, sizeof(struct log), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
}

int main(int count, char **words) {
    struct worker *w = &workers[0];
    struct sigaction fault = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO};
    if (count < 4) return 2;
    world.seed = strtoull(words[1], NULL, 10);
    world.profile = atoi(words[3]) % PROFILES;
    world.is_quiet = count > 4;
    settle();
    prepare_world();
    sigaction(SIGSEGV, &fault, NULL);
    sigaction(SIGBUS, &fault, NULL);
    atexit(at_exit_last);
    atexit(at_exit_first);
    at_quick_exit(at_quick_exit_only);
    pthread_key_create(&last_block, free_last);
    is_ours = 1;
    w->state = mixed(world.seed * PROFILES + world.profile);
    w->budget = world.is_quiet ? 24 * MIB : world.profile == GROUP ? GROUP_BUDGET : 128 * MIB;
    run_operations(w, atoi(words[2]));
    end_program(w);
    return status_of();
}
