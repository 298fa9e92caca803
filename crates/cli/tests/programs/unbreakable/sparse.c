/* Touches a few pages of 3000 MiB, and prints the largest resident memory in MiB.
 * Usage: sparse calloc | malloc | realloc | steps | again | later | many | many-zeroed   every-2M | every-64K | some   [MILLISECONDS]
 * `many` are blocks of 20 MiB, touched one after the other. `again` is calloc and free three times; `later` the same, with a pause so long that what was freed has decayed. */
#include "proc.h"

#define LEN (3000 * MIB)

static void need(void *block) {
    if (!block) printf("null\n"), exit(3);
}

/* What was written stays, and what calloc gave was zero. */
static void touch(char *block, size_t from, size_t to, const char *pattern, int is_zero) {
    size_t stride = strcmp(pattern, "every-2M") == 0 ? 2 * MIB : 64 * KIB;
    unsigned long state = 88172645463325252;
    if (strcmp(pattern, "some") != 0) {
        for (size_t at = (from + stride - 1) / stride * stride; at < to; at += stride) {
            if (is_zero && block[at]) printf("not zero\n"), exit(4);
            block[at] = 1;
        }
        return;
    }
    for (size_t left = LEN / 4096 / 100; left > 0; left--) {
        state ^= state << 13, state ^= state >> 7, state ^= state << 17;
        size_t at = state % (LEN / 4096) * 4096;
        if (at < from || at >= to) continue;
        if (is_zero && block[at] > 1) printf("not zero\n"), exit(4);
        block[at] = 1;
    }
}

static void cleared(const char *pattern) {
    char *block = calloc(LEN / 8, 8);
    need(block);
    touch(block, 0, LEN, pattern, 1);
    free(block);
}

static void grown(const char *pattern, size_t first, size_t step) {
    char *block = malloc(first);
    need(block);
    touch(block, 0, first, pattern, 0);
    for (size_t len = first; len < LEN;) {
        size_t next = len + step < LEN ? len + step : LEN;
        block = realloc(block, next);
        need(block);
        if (block[0] > 1) printf("lost\n");
        touch(block, len, next, pattern, 0);
        len = next;
    }
    free(block);
}

static void many(const char *pattern, int is_zero) {
    for (size_t at = 0; at < LEN; at += 20 * MIB) {
        char *block = is_zero ? calloc(20, MIB) : malloc(20 * MIB);
        need(block);
        touch(block - at, at, at + 20 * MIB, pattern, is_zero);
    }
}

int main(int count, char **words) {
    if (count < 3) return 2;
    const char *way = words[1], *pattern = words[2];
    if (strcmp(way, "calloc") == 0) {
        cleared(pattern);
    } else if (strcmp(way, "malloc") == 0) {
        char *block = malloc(LEN);
        need(block);
        touch(block, 0, LEN, pattern, 0);
        free(block);
    } else if (strcmp(way, "realloc") == 0) {
        grown(pattern, LEN / 2, LEN / 2);
    } else if (strcmp(way, "steps") == 0) {
        grown(pattern, LEN / 16, LEN / 16);
    } else if (strncmp(way, "many", 4) == 0) {
        many(pattern, way[4] != 0);
    } else {
        for (int round = 0; round < 3; round++) {
            cleared(pattern);
            if (strcmp(way, "later") == 0) sleep_ms(count > 3 ? atol(words[3]) : 0);
        }
    }
    printf("%ld\n", status_mib("VmHWM:"));
    return 0;
}
