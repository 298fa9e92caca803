// A program that has used up vm.max_map_count: large blocks must still come, or a clean ENOMEM, with their content kept.
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { BLOCKS = 64 };
static unsigned char *blocks[BLOCKS];
static size_t lens[BLOCKS];
static unsigned long served, refused;

static void fail(const char *what) { fprintf(stderr, "many_maps: %s\n", what); _exit(3); }

// Pages of alternating rights never merge: one mapping each.
static long fill_the_maps(void) {
    size_t page = (size_t)sysconf(_SC_PAGESIZE), pages = 80000;
    unsigned char *range = mmap(NULL, pages * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (range == MAP_FAILED) fail("no addresses");
    long made = 0;
    for (size_t i = 0; i < pages; i += 2, made += 2)
        if (mprotect(range + i * page, page, PROT_READ)) break;
    return made;
}

static void check(int i) {
    if (blocks[i] && (blocks[i][0] != i + 1 || blocks[i][lens[i] - 1] != i + 1)) fail("content lost");
}

static void mark(int i, unsigned char *p, size_t len) {
    blocks[i] = p;
    lens[i] = len;
    p[0] = p[len - 1] = (unsigned char)(i + 1);
    served++;
}

static void step(int i, size_t len, unsigned kind) {
    errno = 0;
    check(i);
    if (kind < 2 && blocks[i]) {
        unsigned char *p = realloc(blocks[i], len);
        if (p && p[0] != i + 1) fail("realloc lost the content");
        if (p) mark(i, p, len);
        else if (errno != ENOMEM) fail("realloc refused without ENOMEM");
        else refused++;
        return;
    }
    free(blocks[i]);
    blocks[i] = NULL;
    unsigned char *p = kind == 2 ? calloc(1, len) : malloc(len);
    if (p && kind == 2)
        for (size_t at = 0; at < len; at += 512) if (p[at]) fail("calloc is not zero");
    if (p) mark(i, p, len);
    else if (errno != ENOMEM) fail("refused without ENOMEM");
    else refused++;
}

int main(int argc, char **argv) {
    uint64_t s = 88172645463325252u;
    int before = argc > 1 && !strcmp(argv[1], "used-before");
    for (int round = 0; round < 4000; round++) {
        if (round == (before ? 500 : 0)) fprintf(stderr, "%ld mappings\n", fill_the_maps());
        s ^= s << 13; s ^= s >> 7; s ^= s << 17;
        step((int)(s % BLOCKS), (size_t)65536 + (s >> 20) % (6 << 20), (unsigned)(s >> 8) % 5);
    }
    for (int i = 0; i < BLOCKS; i++) { check(i); free(blocks[i]); }
    fprintf(stderr, "%lu served, %lu refused\n", served, refused);
    printf("ok\n");
    return 0;
}
