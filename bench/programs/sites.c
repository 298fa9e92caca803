/* A program that knows what its page faults cost, site by site.
 *
 * In: THREADS MILLISECONDS FILE. Out: one line of JSON: for each site its faults (getrusage of the thread around the loop) and
 * the time of one touch by the time-stamp counter: the median, and the mean of those below 20 medians (a longer one was
 * preempted). Each thread walks through the sites in phases of 1 to 16 ms, so that sites differ in when and how often they fault.
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
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include <x86intrin.h>

#define SITE __attribute__((noinline, noclone))
enum { WRITE, READ_ZERO, WRITE_AFTER_READ, REFAULT, READ_FILE, WRITE_FILE, DEEP_A, DEEP_B, SITES };
static const char *names[SITES] = {"first_write", "read_zero", "write_after_read", "refault",
                                   "read_file", "write_file", "deep_a", "deep_b"};
enum { PAGES = 512, BINS = 1 << 16 };
static size_t page;
static const char *path;
static uint64_t end_ns, trap_bins;

/* Touches by their length in units of 8 ticks: enough for medians and trimmed means of any number of them. Those too quick for a
 * trap, on pages that the fault of a neighbour has mapped, are left out. */
struct truth { uint64_t faults, touches, ticks_above, bins[BINS]; };
struct worker { pthread_t thread; unsigned seed; struct truth *truth; };

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

/* A trap and its return take 0.15 us at least; a load that misses every cache 0.1 us. */
static uint64_t bins_of_150_ns(void) {
    uint64_t begin_ns = now_ns(), begin = __rdtsc();
    while (now_ns() < begin_ns + 2000000) {}
    return 150 * (__rdtsc() - begin) / (now_ns() - begin_ns) / 8;
}

static inline void note(struct truth *truth, uint64_t ticks) {
    uint64_t bin = ticks / 8;
    if (bin < trap_bins) return;
    truth->touches++;
    truth->bins[bin < BINS ? bin : BINS - 1]++;
}

#define TOUCHES(step, access)                                   \
    for (char *at = base; at < base + len; at += (step)) {      \
        unsigned aux;                                           \
        uint64_t begin = __rdtscp(&aux);                        \
        access;                                                 \
        note(truth, __rdtscp(&aux) - begin);                    \
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

static char *map(int fd) {
    int flags = MAP_PRIVATE | (fd < 0 ? MAP_ANONYMOUS : 0);
    char *base = mmap(0, PAGES * page, PROT_READ | PROT_WRITE, flags, fd, 0);
    if (base == MAP_FAILED) { perror("mmap"); exit(2); }
    return base;
}

typedef void touch(char *, size_t, struct truth *);

static void counted(touch *site, char *base, struct truth *truth) {
    uint64_t before = faults_here();
    site(base, PAGES * page, truth);
    truth->faults += faults_here() - before;
}

static void once(int site, struct worker *self, int fd) {
    static touch *touches[SITES] = {first_write, read_zero, write_after_read, refault, read_file, write_file, deep_a, deep_b};
    struct truth *truth = &self->truth[site];
    int of_file = site == READ_FILE || site == WRITE_FILE;
    char *base = map(of_file ? fd : -1);
    if (site == WRITE_AFTER_READ) counted(read_zero, base, &self->truth[READ_ZERO]);
    if (site == REFAULT) {
        counted(first_write, base, &self->truth[WRITE]);
        madvise(base, PAGES * page, MADV_DONTNEED);
    }
    counted(touches[site], base, truth);
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
    trap_bins = bins_of_150_ns();
    page = sysconf(_SC_PAGESIZE);
    int threads = atoi(argv[1]);
    path = argv[3];
    int fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
    char *text = calloc(PAGES, page);
    memset(text, 'x', PAGES * page);
    if (write(fd, text, PAGES * page) != (ssize_t)(PAGES * page)) { perror(path); return 2; }
    free(text);
    close(fd);
    struct worker *workers = calloc(threads, sizeof *workers);
    for (int i = 0; i < threads; i++) {
        workers[i].seed = getpid() + 7919 * i;
        workers[i].truth = mmap(0, SITES * sizeof(struct truth), PROT_READ | PROT_WRITE,
                                MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    }
    uint64_t begin_ns = now_ns(), begin = __rdtsc();
    end_ns = begin_ns + atoll(argv[2]) * 1000000ull;
    for (int i = 0; i < threads; i++) pthread_create(&workers[i].thread, 0, work, &workers[i]);
    for (int i = 0; i < threads; i++) pthread_join(workers[i].thread, 0);
    double tick_ns = (double)(now_ns() - begin_ns) / (__rdtsc() - begin);
    printf("{");
    for (int site = 0; site < SITES; site++) {
        static uint64_t bins[BINS];
        uint64_t touches = 0, faults = 0, seen = 0, below = 0, kept = 0;
        memset(bins, 0, sizeof bins);
        for (int i = 0; i < threads; i++) {
            struct truth *truth = &workers[i].truth[site];
            touches += truth->touches;
            faults += truth->faults;
            for (int bin = 0; bin < BINS; bin++) bins[bin] += truth->bins[bin];
        }
        int median = 0;
        while (median < BINS - 1 && (seen += bins[median]) * 2 < touches) median++;
        for (int bin = 0; bin < BINS && bin <= 20 * median; bin++) kept += bins[bin], below += bins[bin] * (bin * 8 + 4);
        printf("%s\"%s\": {\"faults\": %lu, \"touches\": %lu, \"p50_ns\": %.1f, \"mean_ns\": %.1f}", site ? ", " : "",
               names[site], faults, touches, (median * 8 + 4) * tick_ns, kept ? below * tick_ns / kept : 0.0);
    }
    printf("}\n");
    return 0;
}
