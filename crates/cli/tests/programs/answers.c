/* Calls the malloc family with odd alignments and sizes. Prints each result and errno, to be compared with those of
 * the C library. */
#define _GNU_SOURCE
#include <errno.h>
#include <malloc.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { BEFORE = 77 };

#define BIT(n) ((size_t)1 << (n))
static const size_t aligns[] = {0, 1, 3, 8, 16, 24, 4096, 4100, BIT(20), BIT(40), BIT(62), BIT(63), SIZE_MAX};
static const size_t sizes[] = {
    0, 1, 10, 1000, 65536, 1 << 20, PTRDIFF_MAX - 100000, PTRDIFF_MAX, SIZE_MAX - 100, SIZE_MAX,
};
enum { ALIGNS = sizeof aligns / sizeof *aligns, SIZES = sizeof sizes / sizeof *sizes };

/* Prints a result. `align` is the alignment that was asked for, or 0. */
static void *line(const char *call, size_t a, size_t b, void *block, int error, size_t align, size_t len) {
    printf("%s(%zu, %zu) = %s, errno %d", call, a, b, block ? "block" : "NULL", error);
    if (block) {
        if (align == 0 || align & (align - 1)) align = 16;
        printf(", %s, %s", (uintptr_t)block % align ? "not aligned" : "aligned",
               malloc_usable_size(block) >= len ? "long enough" : "too short");
        size_t written = len < 4096 ? len : 4096;
        memset(block, 1, written);
    }
    printf("\n");
    return block;
}

static void give_back(const char *call, void *block) {
    errno = BEFORE;
    free(block);
    if (errno != BEFORE) printf("free of what %s gave: errno %d\n", call, errno);
}

#define ASK(call, a, b, asked, align, len) do { \
        errno = BEFORE; \
        void *block = asked; \
        int error = errno; \
        give_back(call, line(call, a, b, block, error, align, len)); \
    } while (0)

static void by_size(size_t size) {
    size_t page = sysconf(_SC_PAGESIZE);
    ASK("malloc", size, 0, malloc(size), 0, size);
    ASK("valloc", size, 0, valloc(size), page, size);
    ASK("pvalloc", size, 0, pvalloc(size), page, size);
    for (int at = 0; at < SIZES; at++) ASK("calloc", size, sizes[at], calloc(size, sizes[at]), 0, size * sizes[at]);
}

static void by_align(size_t align, size_t size) {
    ASK("memalign", align, size, memalign(align, size), align, size);
    ASK("aligned_alloc", align, size, aligned_alloc(align, size), align, size);
    void *block = &block;
    errno = BEFORE;
    int answer = posix_memalign(&block, align, size);
    int error = errno;
    printf("posix_memalign(%zu, %zu) = %d, errno %d%s\n", align, size, answer, answer ? 0 : error,
           answer && block != &block ? ", which wrote a block" : "");
    if (answer == 0) give_back("posix_memalign", line("posix_memalign", align, size, block, error, align, size));
}

/* A refused realloc keeps the old block. */
static void resized(size_t old, size_t size) {
    char *block = malloc(old);
    memset(block, 5, old);
    errno = BEFORE;
    char *new = realloc(block, size);
    int error = errno;
    if (new && old && size && new[(old < size ? old : size) - 1] != 5) printf("content is lost\n");
    if (!new && size) {
        if (old && (block[0] != 5 || block[old - 1] != 5)) printf("content of a block that stayed is lost\n");
        give_back("malloc", block);
    }
    line("realloc", old, size, new, error, 0, size);
    give_back("realloc", new);

    for (int at = 0; at < SIZES; at++) {
        block = malloc(old);
        errno = BEFORE;
        new = reallocarray(block, size, sizes[at]);
        error = errno;
        if (!new && (size && sizes[at])) free(block);
        line("reallocarray", size, sizes[at], new, error, 0, size * sizes[at]);
        give_back("reallocarray", new);
    }
}

/* Thousands of blocks of all lengths, more than caches hold. Successful calls keep errno. */
static void many(void) {
    enum { BLOCKS = 3000 };
    static void *blocks[BLOCKS];
    unsigned seed = 1;
    for (int round = 0; round < 40; round++) {
        for (int at = 0; at < BLOCKS; at++) {
            seed = seed * 1103515245 + 12345;
            size_t len = (seed >> 8) % 100 ? (seed >> 16) % 9000 : (seed >> 12) % 900000;
            errno = BEFORE;
            free(blocks[at]);
            if (errno != BEFORE) { printf("free: errno %d\n", errno); return; }
            blocks[at] = seed & 0x100000 ? malloc(len) : seed & 0x200000 ? calloc(1, len) : memalign(256, len);
            if (errno != BEFORE || !blocks[at]) { printf("%zu bytes: errno %d\n", len, errno); return; }
            if (len) *(char *)blocks[at] = 1;
        }
        if (round % 10 == 9) for (int at = 0; at < BLOCKS; at += 2) {
            errno = BEFORE;
            blocks[at] = realloc(blocks[at], 20000);
            if (errno != BEFORE) { printf("realloc: errno %d\n", errno); return; }
        }
    }
    printf("many blocks: errno stays\n");
}

int main(void) {
    errno = BEFORE;
    void *first = malloc(100);
    printf("the first block: errno %d\n", errno);
    free(first);
    for (int size = 0; size < SIZES; size++) {
        by_size(sizes[size]);
        for (int align = 0; align < ALIGNS; align++) by_align(aligns[align], sizes[size]);
        resized(10, sizes[size]);
        resized(300000, sizes[size]);
    }
    ASK("realloc", 0, 100, realloc(NULL, 100), 0, 100);
    ASK("realloc", 0, 200000, realloc(NULL, 200000), 0, 200000);
    errno = BEFORE;
    free(NULL);
    printf("free(NULL): errno %d\n", errno);
    many();
    return 0;
}
