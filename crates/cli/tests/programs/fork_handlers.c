/* Handlers of fork that were registered before the first large block: one waits for threads that allocate while they
 * hold a lock, one resizes a large block. Hangs or crashes if the pool is locked while they run. */
#include <malloc.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char *block;

static void resize(void) {
    block = realloc(block, malloc_usable_size(block) + 100000);
    if (!block) abort();
}

static void before(void) {
    pthread_mutex_lock(&lock);
    resize();
}

static void after(void) {
    resize();
    pthread_mutex_unlock(&lock);
}

static void *allocate(void *unused) {
    for (;;) {
        pthread_mutex_lock(&lock);
        char *more = malloc(1 << 20);
        more[0] = 1;
        free(more);
        pthread_mutex_unlock(&lock);
    }
    return unused;
}

int main(void) {
    pthread_t thread;
    alarm(600);
    pthread_atfork(before, after, after);
    block = malloc(200000);
    for (int i = 0; i < 3; i++) pthread_create(&thread, 0, allocate, 0);
    for (int i = 0; i < 200; i++) {
        pid_t child = fork();
        if (child == 0) {
            char *own = malloc(300000);
            own[0] = 1;
            free(own);
            _exit(0);
        }
        int status = 1;
        if (child < 0 || waitpid(child, &status, 0) != child || status != 0) {
            printf("child %d: status %x\n", i, status);
            return 1;
        }
    }
    puts("ok");
    return 0;
}
