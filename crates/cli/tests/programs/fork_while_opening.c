// Forks while another thread's first large block opens the pool. Blocks of the pool begin at a granule.
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static int is_pooled(void) {
    void *block = malloc(1 << 20);
    return block && (uintptr_t)block % (16 << 10) == 0;
}

static void *first(void *pooled) {
    *(int *)pooled = is_pooled();
    return NULL;
}

int main(void) {
    pthread_t thread;
    int pooled = 0, status = 1;
    if (pthread_create(&thread, NULL, first, &pooled)) return 3;
    usleep(5000);
    pid_t child = fork();
    if (child == 0) {
        alarm(600);
        _exit(!is_pooled());
    }
    if (child < 0 || waitpid(child, &status, 0) != child || pthread_join(thread, NULL)) return 4;
    printf("parent %d child %d\n", pooled, status == 0);
    return 0;
}
