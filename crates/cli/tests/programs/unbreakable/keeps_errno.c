/* errno is what it was after every call that succeeds: prints the calls after which it is not. In the first and in other threads,
 * small and large lengths first. */
#include "proc.h"
#include <malloc.h>
#include <pthread.h>

static void *blocks[24];

static void look(const char *call, size_t len) {
    if (errno != 113) printf("%s %zu: %d\n", call, len, errno);
    errno = 113;
}

static void use(size_t len) {
    for (int at = 0; at < 8; at++) blocks[at] = malloc(len), look("malloc", len);
    for (int at = 8; at < 16; at++) blocks[at] = calloc(1, len), look("calloc", len);
    for (int at = 0; at < 8; at++) blocks[at] = realloc(blocks[at], len * 2), look("realloc", len);
    for (int at = 16; at < 24; at++) blocks[at] = memalign(4096, len), look("memalign", len);
    for (int at = 0; at < 24; at++) free(blocks[at]), look("free", len);
}

static void *use_all(void *first) {
    errno = 113;
    use(*(size_t *)first);
    for (size_t len = 16; len <= 20 * MIB; len *= 4) use(len);
    return NULL;
}

int main(int count, char **words) {
    size_t first = count > 1 ? atol(words[1]) : 16;
    pthread_t thread;
    use_all(&first);
    for (int round = 0; round < 3; round++) {
        pthread_create(&thread, NULL, use_all, &first);
        pthread_join(thread, NULL);
    }
    printf("end\n");
    return 0;
}
