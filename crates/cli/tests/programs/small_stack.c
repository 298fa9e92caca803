/* Whoever asks for the first large block may have no more stack than a thread has at the least. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void *work(void *nothing) {
    (void)nothing;
    char *blocks[40];
    for (int round = 0; round < 3; round++) {
        for (int at = 0; at < 40; at++) {
            blocks[at] = round == 1 ? calloc(1, 1 << 20) : malloc(1 << 20);
            memset(blocks[at], at, 1 << 20);
        }
        for (int at = 0; at < 40; at++) {
            blocks[at] = realloc(blocks[at], at % 2 ? 3 << 20 : 80 << 10);
            if (blocks[at][70000] != at) abort();
            free(blocks[at]);
        }
    }
    return NULL;
}

int main(void) {
    pthread_attr_t attributes;
    pthread_t thread;
    pthread_attr_init(&attributes);
    if (pthread_attr_setstacksize(&attributes, sysconf(_SC_THREAD_STACK_MIN)) != 0) return 1;
    if (pthread_create(&thread, &attributes, work, NULL) != 0) return 2;
    pthread_join(thread, NULL);
    puts("ok");
    return 0;
}
