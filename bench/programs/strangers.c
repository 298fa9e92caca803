/* Twenty ways to meet new pages, each with its own clock: `strangers WAY TIMES` goes it so many times, and prints the CPU time
 * in ns that its faults took. The clock is that of the thread: the touch of some memory less that of as much memory by the same
 * code without faults. A fault leaves what it fills in the cache, so this is memory in the cache; of a file, the same again. `strangers hog` never ends: two busy loops, and huge pages that come and go. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <malloc.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define MIB ((size_t)1 << 20)
enum { PAGE = 4096 };
typedef void touch(volatile char *at, size_t len);
static atomic_long *truth;
static _Alignas(PAGE) char zeros[96 * MIB], cached[8 * PAGE];

static long cpu_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return now.tv_sec * 1000000000l + now.tv_nsec;
}
static void timed_beside(touch *touch, volatile char *at, size_t len, volatile char *other, size_t step) {
    long before = cpu_ns();
    touch(at, len);
    long between = cpu_ns();
    for (size_t done = 0; done < len; done += step) touch(other, step);
    *truth += (between - before) - (cpu_ns() - between);
}
static void timed(touch *touch, volatile char *at, size_t len) { timed_beside(touch, at, len, cached, sizeof cached); }
static void upwards(volatile char *at, size_t len) { for (size_t i = 0; i < len; i += PAGE) at[i] = 1; }
static void downwards(volatile char *at, size_t len) { for (size_t i = len; i > 0; i -= PAGE) at[i - 1] = 1; }
static void across(volatile char *at, size_t len) { for (size_t i = 0, n = len / PAGE; i < n; i++) at[i * 40507 % n * PAGE] = 1; }
static void look(volatile char *at, size_t len) { for (size_t i = 0; i < len; i += PAGE) (void)at[i]; }
/* For faults that map many pages: few touches without a fault, whose own time differs, are between two. */
static void glance(volatile char *at, size_t len) { for (size_t i = 0; i < len; i += 64 * PAGE) (void)at[i]; }
static void sparsely(volatile char *at, size_t len) { for (size_t i = 0; i < len; i += 64 * PAGE) at[i] = 1; }
static void read_into(volatile char *at, size_t len) {
    int zero = open("/dev/zero", O_RDONLY);
    if (read(zero, (char *)at, len) < 0) abort();
    close(zero);
}
static struct { void *at; size_t len; } mapped[64];
static atomic_int mappings;
static void *map(size_t len, int flags, int file) {
    void *at = mmap(0, len, PROT_READ | PROT_WRITE, flags, file, 0);
    if (at == MAP_FAILED) abort();
    int number = mappings++;
    mapped[number].at = at;
    mapped[number].len = len;
    return at;
}
/* Gives all memory and files back, for the next time. */
static void give_back(void) {
    while (mappings) {
        mappings--;
        munmap(mapped[mappings].at, mapped[mappings].len);
    }
    madvise(zeros, sizeof zeros, MADV_DONTNEED);
    close_range(3, ~0u, 0);
}
static char *fresh(size_t len) { return map(len, MAP_PRIVATE | MAP_ANONYMOUS, -1); }
static int file(size_t len) {
    int file = fileno(tmpfile());
    for (; len; len -= sizeof zeros / 96)
        if (write(file, zeros, sizeof zeros / 96) < 0) abort();
    return file;
}
static int nothing(size_t len) {
    int file = memfd_create("x", 0);
    if (ftruncate(file, len)) abort();
    return file;
}
static char *huge(size_t len) {
    char *at = fresh(len + 2 * MIB);
    madvise(at, len + 2 * MIB, MADV_HUGEPAGE);
    return at;
}
static void *thread(void *none) { return timed(upwards, fresh(48 * MIB), 48 * MIB), none; }
static void threads(int count) {
    pthread_t all[count];
    for (int i = 0; i < count; i++) pthread_create(&all[i], NULL, thread, NULL);
    for (int i = 0; i < count; i++) pthread_join(all[i], NULL);
}
static __attribute__((noinline)) size_t deeper(size_t levels) {
    volatile char frame[PAGE];
    frame[0] = 1;
    return levels ? deeper(levels - 1) + frame[0] : 0;
}
static void recurse(volatile char *at, size_t len) { (void)at; deeper(len / PAGE); }
static void *deep(void *none) { return timed(recurse, NULL, 90 * MIB), none; }
static void on_a_stack(void) {
    pthread_attr_t attr;
    pthread_t one;
    pthread_attr_init(&attr);
    pthread_attr_setstacksize(&attr, 128 * MIB);
    pthread_create(&one, &attr, deep, NULL);
    pthread_join(one, NULL);
}
static void after_fork(int in_child) {
    char *at = fresh(128 * MIB);
    timed(upwards, at, 128 * MIB);
    int gate[2];
    if (pipe(gate)) abort();
    pid_t child = fork();
    if (!child) {
        if (in_child) timed(upwards, at, 128 * MIB);
        else if (read(gate[0], gate, 1) < 0) abort();
        _exit(0);
    }
    if (!in_child) timed(upwards, at, 128 * MIB);
    if (write(gate[1], "", 1) < 0) abort();
    waitpid(child, NULL, 0);
}
static void children(int count) {
    for (int i = 0; i < count; i++) {
        if (!fork()) { timed(upwards, fresh(12 * MIB), 12 * MIB); _exit(0); }
        wait(NULL);
    }
}
static void blocks(size_t len, int count) {
    for (int i = 0; i < count; i++) {
        char *block = malloc(len);
        timed(upwards, block, len);
        free(block);
        malloc_trim(0);
    }
}
static void again(int count) {
    char *at = fresh(8 * MIB);
    for (int i = 0; i < count; i++) timed(upwards, at, 8 * MIB), madvise(at, 8 * MIB, MADV_DONTNEED);
}
static void grown(void) {
    char *at = fresh(MIB);
    for (size_t len = MIB; len < 256 * MIB; len *= 2) {
        at = mapped[0].at = mremap(at, len, 2 * len, MREMAP_MAYMOVE);
        mapped[0].len = 2 * len;
        timed(upwards, at + len, len);
    }
}
static void computing(void) {
    volatile unsigned long sum = 0;
    for (int i = 0; i < 60; i++) {
        timed(upwards, fresh(MIB), MIB);
        for (unsigned long n = 0; n < 8000000; n++) sum += n * sum;
    }
}
static void *busy(void *none) { for (;;) ; return none; }
static void hog(void) {
    pthread_t one;
    for (int i = 0; i < 2; i++) pthread_create(&one, NULL, busy, NULL);
    for (;;) {
        char *at = huge(64 * MIB);
        upwards(at, 64 * MIB);
        munmap(at, 66 * MIB);
        usleep(2000);
    }
}
static void zero_first(void) {
    char *at = fresh(96 * MIB);
    timed(look, at, 96 * MIB);
    timed(upwards, at, 96 * MIB);
}
static void read_file(int count) {
    for (int from = file(256 * MIB), i = 0; i < count; i++) {
        char *at = map(256 * MIB, MAP_SHARED, from);
        timed_beside(glance, at, 256 * MIB, at, 256 * MIB);
    }
}
static void steps(void) {
    for (int i = 0; i < 700; i++) timed(upwards, sbrk(128 << 10), 128 << 10);
    sbrk(-700 * (128 << 10));
}

static int go(const char *way) {
    if (!strcmp(way, "blocks")) blocks(3 * MIB, 60);
    else if (!strcmp(way, "large-blocks")) blocks(40 * MIB, 4);
    else if (!strcmp(way, "downwards")) timed(downwards, fresh(128 * MIB), 128 * MIB);
    else if (!strcmp(way, "across")) timed(across, fresh(192 * MIB), 192 * MIB);
    else if (!strcmp(way, "threads")) threads(4);
    else if (!strcmp(way, "shared")) timed(upwards, map(128 * MIB, MAP_SHARED, nothing(128 * MIB)), 128 * MIB);
    else if (!strcmp(way, "file-read")) read_file(30);
    else if (!strcmp(way, "file-private")) timed(upwards, map(128 * MIB, MAP_PRIVATE, file(128 * MIB)), 128 * MIB);
    else if (!strcmp(way, "child-copies")) after_fork(1);
    else if (!strcmp(way, "parent-copies")) after_fork(0);
    else if (!strcmp(way, "zero-first")) zero_first();
    else if (!strcmp(way, "again")) again(16);
    else if (!strcmp(way, "stack")) on_a_stack();
    else if (!strcmp(way, "huge")) timed(sparsely, huge(512 * MIB), 512 * MIB);
    else if (!strcmp(way, "mixed")) timed(upwards, fresh(64 * MIB), 64 * MIB), timed(sparsely, huge(256 * MIB), 256 * MIB);
    else if (!strcmp(way, "heap")) steps();
    else if (!strcmp(way, "grown")) grown();
    else if (!strcmp(way, "bss")) timed(upwards, zeros, sizeof zeros);
    else if (!strcmp(way, "computing")) computing();
    else if (!strcmp(way, "children")) children(12);
    else if (!strcmp(way, "system-call")) timed(read_into, fresh(128 * MIB), 128 * MIB);
    else return 0;
    return 1;
}

int main(int argc, char **argv) {
    const char *way = argc > 1 ? argv[1] : "";
    if (!strcmp(way, "hog")) hog();
    memset(cached, 1, sizeof cached);
    truth = mmap(0, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    for (int times = argc > 2 ? atoi(argv[2]) : 1; times > 0; times--) {
        if (!go(way)) return 2;
        give_back();
    }
    printf("%ld\n", (long)*truth);
    return 0;
}
