/* Which of 16 lengths from 1 GiB to 16 TiB can be had, in each way. A line each; blocks are touched at their ends alone. */
#include "proc.h"
#include <malloc.h>

/* What realloc begins with, a small block or one of 100 MiB. */
static char *kept[2];

static void *get(const char *way, size_t len) {
    if (strcmp(way, "malloc") == 0) return malloc(len);
    if (strcmp(way, "calloc") == 0) return calloc(len / 16, 16);
    if (strcmp(way, "aligned_alloc") == 0) return aligned_alloc(1 << 21, len);
    int is_large = strcmp(way, "realloc-large") == 0;
    if (!kept[is_large]) kept[is_large] = written(is_large ? 100 * MIB : 1000);
    char *block = realloc(kept[is_large], len);
    if (!block && kept[is_large][0] != 1) printf("WRONG\n");
    if (block) kept[is_large] = NULL;
    return block;
}

static void try(const char *way, size_t len) {
    errno = 0;
    char *block = get(way, len);
    int error = errno, is_realloc = way[0] == 'r', is_right = 1;
    if (block && is_realloc) is_right = block[0] == 1;
    if (block && way[0] == 'c') is_right = block[0] == 0 && block[len / 2] == 0;
    if (block) block[0] = block[len - 1] = 2;
    printf("%s %zu: %s%s\n", way, len, block ? "block" : error == ENOMEM ? "null" : "null without ENOMEM", is_right ? "" : ", WRONG");
    free(block);
}

int main(void) {
    static const char *const ways[] = {"malloc", "calloc", "realloc-small", "realloc-large", "aligned_alloc"};
    for (size_t way = 0; way < sizeof ways / sizeof *ways; way++) {
        for (size_t shift = 30; shift <= 44; shift++) try(ways[way], (size_t)1 << shift);
        try(ways[way], 3 * GIB);
    }
    return 0;
}
