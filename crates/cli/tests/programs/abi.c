/* The corners of the malloc interface, each checked once. Guards against an interposer that only works for the middle. */
#define _GNU_SOURCE
#include <errno.h>
#include <malloc.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CHECK(what) do { if (!(what)) { printf("line %d: %s\n", __LINE__, #what); failures++; } } while (0)
static int failures;
static char *early;

__attribute__((constructor)) static void before_main(void) {
    early = malloc(1 << 20);
    if (early) memset(early, 5, 1 << 20);
}

static void at_exit(void) {
    char *late = calloc(1, 3 << 20);
    if (late && (late[0] || late[(3 << 20) - 1])) _exit(9);
    free(late);
    free(early);
}

static int all_zero(const char *p, size_t n) {
    for (size_t i = 0; i < n; i++) if (p[i]) return 0;
    return 1;
}

static void aligned(void) {
    for (size_t align = sizeof(void *); align <= 8u << 20; align *= 2) {
        for (size_t len = 1; len <= 5u << 20; len = len * 7 + 13) {
            void *p = NULL;
            CHECK(posix_memalign(&p, align, len) == 0 && (uintptr_t)p % align == 0);
            if (p) memset(p, 1, len);
            free(p);
            p = memalign(align, len);
            CHECK(p && (uintptr_t)p % align == 0);
            free(p);
            p = aligned_alloc(align, len);
            CHECK(p && (uintptr_t)p % align == 0 && malloc_usable_size(p) >= len);
            free(p);
        }
    }
    void *p = (void *)1;
    CHECK(posix_memalign(&p, 3, 1 << 20) == EINVAL && posix_memalign(&p, 2, 1 << 20) == EINVAL);
    CHECK(p == (void *)1);
    size_t page = sysconf(_SC_PAGESIZE);
    for (size_t len = 1; len < 3u << 20; len = len * 9 + 1) {
        p = valloc(len);
        CHECK(p && (uintptr_t)p % page == 0);
        free(p);
        p = pvalloc(len);
        CHECK(p && (uintptr_t)p % page == 0 && malloc_usable_size(p) >= (len + page - 1) / page * page);
        free(p);
    }
}

static void zeroes(void) {
    for (int round = 0; round < 16; round++) {
        size_t len = ((size_t)round * 7919 * 1000) % (6u << 20) + 1;
        char *p = malloc(len);
        memset(p, 0xa5, len);
        free(p);
        p = calloc(len / 3 + 1, 3);
        CHECK(p && all_zero(p, len));
        memset(p, 0x5a, len);
        free(p);
    }
}

static void resized(void) {
    size_t len = 1;
    unsigned char *p = malloc(len);
    p[0] = 1;
    while (len < 64u << 20) {
        size_t next = len + len / 2 + 1;
        p = realloc(p, next);
        CHECK(p != NULL);
        for (size_t i = len; i < next; i += 4096) p[i] = (unsigned char)(i / 4096);
        p[next - 1] = 77;
        CHECK(p[0] == 1 && p[len - 1] == (len == 1 ? 1 : 77));
        len = next;
    }
    void *other = malloc(1 << 20);
    while (len > 1) {
        p = realloc(p, len / 3 + 1);
        CHECK(p && p[0] == 1);
        len = len == 2 ? 1 : len / 3 + 1;
    }
    free(other);
    free(p);
    for (size_t size = 10; size < 3u << 20; size *= 3) {
        errno = 0;
        CHECK(realloc(malloc(size), 0) == NULL);
    }
    p = realloc(NULL, 1 << 20);
    CHECK(p != NULL);
    errno = 0;
    CHECK(realloc(p, PTRDIFF_MAX) == NULL && errno == ENOMEM);
    p[(1 << 20) - 1] = 3;
    errno = 0;
    CHECK(reallocarray(p, SIZE_MAX / 2, 3) == NULL && errno == ENOMEM);
    CHECK(p[(1 << 20) - 1] == 3);
    p = reallocarray(p, 3, 1 << 20);
    CHECK(p && p[(1 << 20) - 1] == 3);
    free(p);
}

static void refused(void) {
    size_t huge[] = {PTRDIFF_MAX, SIZE_MAX, SIZE_MAX - 4096, (size_t)1 << 62};
    for (int i = 0; i < 4; i++) {
        errno = 0;
        CHECK(malloc(huge[i]) == NULL && errno == ENOMEM);
        errno = 0;
        CHECK(calloc(huge[i], 2) == NULL && errno == ENOMEM);
        errno = 0;
        CHECK(memalign(1 << 21, huge[i]) == NULL && errno == ENOMEM);
        void *p;
        CHECK(posix_memalign(&p, 64, huge[i]) == ENOMEM);
    }
    errno = 0;
    CHECK(calloc(SIZE_MAX / 2 + 2, 2) == NULL && errno == ENOMEM);
}

int main(void) {
    atexit(at_exit);
    CHECK(early && early[12345] == 5);
    void *p = malloc(0);
    free(p);
    free(NULL);
    CHECK(malloc_usable_size(NULL) == 0);
    p = malloc(1 << 20);
    errno = 42;
    free(p);
    CHECK(errno == 42);
    aligned();
    zeroes();
    resized();
    refused();
    puts(failures ? "failed" : "ok");
    return failures != 0;
}
