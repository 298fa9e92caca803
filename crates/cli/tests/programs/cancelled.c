/* A thread with a cancellation pending forks while the pool has a background thread, then another one does. fork is no cancellation
 * point, and what goes on inside must be none. Prints the same with and without the pool. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define BLOCKS 10
#define LEN (20 << 20)

static atomic_int go, forked;

static void *forks(void *unused) {
    (void)unused;
    while (!go) {}
    pid_t child = fork();
    if (child == 0) _exit(0);
    forked = child > 0;
    for (;;) pause();
}

int main(void) {
    char *blocks[BLOCKS];
    for (int at = 0; at < BLOCKS; at++) memset(blocks[at] = malloc(LEN), at, LEN);
    for (int at = 0; at < BLOCKS; at++) free(blocks[at]);
    usleep(50000);
    pthread_t thread;
    pthread_create(&thread, NULL, forks, NULL);
    pthread_cancel(thread);
    go = 1;
    void *result;
    pthread_join(thread, &result);
    printf("forked %d, cancelled %d\n", forked, result == PTHREAD_CANCELED);
    fflush(stdout);
    alarm(600);
    if (fork() == 0) _exit(0);
    while (wait(NULL) > 0) {}
    puts("forked again");
    return 0;
}
