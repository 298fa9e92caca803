/* Handlers of fork that a library registers when it is loaded, before any constructor of a preloaded one: one waits for a
 * thread that allocates while it has the library's lock, one allocates in the child. With LIBRARY, the library. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#ifdef LIBRARY
pthread_mutex_t library_lock = PTHREAD_MUTEX_INITIALIZER;

static void before(void) { pthread_mutex_lock(&library_lock); }
static void after(void) { pthread_mutex_unlock(&library_lock); }

static void in_child(void) {
    after();
    char *volatile block = malloc(16 << 20);
    if (block) block[0] = 1;
    free(block);
}

__attribute__((constructor)) static void loaded(void) { pthread_atfork(before, after, in_child); }
#else
extern pthread_mutex_t library_lock;
static volatile int stop;

static void *allocate(void *unused) {
    while (!stop) {
        pthread_mutex_lock(&library_lock);
        char *block = malloc(16 << 20);
        block[0] = 1;
        free(block);
        pthread_mutex_unlock(&library_lock);
    }
    return unused;
}

static int forked(void) {
    pid_t child = fork();
    if (child == 0) { alarm(600); _exit(0); }
    int status;
    waitpid(child, &status, 0);
    return status;
}

int main(void) {
    alarm(600);
    free(malloc(1 << 20));
    int failed = forked();
    pthread_t thread;
    pthread_create(&thread, 0, allocate, 0);
    for (int round = 0; round < 200; round++) failed |= forked();
    stop = 1;
    pthread_join(thread, 0);
    puts(failed ? "a child failed" : "ok");
    return 0;
}
#endif
