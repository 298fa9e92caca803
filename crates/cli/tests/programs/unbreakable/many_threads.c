/* 64 threads with stacks of 8 MiB, each of which then needs a block: prints how many there are of both.
 * Two heaps are enough: the C library reserves 64 MiB for each, one per thread if it may, and what is left would be chance. */
#include "proc.h"
#include <malloc.h>
#include <pthread.h>

enum { THREADS = 64 };
static pthread_barrier_t all;
static int blocks;

static void *needs_a_block(void *nothing) {
    pthread_barrier_wait(&all);
    char *block = malloc(MIB);
    if (block) memset(block, 1, MIB), __atomic_fetch_add(&blocks, 1, __ATOMIC_RELAXED);
    pthread_barrier_wait(&all);
    free(block);
    return nothing;
}

int main(void) {
    pthread_t threads[THREADS];
    mallopt(M_ARENA_MAX, 2);
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, 8 * MIB);
    pthread_barrier_init(&all, NULL, THREADS);
    free(written(100 * MIB));
    int count = 0;
    while (count < THREADS && pthread_create(&threads[count], &attributes, needs_a_block, NULL) == 0) count++;
    if (count == THREADS)
        for (int at = 0; at < THREADS; at++) pthread_join(threads[at], NULL);
    printf("%d threads, %d blocks\n", count, blocks);
    fflush(stdout);
    _exit(0);
}
