/* Advises each of its blocks, as array libraries (huge pages) and drivers (MADV_DONTFORK) do.
 * advised reuse ADVICE: allocates, writes and frees such blocks. Prints the pages of a block and the faults in each round.
 * advised sparse ADVICE: frees such a block untouched, then touches a page of each 64 KiB. Prints the MiB at the peak.
 * advised part none: drops and protects one page of a block. Prints both errors. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

enum { ROUNDS = 50, MIB = 1 << 20 };

static size_t page;

static const struct { const char *name; int advice; } advices[] = {
    {"dontfork", MADV_DONTFORK}, {"wipe", MADV_WIPEONFORK}, {"nodump", MADV_DONTDUMP}, {"merge", MADV_MERGEABLE},
    {"sequential", MADV_SEQUENTIAL}, {"huge", MADV_HUGEPAGE}, {"nohuge", MADV_NOHUGEPAGE}, {"none", -1},
};

static char *advised(size_t len, int advice) {
    char *block = malloc(len);
    uintptr_t begin = ((uintptr_t)block + page - 1) & ~(page - 1), end = ((uintptr_t)block + len) & ~(page - 1);
    if (advice >= 0 && madvise((void *)begin, end - begin, advice)) exit(3);
    return block;
}

int main(int count, char **words) {
    struct rusage used;
    int advice = -2;
    for (size_t at = 0; at < sizeof advices / sizeof *advices; at++)
        if (!strcmp(words[2], advices[at].name)) advice = advices[at].advice;
    if (advice == -2) return 9;
    page = sysconf(_SC_PAGESIZE);
    if (!strcmp(words[1], "reuse")) {
        char *neighbour = malloc(100 << 10);
        for (int round = 0; round < ROUNDS; round++) {
            char *block = advised(5 * MIB, advice);
            memset(block, 1, 5 * MIB);
            free(block);
        }
        free(neighbour);
        getrusage(RUSAGE_SELF, &used);
        printf("%zu %ld\n", 5 * MIB / page, used.ru_minflt / ROUNDS);
    } else if (!strcmp(words[1], "part")) {
        char *middle = advised(16 * MIB, -1) + 8 * MIB + page;
        memset(middle, 1, page);
        int dropped = madvise(middle, page, MADV_DONTNEED) ? errno : 0;
        printf("%d %d\n", dropped, mprotect(middle, page, PROT_READ) ? errno : 0);
    } else {
        free(advised(256 * MIB, advice));
        for (int at = 0; at < 4000; at++) ((volatile char *)malloc(64 << 10))[40000] = 1;
        getrusage(RUSAGE_SELF, &used);
        printf("%ld\n", used.ru_maxrss >> 10);
    }
    return 0;
}
