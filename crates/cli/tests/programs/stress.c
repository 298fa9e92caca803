/* threads x sizes x alignments x realloc x fork against a shadow map. Usage: stress THREADS STEPS SEED LARGEST_BYTES
 * Each block carries a tag in both ends of every 1 KiB; the shadow (slot) knows length and tag. Blocks change hands
 * through shared slots, so that they are freed by other threads than made them. A refusal must come with ENOMEM. */
#define _GNU_SOURCE
#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { OWN = 24, SHARED = 16 };
struct slot { unsigned char *p; size_t len; unsigned char tag; };
static struct slot shared[SHARED];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static size_t largest = 3 << 20;
static long steps;
static unsigned long refused;

static void fail(const char *what) { fprintf(stderr, "stress: %s\n", what); _exit(3); }

static uint64_t next(uint64_t *s) { *s ^= *s << 13; *s ^= *s >> 7; *s ^= *s << 17; return *s; }

static size_t some_len(uint64_t *s) {
    size_t bound = 16;
    for (uint64_t n = next(s) % 20; n && bound < largest; n--) bound *= 2;
    return next(s) % (bound < largest ? bound : largest) + 1;
}

static void fill(struct slot *b) {
    for (size_t i = 0; i < b->len; i += 1024) {
        b->p[i] = b->tag;
        b->p[i + 1023 < b->len ? i + 1023 : b->len - 1] = b->tag;
    }
}

static void check(const struct slot *b, size_t len) {
    for (size_t i = 0; i < len; i += 1024) {
        if (b->p[i] != b->tag) fail("content changed");
        if (i + 1023 < len && i + 1023 < b->len && b->p[i + 1023] != b->tag) fail("content changed at an end");
    }
}

static void drop(struct slot *b) {
    if (!b->p) return;
    check(b, b->len);
    errno = 77;
    free(b->p);
    if (errno != 77) fail("free changed errno");
    b->p = NULL;
}

static void make(struct slot *b, uint64_t *s) {
    size_t len = some_len(s), align = (size_t)8 << next(s) % 20;
    unsigned char *p = NULL;
    errno = 0;
    switch (next(s) % 5) {
    case 0: case 1: p = malloc(len); break;
    case 2:
        p = calloc(len, 1);
        for (size_t i = 0; p && i < len; i++) if (p[i]) fail("calloc is not zero");
        break;
    case 3:
        errno = posix_memalign((void **)&p, align, len);
        if (errno) p = NULL;
        if ((uintptr_t)p % align) fail("posix_memalign");
        break;
    default:
        p = memalign(align, len);
        if ((uintptr_t)p % align) fail("memalign");
    }
    if (!p) {
        if (errno != ENOMEM) fail("refused without ENOMEM");
        __atomic_fetch_add(&refused, 1, __ATOMIC_RELAXED);
        return;
    }
    if (malloc_usable_size(p) < len) fail("usable size");
    *b = (struct slot){p, len, (unsigned char)(next(s) | 1)};
    fill(b);
}

static void resize(struct slot *b, uint64_t *s) {
    size_t len = some_len(s);
    errno = 0;
    unsigned char *p = realloc(b->p, len);
    if (!p) {
        if (errno != ENOMEM) fail("realloc refused without ENOMEM");
        check(b, b->len);
        __atomic_fetch_add(&refused, 1, __ATOMIC_RELAXED);
        return;
    }
    b->p = p;
    check(b, len < b->len ? len : b->len);
    b->len = len;
    fill(b);
}

static void in_child(struct slot *own, uint64_t *s) {
    pid_t pid = fork();
    if (pid < 0) { if (errno != ENOMEM && errno != EAGAIN) fail("fork"); return; }
    if (pid == 0) {
        alarm(600);
        for (int i = 0; i < OWN; i++) {
            drop(&own[i]);
            make(&own[i], s);
        }
        _exit(0);
    }
    int status;
    while (waitpid(pid, &status, 0) < 0) if (errno != EINTR) fail("waitpid");
    if (status != 0) fail("the child of a fork failed");
    for (int i = 0; i < OWN; i++) if (own[i].p) check(&own[i], own[i].len);
}

static void *work(void *seed) {
    uint64_t s = (uintptr_t)seed * 0x9e3779b97f4a7c15u + 1;
    struct slot own[OWN] = {{0}};
    for (long step = 0; step < steps; step++) {
        struct slot *b = &own[next(&s) % OWN];
        switch (next(&s) % 8) {
        case 0: case 1: case 2: drop(b); make(b, &s); break;
        case 3: case 4: if (b->p) resize(b, &s); break;
        case 5: drop(b); break;
        default: {
            pthread_mutex_lock(&lock);
            struct slot *other = &shared[next(&s) % SHARED], kept = *other;
            *other = *b;
            *b = kept;
            pthread_mutex_unlock(&lock);
        }
        }
        if (step % (steps / 4 + 1) == steps / 8) in_child(own, &s);
    }
    for (int i = 0; i < OWN; i++) drop(&own[i]);
    return NULL;
}

int main(int argc, char **argv) {
    int threads = argc > 1 ? atoi(argv[1]) : 4;
    steps = argc > 2 ? atol(argv[2]) : 2000;
    uintptr_t seed = argc > 3 ? (uintptr_t)atol(argv[3]) : 1;
    if (argc > 4) largest = (size_t)atol(argv[4]);
    pthread_t ids[64];
    int started = 0;
    /* Threads come and go: their exit must not matter. */
    for (int round = 0; round < 2; round++) {
        started = 0;
        for (int i = 0; i < threads && i < 64; i++)
            if (pthread_create(&ids[started], NULL, work, (void *)(seed + i + 100 * round)) == 0) started++;
        if (!started) work((void *)seed);
        for (int i = 0; i < started; i++) pthread_join(ids[i], NULL);
    }
    for (int i = 0; i < SHARED; i++) drop(&shared[i]);
    printf("ok\n");
    return 0;
}
