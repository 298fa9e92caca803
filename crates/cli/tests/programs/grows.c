/* Four blocks that grow by turns, a page at a time, from nothing to 8 MiB. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCKS = 4, STEP = 4096, END = 8 << 20 };

int main(void) {
    char *blocks[BLOCKS] = {0};
    for (size_t len = STEP; len <= END; len += STEP)
        for (int at = 0; at < BLOCKS; at++) {
            blocks[at] = realloc(blocks[at], len);
            memset(blocks[at] + len - STEP, at + 1, STEP);
        }
    for (int at = 0; at < BLOCKS; at++)
        for (size_t each = 0; each < END; each++)
            if (blocks[at][each] != at + 1) return 1;
    puts("grown");
    return 0;
}
