/* An allocator in front of the C library's with one mistake, named by a macro, to see that the search of tests/fuzzed.rs finds it. */
#define _GNU_SOURCE
#include <malloc.h>
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
