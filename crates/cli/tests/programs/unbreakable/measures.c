/* How much can be had, in MiB: the largest block, the largest sum of 1 MiB blocks, of 64 MiB blocks, and the largest block once
 * 128 MiB were used and freed. Nothing else is touched. */
#include "proc.h"

static size_t largest(void) {
    size_t low = 0, high = 64 * 1024;
    while (low + 1 < high) {
        size_t middle = (low + high) / 2;
        void *volatile block = malloc(middle * MIB);
        free(block);
        *(block ? &low : &high) = middle;
    }
    return low;
}

static size_t sum(size_t len) {
    static void *blocks[65536];
    size_t count = 0;
    while (count < 65536 && (blocks[count] = malloc(len))) count++;
    for (size_t at = 0; at < count; at++) free(blocks[at]);
    return count * len / MIB;
}

int main(void) {
    static char *blocks[128];
    printf("%zu %zu %zu", largest(), sum(MIB), sum(64 * MIB));
    for (int at = 0; at < 128; at++) blocks[at] = written(MIB);
    for (int at = 0; at < 128; at++) free(blocks[at]);
    printf(" %zu\n", largest());
    return 0;
}
