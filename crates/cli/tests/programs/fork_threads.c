/* fork while threads are made, allocate and end; each child allocates and makes threads of its own. Guards against an
 * allocator whose locks a child inherits closed: the child would hang, and the alarm ends it. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static volatile int stop;

static void *allocate(void *arg) {
    void *blocks[40];
    for (int i = 0; i < 40; i++) {
        size_t len = (size_t)16 << i % 12;
        blocks[i] = malloc(len);
        if (!blocks[i]) _exit(4);
        memset(blocks[i], i, len);
    }
    for (int i = 0; i < 40; i++) free(blocks[i]);
    return arg;
}

static void *come_and_go(void *arg) {
    while (!stop) {
        pthread_t thread;
        if (pthread_create(&thread, NULL, allocate, NULL) == 0) pthread_join(thread, NULL);
    }
    return arg;
}

int main(void) {
    pthread_t makers[2];
    for (int i = 0; i < 2; i++) pthread_create(&makers[i], NULL, come_and_go, NULL);
    for (int i = 0; i < 400; i++) {
        pid_t child = fork();
        if (child < 0) continue;
        if (child == 0) {
            alarm(600);
            pthread_t thread;
            allocate(NULL);
            if (pthread_create(&thread, NULL, allocate, NULL) == 0) pthread_join(thread, NULL);
            _exit(0);
        }
        int status = 0;
        waitpid(child, &status, 0);
        if (status != 0) {
            printf("child %d: status %x\n", i, status);
            return 1;
        }
    }
    stop = 1;
    for (int i = 0; i < 2; i++) pthread_join(makers[i], NULL);
    puts("ok");
    return 0;
}
