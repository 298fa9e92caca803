/* A child of vfork limits its address space and forbids itself privileges: its parent, whose memory it borrows, stays as it
 * was. Prints what the pool did not serve afterwards only through the pool's report. */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#define BLOCKS 20
#define LEN (20 << 20)

int main(void) {
    char *first = malloc(1 << 20);
    first[0] = 1;
    pid_t child = vfork();
    if (child == 0) {
        struct rlimit limit = {4ull << 30, 4ull << 30};
        setrlimit(RLIMIT_AS, &limit);
        prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
        execl("/bin/true", "true", (char *)NULL);
        _exit(1);
    }
    int status;
    waitpid(child, &status, 0);
    char *blocks[BLOCKS];
    for (int at = 0; at < BLOCKS; at++) memset(blocks[at] = malloc(LEN), at, LEN);
    for (int at = 0; at < BLOCKS; at++) free(blocks[at]);
    printf("status %d\n", status);
    return 0;
}
