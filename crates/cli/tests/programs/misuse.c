/* Frees large blocks twice, in every order, and addresses that no block begins at; then looks whether blocks overlap. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCKS = 20, LEN = 300 << 10 };

int main(void)
{
    static unsigned char *blocks[BLOCKS];
    for (int round = 0; round < 50; round++) {
        for (int i = 0; i < BLOCKS; i++) {
            blocks[i] = malloc(LEN + (size_t)(i % 5) * 100000);
            memset(blocks[i], 'a' + i, LEN);
        }
        for (int i = 0; i < BLOCKS; i += 2) {
            free(blocks[i]);
            free(blocks[i]);
            free(blocks[i] + 64);
            if (realloc(blocks[i], LEN) != NULL)
                return puts("realloc of a freed block") < 0;
        }
        for (int i = BLOCKS - 2; i >= 0; i -= 2)
            free(blocks[i]);
        for (int i = 0; i < BLOCKS; i += 2) {
            blocks[i] = malloc(LEN);
            memset(blocks[i], 'A' + i, LEN);
        }
        for (int i = 0; i < BLOCKS; i++)
            for (int at = 0; at < LEN; at++)
                if (blocks[i][at] != (i % 2 ? 'a' : 'A') + i)
                    return puts("overlap") < 0;
        for (int i = 0; i < BLOCKS; i++)
            free(blocks[i]);
    }
    puts("ok");
    return 0;
}
