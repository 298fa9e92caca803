/* A library whose constructor waits for a thread that asks for the first large blocks of the process. The loader's lock is held
 * meanwhile, so nothing in malloc may want it. */
#include <pthread.h>
#include <stdlib.h>

static void *asks(void *unused) {
    char *block = malloc(1 << 20);
    block[0] = 1;
    free(aligned_alloc(64, 1 << 20));
    free(block);
    return unused;
}

__attribute__((constructor)) static void begin(void) {
    pthread_t thread;
    pthread_create(&thread, NULL, asks, NULL);
    pthread_join(thread, NULL);
}
