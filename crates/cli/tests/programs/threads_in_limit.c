/* Starts 64 threads that allocate and wait for each other, and prints their number. With an argument, the program first
 * allocates 20 MiB of small blocks and limits its address space to that many KiB. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

enum { THREADS = 64, BLOCKS = 200, LEN = 2000 };

static pthread_barrier_t all_are_started;
static int failed;

static void *body(void *nothing) {
    char *blocks[BLOCKS];
    for (int at = 0; at < BLOCKS; at++) {
        blocks[at] = malloc(LEN + at);
        if (blocks[at]) memset(blocks[at], at, LEN);
        else __atomic_fetch_add(&failed, 1, __ATOMIC_RELAXED);
    }
    pthread_barrier_wait(&all_are_started);
    for (int at = 0; at < BLOCKS; at++) free(blocks[at]);
    return nothing;
}

int main(int count, char **words) {
    if (count > 1) {
        for (int at = 0; at < 10000; at++) memset(malloc(LEN), 1, LEN);
        struct rlimit limit = {strtoul(words[1], NULL, 10) << 10, RLIM_INFINITY};
        if (setrlimit(RLIMIT_AS, &limit)) return 2;
    }
    static pthread_t threads[THREADS];
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, 8 << 20);
    pthread_barrier_init(&all_are_started, NULL, THREADS + 1);
    int started = 0;
    while (started < THREADS && !pthread_create(&threads[started], &attributes, body, NULL)) started++;
    printf("%d threads\n", started);
    if (started < THREADS) return 1;
    pthread_barrier_wait(&all_are_started);
    for (int at = 0; at < THREADS; at++) pthread_join(threads[at], NULL);
    printf("%d blocks refused\n", failed);
    return 0;
}
