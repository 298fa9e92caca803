/* Blocks that change hands between a program and a library that it opens with RTLD_DEEPBIND. With -DLIBRARY it is the library.
 * Usage: deepbind LENGTH; the library's name is LIBRARY_NAME, which the program's own RUNPATH finds. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef LIBRARY
void *make(size_t len) { return memset(malloc(len), 7, len); }
void give_up(void *block) { free(block); }
void *grow(void *block, size_t len) { return realloc(block, len); }
#else
int main(int count, char **words) {
    if (count < 2) return 2;
    size_t len = atol(words[1]);
    void *library = dlopen(LIBRARY_NAME, RTLD_NOW | RTLD_DEEPBIND);
    if (!library) return printf("%s\n", dlerror()), 0;
    void *(*make)(size_t) = dlsym(library, "make");
    void (*give_up)(void *) = dlsym(library, "give_up");
    void *(*grow)(void *, size_t) = dlsym(library, "grow");
    for (int round = 0; round < 20; round++) {
        char *theirs = make(len), *ours = memset(malloc(len), 8, len);
        theirs = realloc(theirs, 3 * len);
        ours = grow(ours, 3 * len);
        printf("%d %d\n", theirs[len - 1], ours[len - 1]);
        free(theirs);
        give_up(ours);
    }
    return 0;
}
#endif
