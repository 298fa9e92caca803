/* Changes one page of a block, frees the block and allocates again, many times. Every new block must be readable,
 * writable, zero after calloc, and the same in a forked child. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#ifndef MADV_GUARD_INSTALL
#define MADV_GUARD_INSTALL 102
#endif

/* glibc 2.36. */
extern ssize_t process_madvise(int, const struct iovec *, size_t, int, unsigned) __attribute__((weak));

static size_t page;
static int file;

/* Linux 6.13 lets a process advise itself this way. */
static int advises_itself(char *at, int advice) {
    struct iovec range = {at, page};
    int process = syscall(SYS_pidfd_open, getpid(), 0);
    if (process < 0 || !process_madvise) return errno = ENOSYS;
    ssize_t advised = process_madvise(process, &range, 1, advice, 0);
    int error = errno;
    close(process);
    errno = error;
    return advised < 0;
}

static int changes(const char *way, char *at) {
    if (!strcmp(way, "none")) return mprotect(at, page, PROT_NONE);
    if (!strcmp(way, "read")) return mprotect(at, page, PROT_READ);
    if (!strcmp(way, "key")) return pkey_mprotect(at, page, PROT_READ, -1);
    if (!strcmp(way, "lock")) return mlock(at, page);
    if (!strcmp(way, "lock2")) return mlock2(at, page, MLOCK_ONFAULT);
    if (!strcmp(way, "dontfork")) return madvise(at, page, MADV_DONTFORK);
    if (!strcmp(way, "wipe")) return madvise(at, page, MADV_WIPEONFORK);
    if (!strcmp(way, "guard")) return madvise(at, page, MADV_GUARD_INSTALL);
    if (!strcmp(way, "nodump")) return madvise(at, page, MADV_DONTDUMP);
    if (!strcmp(way, "merge")) return madvise(at, page, MADV_MERGEABLE);
    if (!strcmp(way, "own-dontfork")) return advises_itself(at, MADV_DONTFORK);
    if (!strcmp(way, "own-guard")) return advises_itself(at, MADV_GUARD_INSTALL);
    if (!strcmp(way, "raw-none")) return syscall(SYS_mprotect, at, page, PROT_NONE);
    if (!strcmp(way, "raw-dontfork")) return syscall(SYS_madvise, at, page, MADV_DONTFORK);
    if (!strcmp(way, "raw-lock")) return syscall(SYS_mlock, at, page);
    if (!strcmp(way, "raw-unmap")) return syscall(SYS_munmap, at, page);
    if (!strcmp(way, "raw-move")) return syscall(SYS_mremap, at, page, page, MREMAP_MAYMOVE | MREMAP_FIXED, at + 64 * page) == -1;
    if (!strcmp(way, "raw-file")) return syscall(SYS_mmap, at, page, PROT_READ, MAP_PRIVATE | MAP_FIXED, file, 0) == -1;
    if (!strcmp(way, "random")) return posix_madvise(at, page, POSIX_MADV_RANDOM);
    if (!strcmp(way, "unmap")) return munmap(at, page);
    const int to_place = MREMAP_MAYMOVE | MREMAP_FIXED;
    if (!strcmp(way, "move")) return mremap(at, page, page, to_place, at + 64 * page) == MAP_FAILED;
    if (!strcmp(way, "away")) return mremap(at, page, 2 * page, MREMAP_MAYMOVE) == MAP_FAILED;
    if (!strcmp(way, "file")) return mmap(at, page, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file, 0) != at;
    if (!strcmp(way, "file64")) return mmap64(at, page, PROT_READ, MAP_PRIVATE | MAP_FIXED, file, 0) != at;
    exit(9);
}

/* Whether no mapping of a block has flags that only a program sets. */
static int is_unflagged(char *block, size_t len) {
    static const char *flags[] = {" dc", " wf", " dd", " mg", " rr", " sr", " lo", " lf"};
    char line[512];
    int is_inside = 0, found = 0;
    FILE *maps = fopen("/proc/self/smaps", "r");
    while (maps && fgets(line, sizeof line, maps)) {
        uintptr_t begin, end;
        if (sscanf(line, "%lx-%lx ", &begin, &end) == 2) is_inside = begin < (uintptr_t)block + len && end > (uintptr_t)block;
        else if (is_inside && !strncmp(line, "VmFlags:", 8))
            for (size_t at = 0; at < sizeof flags / sizeof *flags; at++) found |= strstr(line, flags[at]) != NULL;
    }
    if (maps) fclose(maps);
    return !found;
}

/* Whether a block can be used, here and in a child. */
static int is_sound(char *block, size_t len, int zeroed) {
    if (zeroed) for (size_t at = 0; at < len; at++) if (block[at]) return 0;
    memset(block, 6, len);
    pid_t child = fork();
    if (child == 0) {
        for (size_t at = 0; at < len; at += 64) if (block[at] != 6) _exit(1);
        _exit(0);
    }
    int status;
    return waitpid(child, &status, 0) == child && status == 0;
}

int main(int count, char **words) {
    const char *way = words[1];
    size_t len = 2 << 20;
    page = sysconf(_SC_PAGESIZE);
    /* Otherwise glibc learns to keep blocks of this size on its heap. */
    mallopt(M_MMAP_THRESHOLD, 128 << 10);
    char name[] = "/tmp/faultless-altered-XXXXXX";
    file = mkstemp(name);
    unlink(name);
    if (file < 0 || ftruncate(file, page)) return 8;
    /* Room for a few locked pages, but not for one per round. Root has no limit: a second word changes the user. */
    struct rlimit limit = {16 * page, 16 * page};
    setrlimit(RLIMIT_MEMLOCK, &limit);
    if (count > 2 && setresuid(65534, 65534, 65534)) return 7;
    for (int round = 0; round < 20; round++) {
        char *block = malloc(len);
        memset(block, 1, len);
        /* Another page in each round. */
        char *middle = (char *)(((uintptr_t)block + len / 2) & ~(page - 1)) + round * page;
        if (changes(way, middle)) {
            int is_unknown = errno == EINVAL || errno == ENOSYS;
            printf(is_unknown ? "unknown to this kernel\n" : "refused in round %d: %m\n", round);
            return 0;
        }
        free(block);
        int zeroed = round % 2;
        block = zeroed ? calloc(1, len) : malloc(len);
        if (!is_unflagged(block, len)) return printf("flagged in round %d\n", round) < 0;
        if (!is_sound(block, len, zeroed)) return printf("not sound in round %d\n", round) < 0;
        if (round % 4 == 3) block = realloc(block, 2 * len);
        free(block);
    }
    char byte = 0;
    if (pread(file, &byte, 1, 0) != 1 || byte) return printf("the file was written to\n") < 0;
    printf("ok\n");
    return 0;
}
