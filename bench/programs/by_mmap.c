/* Programs whose page faults, or whose waits, have one mechanism that no malloc takes part in: by_mmap NAME. A second or less
 * each; `file.bin` in the working directory is theirs. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { KIB = 1 << 10, MIB = 1 << 20, PAGE = 4 * KIB };

static volatile unsigned long sum;
static void take(char *block, size_t bytes) { memset(block, 1, bytes); }

static void touch(char *block, size_t bytes, int is_write) {
    for (size_t at = 0; at < bytes; at += PAGE)
        if (is_write) block[at] = 1;
        else sum += block[at];
}

static char *map(size_t bytes, int flags, int file) {
    char *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, flags | (file < 0 ? MAP_ANONYMOUS : 0), file, 0);
    if (p == MAP_FAILED) exit(3);
    return p;
}

/* Base pages, so that each is a fault whatever the machine's settings. */
static char *map_base(size_t bytes) {
    char *p = map(bytes, MAP_PRIVATE, -1);
    madvise(p, bytes, MADV_NOHUGEPAGE);
    return p;
}

/* ---- memory of the program's own ---- */

static void map_a_chunk(void) {
    for (int i = 0; i < 300; i++) {
        char *chunk = map_base(2 * MIB);
        take(chunk, 2 * MIB);
        munmap(chunk, 2 * MIB);
    }
}

static void advise_a_chunk(void) {
    char *chunk = map_base(4 * MIB);
    for (int i = 0; i < 150; i++) take(chunk, 4 * MIB), madvise(chunk, 4 * MIB, MADV_DONTNEED);
}

/* Taken once each, and kept. */
static void chunks_kept(void) {
    for (int i = 0; i < 150; i++) take(map_base(2 * MIB), 2 * MIB);
}

static void table_kept(void) { touch(map_base(400 * MIB), 400 * MIB, 1); }

static void populate_a_round(void) {
    for (int i = 0; i < 60; i++) munmap(map(8 * MIB, MAP_PRIVATE | MAP_POPULATE, -1), 8 * MIB);
}

/* Nothing is populated where nothing may be accessed. */
static void populate_too_early(void) {
    char *p = mmap(NULL, 300 * MIB, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    mprotect(p, 300 * MIB, PROT_READ | PROT_WRITE);
    touch(p, 300 * MIB, 1);
}

/* ---- fork ---- */

static void child_writes(void) {
    char *block = map_base(24 * MIB);
    for (int i = 0; i < 12; i++) {
        take(block, 24 * MIB);
        pid_t child = fork();
        if (!child) take(block, 24 * MIB), _exit(0);
        waitpid(child, NULL, 0);
    }
}

/* A snapshot: the child reads while the parent goes on writing. */
static void snapshot(void) {
    int ends[2];
    char *block = map_base(64 * MIB), byte;
    take(block, 64 * MIB);
    for (int i = 0; i < 4; i++) {
        if (pipe(ends)) exit(3);
        pid_t child = fork();
        if (!child) _exit(close(ends[1]) + (int)read(ends[0], &byte, 1));
        close(ends[0]), take(block, 64 * MIB), close(ends[1]);
        waitpid(child, NULL, 0);
    }
}

static void forks(int children, char *const program[]) {
    char *block = map_base(500 * MIB);
    touch(block, 500 * MIB, 1);
    for (int i = 0; i < children; i++) {
        pid_t child = fork();
        if (!child) program ? execv(program[0], program) : 0, _exit(0);
        waitpid(child, NULL, 0);
    }
}

static void fork_and_end(void) { forks(60, NULL); }
static void fork_and_execute(void) { forks(25, (char *[]){"/bin/true", NULL}); }

/* ---- files and shared memory ---- */

static int file(size_t bytes, int is_cold) {
    int file = open("file.bin", O_RDWR | O_CREAT, 0600);
    static char block[MIB] = {1};
    for (size_t at = 0; at < bytes; at += MIB)
        if (pwrite(file, block, MIB, at) != MIB) exit(3);
    if (is_cold) fsync(file), posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED);
    return file;
}

static void file_read(void) {
    int of = file(64 * MIB, 0);
    for (int i = 0; i < 60; i++) {
        char *p = map(64 * MIB, MAP_SHARED, of);
        touch(p, 64 * MIB, 0);
        munmap(p, 64 * MIB);
    }
}

static void file_copied(void) { touch(map(192 * MIB, MAP_PRIVATE, file(192 * MIB, 0)), 192 * MIB, 1); }

static void cold_in_order(void) {
    int of = file(192 * MIB, 1);
    touch(map(192 * MIB, MAP_SHARED, of), 192 * MIB, 0);
}

static void cold_at_random(void) {
    size_t pages = 192 * MIB / PAGE;
    char *p = map(192 * MIB, MAP_SHARED, file(192 * MIB, 1));
    madvise(p, 192 * MIB, MADV_RANDOM);
    for (size_t i = 0; i < 2500; i++) sum += p[i * 40503 % pages * PAGE];
}

static void shared(void) { touch(map(300 * MIB, MAP_SHARED, -1), 300 * MIB, 1); }

static void shared_file(void) {
    int of = memfd_create("table", 0);
    if (ftruncate(of, 300 * MIB)) exit(3);
    touch(map(300 * MIB, MAP_SHARED, of), 300 * MIB, 1);
}

static void shared_a_message(void) {
    for (int i = 0; i < 150; i++) {
        int of = memfd_create("message", 0);
        if (ftruncate(of, 2 * MIB)) exit(3);
        char *p = map(2 * MIB, MAP_SHARED, of);
        take(p, 2 * MIB);
        munmap(p, 2 * MIB), close(of);
    }
}

/* ---- others wait ---- */

static volatile int is_over;
static char *region;
enum { REGION = 200 * MIB, PART = 32 * MIB };

static void beside(void *(*other)(void *), void (*work)(void)) {
    pthread_t thread;
    pthread_create(&thread, NULL, other, NULL);
    work();
    is_over = 1;
    pthread_join(thread, NULL);
}

/* Splits the mapping that the other thread fills, and joins it again: each call changes many pages under the lock. */
static void protects(int rights) {
    char *part = region + REGION - PART;
    while (!is_over) mprotect(part, PART / 2, rights), mprotect(part, PART / 2, PROT_READ | PROT_WRITE);
}

static void *to_read(void *unused) { return protects(PROT_READ), unused; }
static void *to_nothing(void *unused) { return protects(PROT_NONE), unused; }
/* Seldom, so that what it takes is the waiting. */
static void fill_region(void) {
    for (size_t at = 0; at < 1500; at++) region[at * PAGE] = 1, usleep(100);
}

static void spin(void) {
    unsigned long x = 1;
    for (long i = 0; i < 300000000; i++) x = x * 6364136223846793005u + 1442695040888963407u;
    sum = x;
}

/* Moves pages to and fro: no fault, and an interrupt for each processor that runs another thread. */
static void *moves(void *pages) {
    size_t bytes = (uintptr_t)pages * PAGE;
    char *place[2] = {map_base(bytes), map_base(bytes)};
    take(place[0], bytes);
    for (int i = 0; !is_over; i++)
        if (mremap(place[i % 2], bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED, place[1 - i % 2]) == MAP_FAILED) exit(3);
    return NULL;
}

static void *moves_one(void *unused) { return (void)unused, moves((void *)1); }
static void *moves_some(void *unused) { return (void)unused, moves((void *)16); }

static void writer(void *(*writer)(void *)) {
    region = map_base(REGION);
    touch(region + REGION - PART, PART, 1);
    beside(writer, fill_region);
}

static void writer_protects(void) { writer(to_read); }
static void writer_forbids(void) { writer(to_nothing); }
static void victim(void) { beside(moves_one, spin); }
static void victim_of_more(void) { beside(moves_some, spin); }

static int handler_file;
static int is_zero;

static void *fills(void *unused) {
    static char page[PAGE] __attribute__((aligned(PAGE))) = {1};
    struct uffd_msg message;
    while (read(handler_file, &message, sizeof message) == sizeof message) {
        size_t at = message.arg.pagefault.address & -(size_t)PAGE;
        struct uffdio_copy copy = {.dst = at, .src = (uintptr_t)page, .len = PAGE};
        struct uffdio_zeropage zero = {.range = {at, PAGE}};
        if (is_zero) ioctl(handler_file, UFFDIO_ZEROPAGE, &zero);
        else ioctl(handler_file, UFFDIO_COPY, &copy);
    }
    return unused;
}

static void filled(int pages) {
    struct uffdio_api api = {.api = UFFD_API};
    pthread_t thread;
    handler_file = syscall(SYS_userfaultfd, O_CLOEXEC);
    region = map_base((size_t)pages * PAGE);
    struct uffdio_register all = {.range = {(uintptr_t)region, (size_t)pages * PAGE}, .mode = UFFDIO_REGISTER_MODE_MISSING};
    if (handler_file < 0 || ioctl(handler_file, UFFDIO_API, &api) || ioctl(handler_file, UFFDIO_REGISTER, &all)) exit(3);
    pthread_create(&thread, NULL, fills, NULL);
    touch(region, (size_t)pages * PAGE, 0);
}

static void filled_by_copies(void) { filled(20000); }
static void filled_by_zeroes(void) { is_zero = 1, filled(20000); }

int main(int count, char **words) {
    static const struct { const char *name; void (*run)(void); } programs[] = {
        {"map-a-chunk", map_a_chunk}, {"advise-a-chunk", advise_a_chunk}, {"chunks-kept", chunks_kept},
        {"table-kept", table_kept}, {"populate-a-round", populate_a_round},
        {"populate-too-early", populate_too_early}, {"child-writes", child_writes}, {"snapshot", snapshot},
        {"fork-and-end", fork_and_end}, {"fork-and-execute", fork_and_execute}, {"file-read", file_read},
        {"file-copied", file_copied}, {"cold-in-order", cold_in_order}, {"cold-at-random", cold_at_random},
        {"shared", shared}, {"shared-file", shared_file}, {"shared-a-message", shared_a_message},
        {"writer-protects", writer_protects}, {"writer-forbids", writer_forbids}, {"victim", victim},
        {"victim-of-more", victim_of_more}, {"filled-by-copies", filled_by_copies},
        {"filled-by-zeroes", filled_by_zeroes}};
    for (size_t at = 0; at < sizeof programs / sizeof *programs; at++)
        if (count > 1 && !strcmp(words[1], programs[at].name)) return programs[at].run(), 0;
    return fprintf(stderr, "there is no program of this name\n"), 2;
}
