/* ARENA: a program with an allocator of its own, which passes foreign blocks to the C library's free. WRAPPER: a
 * program whose malloc counts and calls the next one. ADDRESS: a program that defines nothing and takes malloc's
 * address. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <malloc.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef ARENA
static char arena[64 << 20] __attribute__((aligned(16)));
static size_t used;
extern void __libc_free(void *);
extern void *__libc_memalign(size_t, size_t);
static int is_own(void *block) { return (uintptr_t)block - (uintptr_t)arena < sizeof arena; }

void *malloc(size_t len) {
    size_t wanted = (len + 31) & ~(size_t)15, begin = __atomic_fetch_add(&used, wanted, __ATOMIC_RELAXED);
    if (len > sizeof arena || begin + wanted > sizeof arena) return NULL;
    *(size_t *)(arena + begin) = len;
    return arena + begin + 16;
}
void free(void *block) { if (block && !is_own(block)) __libc_free(block); }
void *calloc(size_t count, size_t len) { return malloc(count * len); }
void *realloc(void *block, size_t len) {
    if (!block) return malloc(len);
    size_t old = is_own(block) ? *(size_t *)((char *)block - 16) : 0;
    void *new = malloc(len);
    return new ? memcpy(new, block, old < len ? old : len) : new;
}
/* memalign is the C library's, and free recognizes its blocks. */
static void look(void) {
    char *block = reallocarray(malloc(100), 1000, 200);
    printf("reallocarray is %s\n", is_own(block) ? "the program's" : "another's");
    char *copy = strdup("text");
    printf("strdup is %s\n", is_own(copy) ? "the program's" : "another's");
    void *aligned = memalign(4096, 300000);
    printf("memalign is %s\n", is_own(aligned) ? "the program's" : "another's");
    memset(aligned, 1, 300000);
    free(aligned);
    free(copy);
    free(block);
}
#elif defined WRAPPER
static int calls;
static void *next(const char *name) { return dlsym(RTLD_NEXT, name); }
void *malloc(size_t len) {
    __atomic_fetch_add(&calls, 1, __ATOMIC_RELAXED);
    return ((void *(*)(size_t))next("malloc"))(len);
}
void free(void *block) { ((void (*)(void *))next("free"))(block); }
static void look(void) {
    int before = calls;
    for (int at = 0; at < 100; at++) free(realloc(malloc(at * 3000), at * 5000 + 1));
    printf("%d calls\n", calls - before);
}
#else
static void look(void) {
    void *(*volatile taken)(size_t) = malloc;
    for (int at = 0; at < 10; at++) free(memset(taken(300000), at, 300000));
    printf("taken and called\n");
}
#endif

int main(void) {
    look();
    char *blocks[100];
    for (int at = 0; at < 100; at++) blocks[at] = memset(malloc(at * 2000 + 1), at, at * 2000 + 1);
    int wrong = 0;
    for (int at = 0; at < 100; at++) {
        wrong += blocks[at][at * 2000] != at;
        free(blocks[at]);
    }
    printf("%d wrong\n", wrong);
    return 0;
}
