/* Keeps a pool's background thread at work: frees, waits and allocates again. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int main(void) {
    for (int round = 0; round < 4; round++) {
        char *blocks[12];
        for (int at = 0; at < 12; at++) blocks[at] = memset(malloc(8 << 20), round + 1, 8 << 20);
        for (int at = 0; at < 12; at++) {
            if (blocks[at][5 << 20] != round + 1) return 1;
            free(blocks[at]);
        }
        free(calloc(1, 20 << 20));
        usleep(200000);
    }
    puts("ok");
    return 0;
}
