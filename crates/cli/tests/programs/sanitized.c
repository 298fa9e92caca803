/* To be built with a sanitizer. The word says which mistake the program makes. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#ifdef DEFAULTS
const char *__asan_default_options(void) { return "verify_asan_link_order=1"; }
#endif

static int shared;

static void *touches(void *races) {
    char *block = malloc(100000);
    memset(block, 1, 100000);
    if (races) shared++;
    free(block);
    void *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    mprotect(page, 4096, PROT_READ);
    munmap(page, 4096);
    return NULL;
}

/* In a thread that ends: a pointer left on a live stack would hide the leak. */
static void *loses(void *len) {
    char *volatile block = malloc((size_t)len);
    block[0] = 1;
    block = NULL;
    return NULL;
}

static void lose(size_t len) {
    pthread_t thread;
    pthread_create(&thread, NULL, loses, (void *)len);
    pthread_join(thread, NULL);
}

int main(int count, char **words) {
    char mistake = count > 1 ? words[1][0] : ' ';
    char *large = malloc(100000), *small = realloc(calloc(10, 10), 200);
    void *aligned;
    if (posix_memalign(&aligned, 64, 100) == 0) free(aligned);
    memset(large, 1, 100000);
    free(reallocarray(NULL, 30, 3000));
    pthread_t threads[2];
    for (int at = 0; at < 2; at++) pthread_create(&threads[at], NULL, touches, mistake == 'r' ? words : NULL);
    for (int at = 0; at < 2; at++) pthread_join(threads[at], NULL);
    pid_t child = fork();
    if (child == 0) {
        free(calloc(300, 1000));
        _exit(0);
    }
    int status;
    waitpid(child, &status, 0);
    free(small);
    if (mistake == 'l') { lose(1000); lose(200000); }
    if (mistake == 'i') shared = 0x7fffffff + count;
    if (mistake == 'b') { int *unknown = malloc(300000); if (unknown[7]) printf("branched\n"); free(unknown); }
    if (mistake == 'o') printf("%d\n", large[100000]);
    if (mistake == 'd') free(large);
    free(large);
    if (mistake == 'u') printf("%d\n", large[5]);
    printf("to the end, child %x\n", status);
    return 0;
}
