/* An allocator in front of the C library's with one mistake, named by a macro, to see that the search of tests/fuzzed.rs finds it. */
#define _GNU_SOURCE
#include <malloc.h>
#include <pthread.h>
#include <stdint.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

void *__libc_malloc(size_t len);
void *__libc_realloc(void *block, size_t len);
void __libc_free(void *block);

/* True once in so many calls, each time elsewhere. */
static int is_time(unsigned every) {
    static uint64_t state;
    if (!state) memcpy(&state, (void *)getauxval(AT_RANDOM), 8);
    state = (state ^ (unsigned)getpid()) * 6364136223846793005u + 1442695040888963407u;
    return (state >> 33) % every == 0;
}

#ifdef REALLOC_LOSES_A_BYTE
void *realloc(void *block, size_t len) {
    size_t old = block ? malloc_usable_size(block) : 0;
    char *resized = __libc_realloc(block, len);
    if (resized && old > 100 && len > old && is_time(20)) resized[50] ^= 1;
    return resized;
}
#endif

#ifdef FREE_HANGS
void free(void *block) {
    if (block && is_time(500))
        for (;;) pause();
    __libc_free(block);
}
#endif

#ifdef PAGES_STAY_ALTERED
/* The last large block that was freed comes again, with its pages as they are. */
static void *kept;

void free(void *block) {
    if (block && malloc_usable_size(block) >= 512 << 10) block = __atomic_exchange_n(&kept, block, __ATOMIC_SEQ_CST);
    __libc_free(block);
}

void *malloc(size_t len) {
    void *block = len < 512 << 10 ? NULL : __atomic_exchange_n(&kept, NULL, __ATOMIC_SEQ_CST);
    if (block && malloc_usable_size(block) - len < 4096) return block;
    __libc_free(block);
    return __libc_malloc(len);
}
#endif

#ifdef MEMORY_STAYS
void free(void *block) {
    if (block && malloc_usable_size(block) < 64 << 10) __libc_free(block);
}
#endif

#ifdef THREAD_STAYS
static void *stay(void *argument) {
    for (;;) pause();
}

__attribute__((constructor)) static void start(void) {
    pthread_t thread;
    pthread_create(&thread, NULL, stay, NULL);
}
#endif
