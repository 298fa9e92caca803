/* Programs whose page faults have one mechanism, in malloc or in threads: by_malloc NAME. A second or less each. */
#define _GNU_SOURCE
#include <malloc.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { KIB = 1 << 10, MIB = 1 << 20, PAGE = 4 * KIB };

static void take(char *block, size_t bytes) { memset(block, 1, bytes); }
static void give(void *block) { free(block); }

static volatile unsigned long sum;
static void compute(long steps) {
    unsigned long x = 1;
    for (long i = 0; i < steps; i++) x = x * 6364136223846793005u + 1442695040888963407u;
    sum = x;
}

/* ---- the top of a heap ---- */

/* Messages of a few blocks: the free of the last one leaves more at the top than the threshold. */
static void *messages(void *unused) {
    free(malloc(512 * KIB));
    for (int i = 0; i < 300; i++) {
        char *blocks[4];
        for (int b = 0; b < 4; b++) take(blocks[b] = malloc(500 * KIB), 500 * KIB);
        for (int b = 4; b--;) give(blocks[b]);
    }
    return unused;
}

/* A list that is built and dropped from its end. */
static void *list(void *unused) {
    enum { NODES = 3000 };
    static __thread char *nodes[NODES];
    for (int i = 0; i < 100; i++) {
        for (int n = 0; n < NODES; n++) take(nodes[n] = malloc(2000), 2000);
        for (int n = NODES; n--;) give(nodes[n]);
    }
    return unused;
}

static void in_thread(void *(*work)(void *), int count) {
    pthread_t threads[8];
    for (int t = 0; t < count; t++) pthread_create(&threads[t], NULL, work, NULL);
    for (int t = 0; t < count; t++) pthread_join(threads[t], NULL);
}

static void arena_messages(void) { in_thread(messages, 1); }
static void arena_lists(void) { in_thread(list, 2); }
static void heap_messages(void) { messages(NULL); }
static void heap_list(void) { list(NULL); }

/* ---- blocks with a mapping of their own ---- */

static void blocks(size_t bytes, int rounds) {
    for (int i = 0; i < rounds; i++) {
        char *block = malloc(bytes);
        take(block, bytes);
        give(block);
    }
}

static void frames(void) { blocks(40 * MIB, 20); }
static void fixed_threshold(void) { mallopt(M_MMAP_THRESHOLD, 128 * KIB), blocks(MIB, 600); }
/* Above the largest class of allocators. */
static void oversize(void) { blocks(16 * MIB, 60); }
static void oversize_more(void) { blocks(72 * MIB, 14); }

/* Blocks below all thresholds, for allocators that purge. */
static void churn(void) {
    char *kept[64];
    for (int i = 0; i < 150; i++) {
        for (int b = 0; b < 64; b++) take(kept[b] = malloc(80 * KIB), 80 * KIB);
        for (int b = 0; b < 64; b++) give(kept[b]);
    }
}

static void doubling(void) {
    for (int round = 0; round < 3; round++) {
        char *buffer = malloc(MIB);
        size_t len = MIB;
        take(buffer, len);
        for (; len < 128 * MIB; len *= 2) {
            char *longer = malloc(2 * len);
            memcpy(longer, buffer, len), take(longer + len, len);
            give(buffer), buffer = longer;
        }
        give(buffer);
        mallopt(M_MMAP_THRESHOLD, 128 * KIB);
    }
}

static void half_more(void) {
    mallopt(M_MMAP_THRESHOLD, 128 * KIB);
    size_t len = 512 * KIB;
    for (int round = 0; round < 6; round++, len = 512 * KIB) {
        char *buffer = malloc(len);
        take(buffer, len);
        for (size_t next; len < 48 * MIB; len = next) {
            char *longer = malloc(next = len + len / 2);
            memcpy(longer, buffer, len), take(longer + len, next - len);
            give(buffer), buffer = longer;
        }
        give(buffer);
    }
}

/* Two benchmarks in a process: the first teaches malloc its threshold. */
static void benchmarks(void) {
    for (size_t bytes = 4 * MIB; bytes <= 24 * MIB; bytes += 4 * MIB) blocks(bytes, 1);
    compute(20000000);
    blocks(24 * MIB, 3);
    compute(80000000);
}

static void trained_by_one(void) {
    blocks(30 * MIB, 2);
    for (int i = 0; i < 8; i++) blocks(20 * MIB, 1), compute(8000000);
}

/* ---- threads ---- */

static pthread_barrier_t all;

/* A little in an arena of its own, below its trim threshold. */
static void *little(void *unused) {
    char *blocks[20];
    for (int b = 0; b < 20; b++) take(blocks[b] = malloc(4 * KIB), 4 * KIB);
    pthread_barrier_wait(&all);
    for (int b = 0; b < 20; b++) give(blocks[b]);
    return unused;
}

static void arenas(int threads, int rounds) {
    pthread_t thread[64];
    pthread_barrier_init(&all, NULL, threads);
    for (int i = 0; i < rounds; i++) {
        for (int t = 0; t < threads; t++) pthread_create(&thread[t], NULL, little, NULL);
        for (int t = 0; t < threads; t++) pthread_join(thread[t], NULL);
    }
}

static void one_arena_each(void) { arenas(16, 1); }
static void one_arena_each_again(void) { arenas(16, 12); }

static void *deep(void *bytes) {
    char *stack = __builtin_alloca((uintptr_t)bytes);
    take(stack, (uintptr_t)bytes);
    return NULL;
}

static void stacks(size_t bytes, int at_once, int rounds) {
    pthread_t threads[8];
    for (int i = 0; i < rounds; i++) {
        for (int t = 0; t < at_once; t++) pthread_create(&threads[t], NULL, deep, (void *)bytes);
        for (int t = 0; t < at_once; t++) pthread_join(threads[t], NULL);
    }
}

static void thread_a_request(void) { stacks(2 * MIB, 1, 300); }
static void threads_a_batch(void) { stacks(600 * KIB, 6, 150); }

/* ---- a request for huge pages on the heap ---- */

__attribute__((noinline)) static void advised_block(size_t bytes) {
    char *block = malloc(bytes), *aligned = (char *)(((uintptr_t)block + 2 * MIB) & -(uintptr_t)(2 * MIB));
    madvise(aligned, bytes - 4 * MIB, MADV_HUGEPAGE);
    block[0] = 1;
    give(block);
}

__attribute__((noinline)) static void sparse_tables(size_t table, int tables) {
    for (int t = 0; t < tables; t++) {
        char *sparse = malloc(table - 64);
        sparse[table / 2] = 1;
    }
}

static void flag(size_t table, int tables) {
    mallopt(M_MMAP_MAX, 0), mallopt(M_TRIM_THRESHOLD, 1 << 30);
    advised_block(table * tables);
    sparse_tables(table, tables);
}

static void flag_of_a_buffer(void) { flag(2 * MIB, 300); }
static void flag_of_a_table(void) { flag(512 * KIB, 1200); }

/* ---- the start ---- */

static void start(void) {
    char *table = malloc(200 * MIB);
    take(table, 200 * MIB);
    compute(20000000);
}

static void start_of_lists(void) {
    char *last = NULL;
    for (int i = 0; i < 60000; i++) {
        char *node = malloc(3000);
        take(node, 3000);
        *(char **)node = last, last = node;
    }
    compute(20000000);
}

static void sums_first(void) {
    for (int i = 0; i < 6; i++) {
        char *table = calloc(40, MIB);
        for (size_t at = 0; at < 40 * MIB; at += PAGE) sum += table[at];
        compute(1000000);
    }
}

static void sums_then_writes(void) {
    char *table = calloc(200, MIB);
    for (size_t at = 0; at < 200 * MIB; at += PAGE) sum += table[at];
    for (size_t at = 0; at < 200 * MIB; at += PAGE) table[at] = 1;
}

/* ---- none ---- */

static void only_computes(void) { compute(400000000); }

static void keeps_a_buffer(void) {
    char *buffer = malloc(4 * MIB);
    for (int i = 0; i < 800; i++) take(buffer, 4 * MIB);
}

static int by_value(const void *a, const void *b) { return *(const int *)a - *(const int *)b; }

static void sorts(void) {
    enum { COUNT = 200000 };
    int *numbers = malloc(COUNT * sizeof *numbers);
    for (int round = 0; round < 12; round++) {
        for (int i = 0; i < COUNT; i++) numbers[i] = i * 7919 % COUNT;
        qsort(numbers, COUNT, sizeof *numbers, by_value);
    }
}

static void small_blocks(void) {
    for (int i = 0; i < 8000000; i++) {
        char *block = malloc(16 + i % 1000);
        *(volatile char *)block = 1;
        give(block);
    }
}

int main(int count, char **words) {
    static const struct { const char *name; void (*run)(void); } programs[] = {
        {"heap-messages", heap_messages}, {"heap-list", heap_list}, {"arena-messages", arena_messages}, {"arena-lists", arena_lists},
        {"frames", frames}, {"fixed-threshold", fixed_threshold}, {"oversize", oversize}, {"oversize-more", oversize_more}, {"churn", churn},
        {"doubling", doubling}, {"half-more", half_more}, {"benchmarks", benchmarks}, {"trained-by-one", trained_by_one},
        {"arenas", one_arena_each}, {"arenas-again", one_arena_each_again}, {"thread-a-request", thread_a_request},
        {"threads-a-batch", threads_a_batch}, {"flag-buffer", flag_of_a_buffer}, {"flag-table", flag_of_a_table}, {"start", start},
        {"start-lists", start_of_lists}, {"sums-first", sums_first}, {"sums-then-writes", sums_then_writes}, {"computes", only_computes},
        {"keeps", keeps_a_buffer}, {"sorts", sorts}, {"small-blocks", small_blocks}};
    for (size_t at = 0; at < sizeof programs / sizeof *programs; at++)
        if (count > 1 && !strcmp(words[1], programs[at].name)) return programs[at].run(), 0;
    return fprintf(stderr, "there is no program of this name\n"), 2;
}
