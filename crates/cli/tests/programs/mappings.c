/* A program that maps memory for itself: mappings WAY. It prints what it finds, the same on any kernel; nothing is wrong if no
 * line begins with WRONG. The ways `faults` and `rests` print numbers. */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#ifndef MADV_GUARD_INSTALL
#define MADV_GUARD_INSTALL 102
#endif
#ifndef MAP_FIXED_NOREPLACE
#define MAP_FIXED_NOREPLACE 0x100000
#endif

enum { KIB = 1 << 10, MIB = 1 << 20, PAGE = 4 * KIB, ROUNDS = 9 };
static const size_t lengths[] = {64 * KIB, 68 * KIB, 76 * KIB, 256 * KIB, MIB + PAGE, 2 * MIB, 3 * MIB + 5, 16 * MIB, 40 * MIB};
enum { LENGTHS = sizeof lengths / sizeof *lengths };

static void expect(int is_true, const char *what) {
    if (!is_true) printf("WRONG: %s\n", what), fflush(stdout);
}

static int is_raw;

static char *map_at(void *at, size_t len, int more) {
    int flags = MAP_PRIVATE | MAP_ANONYMOUS | more;
    char *p = is_raw ? (char *)syscall(SYS_mmap, at, len, PROT_READ | PROT_WRITE, flags, -1, 0L)
                     : mmap(at, len, PROT_READ | PROT_WRITE, flags, -1, 0);
    return p;
}

static char *map(size_t len) {
    char *p = map_at(NULL, len, 0);
    expect(p != MAP_FAILED && (uintptr_t)p % PAGE == 0, "a mapping");
    return p;
}

static void unmap(void *p, size_t len) { expect((is_raw ? syscall(SYS_munmap, p, len) : munmap(p, len)) == 0, "munmap"); }

static int is_all(const char *p, char byte, size_t len) { return len == 0 || (*p == byte && !memcmp(p, p + 1, len - 1)); }

/* Zero, writable to its end, and the same in a child. */
static void use(char *p, size_t len) {
    expect(is_all(p, 0, len), "not zero");
    memset(p, 7, len);
    pid_t child = fork();
    if (child == 0) _exit(!is_all(p, 7, len));
    int status = 0;
    expect(waitpid(child, &status, 0) == child && status == 0, "a child's content");
}

static void rounds(void) {
    for (int i = 0; i < 3 * LENGTHS; i++) {
        size_t len = lengths[i % LENGTHS];
        char *p = map(len), *q = map(len);
        expect(is_all(p, 0, len) && is_all(q, 0, len), "not zero");
        memset(p, 1, i % 2 ? len : PAGE), memset(q + len / 2, 2, PAGE);
        expect(is_all(p, 1, PAGE) && is_all(q, 0, PAGE), "two in one place");
        is_raw = i % 3 == 0;
        unmap(p, len), unmap(q, len);
    }
}

/* Holes at all places, and allocators that cut a mapping to an aligned one. */
static void parts(void) {
    for (int i = 0; i < ROUNDS; i++) {
        size_t len = MIB + i % 3 * PAGE, at = (1 + i * 13 % 200) * PAGE;
        char *p = map(len), *beside = map(len);
        unsigned char in;
        memset(p, 3, len), memset(beside, 4, len);
        unmap(p + at, 2 * PAGE);
        expect(mincore(p + at, PAGE, &in) != 0 && errno == ENOMEM, "a hole is there");
        expect(is_all(p, 3, at) && is_all(p + at + 2 * PAGE, 3, len - at - 2 * PAGE), "beside a hole");
        char *again = map(len);
        expect(is_all(again, 0, len), "not zero");
        if (i % 2) expect(map_at(p + at, 2 * PAGE, MAP_FIXED_NOREPLACE) == p + at, "a hole is filled"), unmap(p, len);
        else unmap(p, at), unmap(p + at + 2 * PAGE, len - at - 2 * PAGE);
        expect(is_all(beside, 4, len), "a neighbour");
        unmap(beside, len), unmap(again, len);
        char *wide = map(4 * MIB), *aligned = (char *)(((uintptr_t)wide + 2 * MIB - 1) & -(uintptr_t)(2 * MIB));
        if (aligned > wide) unmap(wide, aligned - wide);
        unmap(aligned + 2 * MIB, wide + 4 * MIB - aligned - 2 * MIB);
        use(aligned, 2 * MIB), unmap(aligned, 2 * MIB);
    }
    char *both[2] = {map(MIB), map(MIB)};
    char *low = both[0] < both[1] ? both[0] : both[1], *high = low == both[0] ? both[1] : both[0];
    if (high - low == MIB) unmap(low, 2 * MIB);
    else unmap(low, MIB), unmap(high, MIB);
}

/* What lasts ends with the mapping. */
static void altered(void) {
    char name[] = "/tmp/faultless-mappings-XXXXXX", byte = 0;
    int file = mkstemp(name);
    unlink(name);
    expect(ftruncate(file, PAGE) == 0, "a file");
    for (int i = 0; i < 9 * 2; i++) {
        size_t len = 2 * MIB;
        char *p = map(len), *page = p + i % 9 * 50 * PAGE;
        memset(p, 1, len);
        switch (i % 9) {
        case 0: mprotect(page, PAGE, PROT_NONE); break;
        case 1: mprotect(p, len, PROT_READ); break;
        case 2: madvise(page, PAGE, MADV_DONTFORK); break;
        case 3: madvise(page, PAGE, MADV_WIPEONFORK); break;
        case 4: madvise(page, PAGE, MADV_GUARD_INSTALL); break;
        case 5: mlock(page, PAGE); break;
        case 6: expect(mmap(page, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file, 0) == page, "a file's page"); break;
        case 7: mprotect(page, PAGE, PROT_READ), mprotect(page, PAGE, PROT_READ | PROT_WRITE); break;
        default: madvise(p, len, MADV_DONTNEED), expect(is_all(p, 0, len), "not needed");
        }
        unmap(p, len);
        p = map(len);
        use(p, len), unmap(p, len);
    }
    expect(pread(file, &byte, 1, 0) == 1 && byte == 0, "the file was written to");
}

static void moved(void) {
    for (int i = 0; i < ROUNDS; i++) {
        size_t len = lengths[i % LENGTHS] / PAGE * PAGE, to = len;
        char *p = map(len), *q;
        memset(p, 5, len);
        if (i % 4 == 3) mprotect(p, PAGE, PROT_READ);
        expect(mremap(p, len, len, 0) == p, "moved by nothing");
        for (int times = 0; i % 4 != 3 && times < 3; times++, to = to * 2, p = q) {
            q = mremap(p, to, to * 2, MREMAP_MAYMOVE);
            expect(q != MAP_FAILED && is_all(q, 5, len) && is_all(q + len, 0, 2 * to - len), "after it grew");
            if (q == MAP_FAILED) return;
        }
        q = mremap(p, to, to / 2 / PAGE * PAGE, MREMAP_MAYMOVE);
        expect(q != MAP_FAILED && is_all(q, 5, PAGE), "after it shrank");
        unmap(q, to / 2 / PAGE * PAGE);
        p = map(len);
        use(p, len);
        char *place = map(len);
        expect(mremap(p, len, len, MREMAP_MAYMOVE | MREMAP_FIXED, place) == place && is_all(place, 7, len), "moved to a place");
        unmap(place, len);
    }
}

/* Programs that reckon with the addresses of what they unmapped. */
static void again(void) {
    for (int i = 0; i < ROUNDS; i++) {
        size_t len = lengths[i % LENGTHS] / PAGE * PAGE;
        char *p = map(len), *others[3];
        memset(p, 1, len);
        unmap(p, len), unmap(p, len), unmap(p, len);
        expect(munmap(p + 1, len) == -1 && errno == EINVAL && munmap(p, 0) == -1, "no munmap");
        char *q = i % 3 == 0 ? map_at(p, len, MAP_FIXED) : i % 3 == 1 ? map_at(p, len, MAP_FIXED_NOREPLACE) : map_at(p, len, 0);
        expect(q == p && is_all(q, 0, len), "the same place");
        memset(q, 8, len);
        for (int n = 0; n < 3; n++) use(others[n] = map(len), len);
        expect(is_all(q, 8, len), "taken by another");
        for (int n = 0; n < 3; n++) unmap(others[n], len);
        unmap(q, len);
        expect(mprotect(q, PAGE, PROT_READ) == -1 && errno == ENOMEM, "protected what is unmapped");
        use(others[0] = map(len), len), unmap(others[0], len);
    }
}

static void seen(void) {
    for (int i = 0; i < ROUNDS; i++) {
        size_t len = lengths[i % LENGTHS] / PAGE * PAGE, from, to;
        char *p = map(len), line[300], rights[5];
        unsigned char in[40 * MIB / PAGE];
        uintptr_t at = (uintptr_t)p;
        FILE *maps = fopen("/proc/self/maps", "r");
        while (fgets(line, sizeof line, maps))
            if (sscanf(line, "%zx-%zx %4s", &from, &to, rights) == 3 && from <= at && at < to && !strcmp(rights, "rw-p")) at = to;
        fclose(maps);
        expect(at >= (uintptr_t)p + len, "in /proc/self/maps");
        memset(p, 1, len);
        expect(msync(p, len, MS_SYNC) == 0 && mincore(p, len, in) == 0 && in[len / PAGE / 2] & 1, "msync and mincore");
        expect(madvise(p, len, MADV_DONTNEED) == 0 && is_all(p, 0, len) && madvise(p, len, MADV_WILLNEED) == 0, "madvise");
        memset(p, 1, len);
        madvise(p, len, MADV_FREE), madvise(p, len, MADV_SEQUENTIAL), madvise(p, len, MADV_HUGEPAGE);
        unmap(p, len);
    }
}

static void *churn(void *number) {
    for (int i = 0; i < 120; i++) {
        size_t len = lengths[(i + (intptr_t)number) % 6];
        char *p = map(len), byte = 1 + (intptr_t)number;
        expect(p[0] == 0 && p[len / 2] == 0 && p[len - 1] == 0, "not zero");
        memset(p, byte, len);
        if (i % 50 == 0) unmap(p + PAGE, PAGE), expect(map_at(p + PAGE, PAGE, MAP_FIXED) == p + PAGE, "a hole");
        else expect(is_all(p, byte, len), "another thread's");
        unmap(p, len);
    }
    return NULL;
}

static void threads(void) {
    pthread_t threads[4];
    for (intptr_t n = 0; n < 4; n++) pthread_create(&threads[n], NULL, churn, (void *)n);
    for (int n = 0; n < 4; n++) {
        pid_t child = fork();
        if (child == 0) churn((void *)(intptr_t)n), _exit(0);
        int status = 0;
        expect(waitpid(child, &status, 0) == child && status == 0, "a child among threads");
    }
    for (int n = 0; n < 4; n++) pthread_join(threads[n], NULL);
}

/* A child gives back what its parent mapped, and maps anew. */
static void forks(void) {
    char *p = map(3 * MIB), *q = map(3 * MIB);
    memset(p, 1, 3 * MIB), memset(q, 2, 3 * MIB), unmap(q, 3 * MIB);
    for (int i = 0; i < 6; i++) {
        pid_t child = i % 2 ? fork() : vfork();
        if (child == 0 && i % 2 == 0) _exit(0);
        if (child == 0) unmap(p, 3 * MIB), use(map(3 * MIB), 3 * MIB), use(map(3 * MIB), 3 * MIB), fflush(stdout), _exit(0);
        int status = 0;
        expect(waitpid(child, &status, 0) == child && status == 0, "a child");
        expect(is_all(p, 1, 3 * MIB), "the parent's");
        use(q = map(3 * MIB), 3 * MIB), unmap(q, 3 * MIB);
    }
}

/* Near a limit on addresses a program gets nearly as much as without the pool. */
static void limit(void) {
    for (int i = 0; i < 40; i++) {
        char *p = map(4 * MIB);
        memset(p, 1, 4 * MIB), unmap(p, 4 * MIB);
    }
    struct rlimit limit = {600 * MIB, 600 * MIB};
    setrlimit(RLIMIT_AS, &limit);
    for (int i = 0; i < 3; i++) {
        char *blocks[600];
        int count = 0;
        while (count < 600 && (blocks[count] = map_at(NULL, MIB, 0)) != MAP_FAILED) count++;
        expect(count > 400 && errno == ENOMEM, "less than the limit");
        for (int n = 0; n < count; n++) expect(blocks[n][5] == 0, "not zero"), blocks[n][5] = 1, unmap(blocks[n], MIB);
    }
}

/* Nothing is kept after these. */
static void locked(void) {
    char *p = map(MIB), *q = map(MIB);
    memset(p, 1, MIB);
    if (syscall(SYS_userfaultfd, 1 /* UFFD_USER_MODE_ONLY */) == -2) expect(0, "?");
    unmap(p, MIB);
    mlockall(MCL_CURRENT);
    use(p = map(MIB), MIB), unmap(p, MIB), use(q, MIB), unmap(q, MIB), munlockall();
}

static long faults(void) {
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return usage.ru_minflt;
}

static long resident_mib(void) {
    long all, pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    if (fscanf(file, "%ld %ld", &all, &pages) != 2) pages = -1;
    fclose(file);
    return pages * PAGE / MIB;
}

/* Faults, of so many pages in mappings of this length: `faults KIB TOUCHED_KIB`. */
static void count(size_t len, size_t touched) {
    long before = faults();
    for (int i = 0; i < 100; i++) {
        char *p = map(len);
        for (size_t at = 0; at < touched; at += PAGE) p[at] = 1;
        unmap(p, len);
    }
    printf("%ld %zu\n", faults() - before, 100 * touched / PAGE);
}

static void rests(void) {
    char *p[60];
    for (int i = 0; i < 60; i++) memset(p[i] = map(2 * MIB), 1, 2 * MIB);
    for (int i = 0; i < 60; i++) unmap(p[i], 2 * MIB);
    long begin = resident_mib();
    for (int i = 0; i < 100 && resident_mib() > 40; i++) usleep(50000);
    printf("%ld %ld\n", begin, resident_mib());
}

int main(int count_of_words, char **words) {
    static const struct { const char *name; void (*way)(void); } ways[] = {{"rounds", rounds}, {"parts", parts},
        {"altered", altered}, {"moved", moved}, {"again", again}, {"seen", seen}, {"threads", threads}, {"forks", forks},
        {"limit", limit}, {"locked", locked}, {"rests", rests}};
    const char *name = count_of_words > 1 ? words[1] : "";
    if (!strcmp(name, "faults")) return count(atoi(words[2]) * (size_t)KIB, atoi(words[3]) * (size_t)KIB), 0;
    for (size_t at = 0; at < sizeof ways / sizeof *ways; at++) {
        if (strcmp(name, ways[at].name)) continue;
        ways[at].way();
        is_raw = 1;
        if (ways[at].way != rests && ways[at].way != limit) ways[at].way();
        printf("done\n");
        return 0;
    }
    return 2;
}
