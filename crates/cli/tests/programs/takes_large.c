/* Takes, writes and frees a few large blocks. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int main(void) {
    for (int round = 0; round < 20; round++) free(memset(malloc(1 << 20), round, 1 << 20));
    return puts("taken") < 0;
}
