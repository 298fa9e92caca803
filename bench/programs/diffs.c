/* One program in three builds, for a diff to tell apart: see bench/diffs.py.
 *
 * In: THREADS FILE (which it writes). The work, and so the faults, are the same in every run and with any number of threads.
 * Each site is a function of its own, and they fault in different ways. -DPAGES and -DPRICE make the builds after: both have
 * `added` in place of `removed`, and `changed` costs about twice as much, once by twice as many faults, once by as many of a
 * dearer kind (a page of its own, zeroed, instead of the page of zeros that all share).
 *
 * Passes differ in length: one sampled fault of so many, which `record` takes, would run in step with equal ones. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

#define SITE __attribute__((noinline, noclone)) static void
#define READS(from, to, step) for (volatile char *at = (from); at < (to); at += (step)) (void)*at
#define WRITES(from, to, step) for (volatile char *at = (from); at < (to); at += (step)) *at = 1
enum { PAGES_MIN = 128, PAGES_MAX = 512, PASSES = 160, ANONYMOUS = -1 };
static size_t page;
static int threads, file;

SITE first_write(char *base, size_t len) { WRITES(base, base + len, page); }
SITE read_zero(char *base, size_t len) { READS(base, base + len, page); }
SITE write_after_read(char *base, size_t len) { WRITES(base, base + len, page); }
SITE refault(char *base, size_t len) { madvise(base, len, MADV_DONTNEED); WRITES(base, base + len, page); }
SITE read_file(char *base, size_t len) { READS(base, base + len, 16 * page); }
SITE write_file(char *base, size_t len) { WRITES(base, base + len, page); }
#if defined PAGES
SITE changed(char *base, size_t len) { READS(base, base + 2 * len, page); }
#elif defined PRICE
SITE changed(char *base, size_t len) { WRITES(base, base + len, page); }
#else
SITE changed(char *base, size_t len) { READS(base, base + len, page); }
#endif
#if defined PAGES || defined PRICE
SITE added(char *base, size_t len) { WRITES(base, base + len, page); }
#else
SITE removed(char *base, size_t len) { WRITES(base, base + len, page); }
#define added removed
#endif

typedef void site(char *, size_t);

static void mapped(int fd, size_t len, site *first, site *second) {
    size_t size = 2 * len;
    char *base = mmap(0, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | (fd == ANONYMOUS ? MAP_ANONYMOUS : 0), fd, 0);
    if (base == MAP_FAILED) { perror("mmap"); exit(2); }
    first(base, len);
    if (second) second(base, len);
    munmap(base, size);
}

static void *work(void *arg) {
    char *arena = mmap(0, PAGES_MAX * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (arena == MAP_FAILED) { perror("mmap"); exit(2); }
    for (size_t pass = (size_t)arg; pass < PASSES; pass += threads) {
        size_t len = (PAGES_MIN + pass * 149 % (PAGES_MAX - PAGES_MIN)) * page;
        mapped(ANONYMOUS, len, first_write, 0);
        mapped(ANONYMOUS, len, read_zero, write_after_read);
        refault(arena, len);
        mapped(file, len, read_file, 0);
        mapped(file, len, write_file, 0);
        mapped(ANONYMOUS, len, changed, 0);
        mapped(ANONYMOUS, len, added, 0);
    }
    return 0;
}

int main(int argc, char **argv) {
    if (argc != 3) { fprintf(stderr, "usage: diffs THREADS FILE\n"); return 2; }
    prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0);
    page = sysconf(_SC_PAGESIZE);
    threads = atoi(argv[1]);
    size_t size = PAGES_MAX * page;
    file = open(argv[2], O_RDWR | O_CREAT | O_TRUNC, 0600);
    char *text = malloc(size);
    memset(text, 'x', size);
    if (write(file, text, size) != (ssize_t)size) { perror(argv[2]); return 2; }
    pthread_t workers[threads];
    for (size_t i = 0; i < (size_t)threads; i++) pthread_create(&workers[i], 0, work, (void *)i);
    for (int i = 0; i < threads; i++) pthread_join(workers[i], 0);
    return 0;
}
