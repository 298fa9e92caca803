/* Puts pages of a block into a pipe, frees the block and writes to the next one, before it reads the pipe. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <malloc.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

int main(void) {
    size_t len = 2 << 20, page = sysconf(_SC_PAGESIZE), wrong = 0;
    int ends[2];
    /* Otherwise glibc learns to keep blocks of this size on its heap. */
    mallopt(M_MMAP_THRESHOLD, 128 << 10);
    if (pipe(ends)) return 2;
    for (int round = 0; round < 20; round++) {
        char *block = memset(malloc(len), 1, len), *after, found[32 << 10];
        char *inside = (char *)(((uintptr_t)block + page) & -page);
        struct iovec parts[] = {{inside, sizeof found / 2}, {inside + len / 2, sizeof found / 2}};
        if (vmsplice(ends[1], parts, 2, 0) != sizeof found) return 3;
        free(block);
        after = memset(malloc(len), 2, len);
        for (size_t got = 0; got < sizeof found;) got += read(ends[0], found + got, sizeof found - got);
        for (size_t at = 0; at < sizeof found; at++) wrong += found[at] != 1;
        free(after);
    }
    printf("%zu wrong\n", wrong);
    return 0;
}
