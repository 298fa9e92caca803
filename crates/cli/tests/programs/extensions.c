/* Gives blocks of malloc, calloc and realloc to the other functions of the allocator that it is linked with. With LIBRARY,
 * it is a library that does so for a program with LINKED. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void *mallocx(size_t, int), *rallocx(void *, size_t, int);
void dallocx(void *, int), sdallocx(void *, size_t, int);
size_t xallocx(void *, size_t, size_t, int), sallocx(const void *, int);
void mi_free(void *), *mi_realloc(void *, size_t);
size_t mi_usable_size(const void *);
void tc_free(void *), *tc_realloc(void *, size_t);
size_t MallocExtension_GetAllocatedSize(const void *);

static char *block(size_t len, int round) {
    char *block = round % 3 == 0 ? malloc(len) : round % 3 == 1 ? calloc(1, len) : realloc(malloc(len / 2), len);
    return memset(block, 7, len);
}

int extend(void);

#ifndef LINKED
int extend(void) {
    size_t lens[] = {100, 100 << 10, 5 << 20}, wrong = 0;
    for (int round = 0; round < 9; round++) {
        size_t len = lens[round / 3];
        char *changed;
#ifdef JEMALLOC
        wrong += sallocx(block(len, round), 0) < len;
        wrong += xallocx(block(len, round), len, 0, 0) < len;
        dallocx(block(len, round), 0);
        sdallocx(block(len, round), len, 0);
        changed = rallocx(block(len, round), 2 * len, 0);
#elif defined MIMALLOC
        wrong += mi_usable_size(block(len, round)) < len;
        mi_free(block(len, round));
        changed = mi_realloc(block(len, round), 2 * len);
#else
        wrong += MallocExtension_GetAllocatedSize(block(len, round)) < len;
        tc_free(block(len, round));
        changed = tc_realloc(block(len, round), 2 * len);
#endif
        wrong += changed[len - 1] != 7;
        free(changed);
    }
    return wrong;
}
#endif

#ifndef LIBRARY
int main(void) {
    free(block(8 << 20, 0));
    puts(extend() ? "wrong" : "ok");
    return 0;
}
#endif
