/* Allocates in every way, in threads, children and after exec, and writes down what a recorder has to have seen:
   "TID A addr len", "TID F addr", "TID M from addr len", in the order of each thread. Every allocating frame has a marker. */
#define _GNU_SOURCE
#include <malloc.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define THREADS 4
#define ROUNDS 12
#define LARGE 65536
#define MARKER 0x5afe5afe12345678ULL

struct log {
    char text[64 << 10];
    size_t len;
};

static struct log logs[THREADS + 1];
static void *passed[THREADS][ROUNDS];
static pthread_barrier_t barrier;

static void note(struct log *log, const char *format, ...) {
    va_list rest;
    va_start(rest, format);
    log->len += snprintf(log->text + log->len, 64, "%ld ", (long)syscall(SYS_gettid));
    log->len += vsnprintf(log->text + log->len, 256, format, rest);
    va_end(rest);
}

static void born(struct log *log, void *block, size_t len) {
    memset(block, 1, len);
    note(log, "A %lx %zx\n", (long)block, len);
}

static void release(struct log *log, void *block) {
    note(log, "F %lx\n", (long)block);
    free(block);
}

static void flush(struct log *log) {
    if (write(1, log->text, log->len) != (ssize_t)log->len)
        abort();
    log->len = 0;
}

/* One block of every kind, freed at once. */
__attribute__((noinline)) static void kinds(struct log *log, size_t len) {
    volatile uint64_t marker = MARKER;
    void *block = malloc(len), *moved;
    born(log, block, len);
    moved = realloc(block, 9 * len);
    note(log, "M %lx %lx %zx\n", (long)block, (long)moved, 9 * len);
    block = reallocarray(moved, 3, len);
    note(log, "M %lx %lx %zx\n", (long)moved, (long)block, 3 * len);
    note(log, "F %lx\n", (long)block);
    block = realloc(block, 100);
    moved = realloc(block, len);
    born(log, moved, len);
    note(log, "F %lx\n", (long)moved);
    moved = realloc(moved, 0);
    free(moved);
    born(log, block = calloc(3, len), 3 * len);
    release(log, block);
    born(log, block = realloc(NULL, len), len);
    release(log, block);
    born(log, block = memalign(256, len), len);
    release(log, block);
    born(log, block = aligned_alloc(4096, 2 * len), 2 * len);
    release(log, block);
    if (posix_memalign(&block, 64, len))
        abort();
    born(log, block, len);
    release(log, block);
    born(log, block = valloc(len), len);
    release(log, block);
    free(malloc(LARGE - 64));
    free(malloc(24));
    free(NULL);
    if (marker != MARKER)
        abort();
}

static void *work(void *argument) {
    int self = (int)(intptr_t)argument;
    struct log *log = &logs[self];
    volatile uint64_t marker = MARKER;
    for (int round = 0; round < ROUNDS; round++) {
        size_t len = LARGE + 40000 * (self + 1) * (round % 5);
        kinds(log, len);
        born(log, passed[self][round] = malloc(len), len);
    }
    pthread_barrier_wait(&barrier);
    for (int round = 0; round < ROUNDS; round++)
        release(log, passed[(self + 1) % THREADS][round]);
    flush(log);
    return NULL;
}

static void child(void (*then)(char **), char **argv) {
    pid_t pid = fork();
    if (pid == 0) {
        kinds(&logs[THREADS], 3 * LARGE);
        flush(&logs[THREADS]);
        then(argv);
        _exit(0);
    }
    int status;
    if (waitpid(pid, &status, 0) != pid || status != 0)
        abort();
}

static void nothing(char **argv) {}

static void again(char **argv) {
    execl(argv[0], argv[0], "last", (char *)NULL);
    abort();
}

int main(int argc, char **argv) {
    struct log *log = &logs[THREADS];
    kinds(log, LARGE);
    flush(log);
    if (argc > 1)
        return 0;
    pthread_t threads[THREADS];
    pthread_barrier_init(&barrier, NULL, THREADS);
    for (intptr_t at = 0; at < THREADS; at++)
        pthread_create(&threads[at], NULL, work, (void *)at);
    for (int at = 0; at < THREADS; at++)
        pthread_join(threads[at], NULL);
    child(nothing, argv);
    child(again, argv);
    kinds(log, 2 * LARGE);
    flush(log);
    return 0;
}
