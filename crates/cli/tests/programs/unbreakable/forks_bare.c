/* A program of one thread forks without handlers, while freed memory waits to be given back; the child uses malloc. */
#include "proc.h"
#include <sys/wait.h>

#pragma weak _Fork
pid_t _Fork(void);

int main(void) {
    if (!_Fork) return printf("no _Fork\n"), 0;
    for (int round = 0; round < 60; round++) {
        char *blocks[40];
        for (int i = 0; i < 40; i++) blocks[i] = malloc(MIB), memset(blocks[i], i, MIB);
        for (int i = 0; i < 40; i++) free(blocks[i]);
        sleep_ms(round % 7);
        pid_t child = _Fork();
        if (child == 0) {
            alarm(300);
            char *large = malloc(5 * MIB), *zero = calloc(5, MIB);
            memset(large, 1, 5 * MIB);
            _exit(large[MIB] != 1 || zero[MIB] != 0);
        }
        int status;
        waitpid(child, &status, 0);
        if (status) return printf("round %d: status %x\n", round, status), 1;
    }
    printf("ok\n");
    return 0;
}
