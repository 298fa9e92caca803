/* Forks with much freed memory behind it: prints the most threads seen right after fork, in the parent and in the children. */
#include "proc.h"
#include <sys/wait.h>

int main(void) {
    long parent = 0, child = 0;
    for (int round = 0; round < 12; round++) {
        free(written(256 * MIB));
        sleep_ms(round * 5);
        pid_t pid = fork();
        long count = threads();
        if (pid == 0) {
            sleep_ms(20);
            long later = threads();
            _exit(later > count ? later : count);
        }
        int status;
        waitpid(pid, &status, 0);
        if (count > parent) parent = count;
        if (WEXITSTATUS(status) > child) child = WEXITSTATUS(status);
    }
    printf("parent %ld, child %ld\n", parent, child);
    return 0;
}
