/* Works on blocks of 640 KiB, first from malloc, then from a pool, and counts the page faults of both.
 *
 *     cc temporaries.c $(pkg-config --cflags --libs faultless) && ./a.out
 */
#include <faultless.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

enum { ROUNDS = 1000, LEN = 640 << 10 };

static long faults(void) {
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return usage.ru_minflt;
}

/* Two blocks at a time, as in a pipeline. */
static unsigned long work(faultless_pool *pool) {
    unsigned long sum = 0;
    for (int round = 0; round < ROUNDS; round++) {
        unsigned char *from = pool ? faultless_alloc(pool, LEN) : malloc(LEN);
        unsigned char *to = pool ? faultless_alloc(pool, LEN) : malloc(LEN);
        if (!from || !to) exit(2);
        memset(from, round, LEN);
        memcpy(to, from, LEN);
        sum += to[round];
        if (pool) {
            faultless_free(pool, from);
            faultless_free(pool, to);
        } else {
            free(from);
            free(to);
        }
    }
    return sum;
}

int main(void) {
    faultless_pool *pool;
    int error = faultless_pool_create(NULL, &pool);
    if (error) {
        fprintf(stderr, "no pool: %s\n", faultless_error_text(error));
        return 2;
    }
    long before = faults();
    unsigned long expected = work(NULL);
    long between = faults();
    unsigned long sum = work(pool);
    long after = faults();
    printf("malloc: %ld faults\npool:   %ld faults\n", between - before, after - between);
    return sum != expected || faultless_pool_destroy(pool) != FAULTLESS_OK;
}
