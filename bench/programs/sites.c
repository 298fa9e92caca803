/* A program that knows what its page faults cost, site by site.
 *
 * In: THREADS MILLISECONDS FILE. Out: one line of JSON: for each site its faults (getrusage of the thread around the loop), its
 * touches that trapped, and the mean time of one by the time-stamp counter; a touch of 0.1 ms and more was preempted, and is left
 * out. Each thread walks through the sites in phases of 1 to 16 ms, so that sites differ in when and how often they fault.
 * Every site is a function of its own that is not inlined; `deep_a` and `deep_b` call the same one. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>
#include <x86intrin.h>

#define SITE __attribute__((noinline, noclone))
enum { WRITE, READ_ZERO, WRITE_AFTER_READ, REFAULT, READ_FILE, WRITE_FILE, DEEP_A, DEEP_B, SITES };
static const char *names[SITES] = {"first_write", "read_zero", "write_after_read", "refault",
                                   "read_file", "write_file", "deep_a", "deep_b"};
enum { PAGES = 512 };
static size_t page;
static const char *path;
static uint64_t end_ns, trap_ticks, preempted_ticks;

struct truth { uint64_t faults, touches, ticks; };
static struct worker { pthread_t thread; unsigned seed; struct truth truth[SITES]; } __attribute__((aligned(64))) workers[256];

static uint64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000ull + t.tv_nsec;
}

static uint64_t faults_here(void) {
    struct rusage u;
    getrusage(RUSAGE_THREAD, &u);
    return u.ru_minflt + u.ru_majflt;
}

static double ticks_per_ns(void) {
    uint64_t begin_ns = now_ns(), begin = __rdtsc();
    while (now_ns() < begin_ns + 5000000) {}
    return (double)(__rdtsc() - begin) / (now_ns() - begin_ns);
}

#define TOUCHES(step, access)                                   \
    for (char *at = base; at < base + len; at += (step)) {      \
        unsigned aux;                                           \
        uint64_t begin = __rdtscp(&aux);                        \
        access;                                                 \
        uint64_t ticks = __rdtscp(&aux) - begin;                \
        if (ticks >= trap_ticks && ticks < preempted_ticks) truth->touches++, truth->ticks += ticks; \
    }

SITE void first_write(char *base, size_t len, struct truth *truth) { TOUCHES(page, *(volatile char *)at = 1) }
SITE void read_zero(char *base, size_t len, struct truth *truth) { TOUCHES(page, (void)*(volatile char *)at) }
SITE void write_after_read(char *base, size_t len, struct truth *truth) { TOUCHES(page, *(volatile char *)at = 1) }
SITE void refault(char *base, size_t len, struct truth *truth) { TOUCHES(page, *(volatile char *)at = 1) }
SITE void read_file(char *base, size_t len, struct truth *truth) { TOUCHES(16 * page, (void)*(volatile char *)at) }
SITE void write_file(char *base, size_t len, struct truth *truth) { TOUCHES(page, *(volatile char *)at = 1) }
SITE void shared_leaf(char *base, size_t len, struct truth *truth) { TOUCHES(page, *(volatile char *)at = 1) }
SITE void deep_a(char *base, size_t len, struct truth *truth) { shared_leaf(base, len, truth); __asm__ volatile(""); }
SITE void deep_b(char *base, size_t len, struct truth *truth) { shared_leaf(base, len, truth); __asm__ volatile(""); }

typedef void touch(char *, size_t, struct truth *);

static void counted(touch *site, char *base, struct truth *truth) {
    uint64_t before = faults_here();
    site(base, PAGES * page, truth);
    truth->faults += faults_here() - before;
}

static void once(int site, struct worker *self, int fd) {
    static touch *touches[SITES] = {first_write, read_zero, write_after_read, refault, read_file, write_file, deep_a, deep_b};
    int of_file = site == READ_FILE || site == WRITE_FILE;
    char *base = mmap(0, PAGES * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | (of_file ? 0 : MAP_ANONYMOUS), of_file ? fd : -1, 0);
    if (base == MAP_FAILED) { perror("mmap"); exit(2); }
    if (site == WRITE_AFTER_READ) counted(read_zero, base, &self->truth[READ_ZERO]);
    if (site == REFAULT) {
        counted(first_write, base, &self->truth[WRITE]);
        madvise(base, PAGES * page, MADV_DONTNEED);
    }
    counted(touches[site], base, &self->truth[site]);
    munmap(base, PAGES * page);
}

static void *work(void *arg) {
    struct worker *self = arg;
    int fd = open(path, O_RDONLY);
    while (now_ns() < end_ns) {
        int site = rand_r(&self->seed) % SITES;
        uint64_t phase_end = now_ns() + (1u << rand_r(&self->seed) % 5) * 1000000ull;
        do once(site, self, fd);
        while (now_ns() < phase_end);
    }
    close(fd);
    return 0;
}

int main(int argc, char **argv) {
    if (argc != 4) { fprintf(stderr, "usage: sites THREADS MILLISECONDS FILE\n"); return 2; }
    prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0);
    /* A trap and its return take 0.15 us at least; a load that misses every cache 0.1 us. */
    double per_ns = ticks_per_ns();
    trap_ticks = 150 * per_ns, preempted_ticks = 100000 * per_ns;
    page = sysconf(_SC_PAGESIZE);
    int threads = atoi(argv[1]) % 256;
    path = argv[3];
    int fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
    char *text = calloc(PAGES, page);
    memset(text, 'x', PAGES * page);
    if (write(fd, text, PAGES * page) != (ssize_t)(PAGES * page)) { perror(path); return 2; }
    free(text);
    close(fd);
    end_ns = now_ns() + atoll(argv[2]) * 1000000ull;
    for (int i = 0; i < threads; i++) {
        workers[i].seed = getpid() + 7919 * i;
        pthread_create(&workers[i].thread, 0, work, &workers[i]);
    }
    for (int i = 0; i < threads; i++) pthread_join(workers[i].thread, 0);
    for (int site = 0; site < SITES; site++) {
        struct truth sum = {0};
        for (int i = 0; i < threads; i++) {
            struct truth *truth = &workers[i].truth[site];
            sum.faults += truth->faults, sum.touches += truth->touches, sum.ticks += truth->ticks;
        }
        printf("%s\"%s\": {\"faults\": %lu, \"touches\": %lu, \"mean_ns\": %.1f}", site ? ", " : "{", names[site], sum.faults,
               sum.touches, sum.touches ? sum.ticks / per_ns / sum.touches : 0.0);
    }
    printf("}\n");
    return 0;
}
