/* Ends its last thread by the system call exit(2). With the word "thread", that is not the first one; with "instruction",
 * the call is not the C library's. More freed memory waits than a pool keeps without a background thread. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static void *other(void *nothing) {
    (void)nothing;
    usleep(20000);
    syscall(SYS_exit, 4);
    return NULL;
}

int main(int count, char **words) {
    void *blocks[8];
    for (int at = 0; at < 8; at++) blocks[at] = memset(malloc(16 << 20), 1, 16 << 20);
    for (int at = 0; at < 8; at++) free(blocks[at]);
    usleep(10000);
    if (!strcmp(words[1], "thread")) {
        pthread_t thread;
        pthread_create(&thread, NULL, other, NULL);
        syscall(SYS_exit, 3);
    }
#ifdef __x86_64__
    if (!strcmp(words[1], "instruction")) __asm__ volatile("syscall" ::"a"(SYS_exit), "D"(3));
#endif
    syscall(SYS_exit, 3);
}
