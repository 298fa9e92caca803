/* Allocates and frees large blocks: so many, or in four threads without end. */
#include <pthread.h>
#include <stdlib.h>

static void *endless(void *nothing) {
    for (;;) {
        char *volatile block = malloc(100000);
        block[0] = 1;
        free(block);
    }
}

int main(int argc, char **argv) {
    if (argc > 1) {
        for (int left = atoi(argv[1]); left > 0; left--) {
            char *volatile block = malloc(100000);
            free(block);
        }
        return 0;
    }
    pthread_t threads[4];
    for (int at = 0; at < 4; at++)
        pthread_create(&threads[at], NULL, endless, NULL);
    pthread_join(threads[0], NULL);
}
