/* What a program under a limit of addresses gets by other ways than a large malloc, after large blocks were freed.
 * Usage: after_large all | most   small | stacks | maps; prints how much, in MiB or threads. `most` keeps the last block. */
#include "proc.h"
#include <pthread.h>
#include <sys/mman.h>

#define COUNT 12

static void *sleeps(void *unused) {
    pause();
    return unused;
}

int main(int count, char **words) {
    if (count < 3) return 2;
    char *blocks[COUNT];
    for (int i = 0; i < COUNT; i++) {
        blocks[i] = malloc(64 * MIB);
        if (!blocks[i]) return 3;
        /* One is used as a whole, the others a little. */
        memset(blocks[i], 1, i == 4 ? 64 * MIB : MIB);
    }
    for (int i = 0; i < COUNT - (words[1][0] == 'm'); i++) free(blocks[i]);
    long got = 0;
    pthread_t thread;
    switch (words[2][1]) {
        case 'm':
            while (malloc(4000)) got++;
            got = got * 4000 / (long)MIB;
            break;
        case 't':
            while (got < 500 && pthread_create(&thread, NULL, sleeps, NULL) == 0) got++;
            break;
        default:
            while (mmap(NULL, MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) != MAP_FAILED) got++;
    }
    printf("%ld\n", got);
    fflush(stdout);
    _exit(0);
}
