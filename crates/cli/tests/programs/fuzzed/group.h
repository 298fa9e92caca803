/* Programs that come near the limit of their control group: where the C library's malloc lives, so does another. */

/* So much may the program have at a time, below `NEAR_GROUP_BYTES` of the driver. Children write at most a quarter of the
 * budget; the rest is for libraries and page tables. */
#define GROUP_LIVE (104 * MIB)
#define GROUP_BUDGET (64 * MIB)

/* Takes all that the program may have, in blocks of a random size, writes them, and frees them. */
static void fill_group(struct worker *w) {
    unsigned char *blocks[64];
    size_t left = GROUP_LIVE > live(w) ? GROUP_LIVE - live(w) : 0, len = left / (1 + pick(w, chance(w, 50) ? 3 : 60)) + 1;
    int count = 0, is_zeroed = chance(w, 30), is_mapped = chance(w, 15), is_right = 1;
    if (world.depth) return;
    for (; left > len && count < 64; left -= len) {
        unsigned char *p = is_mapped ? mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)
                           : is_zeroed ? calloc(1, len) : malloc(len);
        if (!p || p == MAP_FAILED) break;
        for (size_t at = is_zeroed ? 0 : len; at < len; at += world.page) is_right &= p[at] == 0;
        memset(p, 1 + count, len);
        blocks[count++] = p;
    }
    for (int at = 0; at < count; at++) {
        is_right &= blocks[at][0] == 1 + at && blocks[at][len - 1] == 1 + at;
        if (is_mapped) munmap(blocks[at], len);
        else free(blocks[at]);
    }
    say(w, "group filled by %d times %zu: %s", count, len, is_right ? "right" : "wrong");
}
