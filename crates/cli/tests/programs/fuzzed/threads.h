/* Threads that allocate, exchange blocks and fork at the same time. Each has a random sequence and a log of its own; they meet
 * at barriers, so which block goes to whom is part of the sequence. */
#include <pthread.h>

static struct {
    pthread_barrier_t barrier;
    int count, rounds, operations;
    struct slot exchange[WORKERS];
} team;

static struct log *logs[WORKERS];
static pthread_key_t last_block;

/* A thread's last block goes with the thread. */
static void free_last(void *block) {
    ((volatile char *)block)[0]++;
    free(block);
}

static void run_thread(struct worker *w) {
    begin_thread();
    pthread_setspecific(last_block, malloc(100 + w->id * 100 * KIB));
    for (int round = 0; round < team.rounds; round++) {
        run_operations(w, team.operations);
        team.exchange[w->id] = w->slots[0];
        pthread_barrier_wait(&team.barrier);
        w->slots[0] = team.exchange[w->id % team.count + 1];
        pthread_barrier_wait(&team.barrier);
        if (w->slots[0].p) say(w, "received %zu, %s", w->slots[0].len, check(w, &w->slots[0], 0) ? "right" : "wrong");
    }
}

static void *thread_main(void *argument) {
    run_thread(argument);
    return NULL;
}

static void *thread_that_exits(void *argument) {
    run_thread(argument);
    pthread_exit(argument);
}

static void flush_log(struct worker *w) {
    if (!w->log) return;
    emit(w->log->text, w->log->used);
    w->log->used = 0;
    w->log = NULL;
}

/* A worker's beginning. Its slots stay from phase to phase. */
static void prepare(struct worker *w, int id, uint64_t seed, size_t budget) {
    w->id = id;
    w->step = 0;
    w->state = seed;
    w->budget = budget;
    w->log = logs[id];
}

/* Two to four threads, and this one beside them. */
static void thread_phase(struct worker *w) {
    pthread_t threads[WORKERS];
    pthread_attr_t attributes;
    if (world.depth || world.is_alone || world.is_locked || world.threads_live) return;
    world.threads_live = team.count = 2 + pick(w, 3);
    team.rounds = 1 + pick(w, 4);
    team.operations = 3 + pick(w, 12);
    pthread_barrier_init(&team.barrier, NULL, team.count);
    pthread_attr_init(&attributes);
    if (chance(w, 40)) pthread_attr_setstacksize(&attributes, 128 * KIB);
    size_t live_max = world.live_max;
    world.live_max = 96 * MIB;
    say(w, "threads: %d", team.count);
    for (int id = 1; id <= team.count; id++) {
        prepare(&workers[id], id, random64(w), w->budget / 8);
        int error = start_thread(&threads[id], &attributes, chance(w, 50) ? thread_main : thread_that_exits, &workers[id]);
        if (error) _exit(94);
    }
    w->budget /= 2;
    run_operations(w, team.operations);
    for (int id = 1; id <= team.count; id++) pthread_join(threads[id], NULL);
    world.threads_live = 0;
    world.live_max = live_max;
    for (int id = 1; id <= team.count; id++) flush_log(&workers[id]);
    pthread_attr_destroy(&attributes);
    pthread_barrier_destroy(&team.barrier);
}

/* Blocks that threads have left are freed by another one. */
static void collect(struct worker *w) {
    if (world.threads_live) return;
    for (int id = 1; id < WORKERS; id++)
        for (int at = 0; at < SLOTS; at++) {
            struct slot *s = &workers[id].slots[at];
            if (!s->p) continue;
            if (world.depth) memset(s, 0, sizeof *s); /* forked while its thread ran: its content is unknown */
            else leave_or_end(w, s), release(w, s);
        }
}
