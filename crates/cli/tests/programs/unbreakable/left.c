/* A block is freed with some pages as no new memory has them; the next block of its length must be as new.
 * Usage: left no-access | read-only | guarded | not-forked | wiped | private-file | shared-file | hole | locked: prints what is wrong.
 * Blocks of 40 MiB: the C library maps each by itself, so what was done to its pages goes with it. */
#include "proc.h"
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#define LEN (40 * MIB)
#define SOME (2 * MIB)
#ifndef MADV_GUARD_INSTALL
#define MADV_GUARD_INSTALL 102
#endif

static void map_file(char *pages, int flags) {
    int file = syscall(SYS_memfd_create, "left", 0);
    if (file < 0 || ftruncate(file, SOME) != 0) exit(84);
    if (mmap(pages, SOME, PROT_READ | PROT_WRITE, flags | MAP_FIXED, file, 0) != pages) exit(85);
    memset(pages, 5, SOME);
    close(file);
}

/* Whether the kernel knows the call at all. */
static int leave(const char *way, char *pages) {
    if (strcmp(way, "no-access") == 0) return mprotect(pages, SOME, PROT_NONE) == 0;
    if (strcmp(way, "read-only") == 0) return mprotect(pages, SOME, PROT_READ) == 0;
    if (strcmp(way, "guarded") == 0) return madvise(pages, SOME, MADV_GUARD_INSTALL) == 0;
    if (strcmp(way, "not-forked") == 0) return madvise(pages, SOME, MADV_DONTFORK) == 0;
    if (strcmp(way, "wiped") == 0) return madvise(pages, SOME, MADV_WIPEONFORK) == 0;
    if (strcmp(way, "hole") == 0) return munmap(pages, SOME) == 0;
    if (strcmp(way, "locked") == 0) return mlock(pages, SOME) == 0;
    map_file(pages, strcmp(way, "shared-file") == 0 ? MAP_SHARED : MAP_PRIVATE);
    return 1;
}

static int is_all(const char *block, int byte) {
    for (size_t at = 0; at < LEN; at += 512)
        if (block[at] != byte) return 0;
    return 1;
}

/* A block that is written whole, inherited, and changed by a child; and one of zeroes. */
static void use(void) {
    char *block = memset(malloc(LEN), 7, LEN);
    pid_t child = fork();
    if (child == 0) {
        int is_right = is_all(block, 7);
        memset(block, 8, LEN);
        _exit(!is_right);
    }
    int status;
    waitpid(child, &status, 0);
    if (WIFSIGNALED(status)) printf("the child can't read it, ");
    else if (status) printf("the child finds other content, ");
    if (!is_all(block, 7)) printf("the child changed it, ");
    free(block);
    block = calloc(1, LEN);
    if (!is_all(block, 0)) printf("calloc is not zero, ");
    free(block);
}

/* A user may lock 4 MiB, has them in a block that goes, and again. */
static void lock_often(void) {
    struct rlimit limit = {2 * SOME, 2 * SOME};
    if (setrlimit(RLIMIT_MEMLOCK, &limit) || (geteuid() == 0 && setresuid(65534, 65534, 65534))) exit(86);
    for (int round = 0; round < 6; round++) {
        char *block = written(LEN + round * 3 * MIB);
        if (!leave("locked", block + (3 + round * 5) * MIB - ((size_t)block & 4095))) printf("lock %d is refused, ", round);
        free(block);
    }
}

int main(int count, char **words) {
    if (count < 2) return 2;
    if (strcmp(words[1], "locked") == 0) {
        lock_often();
    } else {
        char *block = written(LEN);
        if (!leave(words[1], block + 3 * MIB - ((size_t)block & 4095))) return printf("not on this kernel, "), 0;
        free(block);
        use();
    }
    printf("end\n");
    return 0;
}
