/* A program with planted regressions: `planted NAME` does the usual work and some more in one function. Without a name
 * it does the usual work. Each regression takes at least 5 % more memory, but "price" takes other pages: as many faults, which
 * cost more. bench/topics/accuracy.py knows the functions. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define NOINLINE __attribute__((noinline))

static const char *planted = "";
static volatile unsigned long sum;

static int is(const char *name) { return strcmp(planted, name) == 0; }

static char *touched(size_t len) {
    char *block = malloc(len);
    if (!block)
        exit(1);
    memset(block, 1, len);
    sum += block[len / 2];
    return block;
}

/* 24 MiB of small blocks on the heap. "leak": some of those that it makes anew do not fit. */
NOINLINE void load_rows(void) {
    static char *rows[60000];
    for (int i = 0; i < 60000; i++)
        rows[i] = touched(400);
    for (int i = 0; i < 60000; i += 2)
        free(rows[i]);
    for (int i = 0; i < 60000; i += 2)
        rows[i] = touched(is("leak") && i % 8 == 0 ? 480 : 400);
}

/* 8 MiB in one block. "index": a quarter more. */
NOINLINE void build_index(void) { touched(is("index") ? 12u << 20 : 8u << 20); }

/* 16 passes over one buffer of 4 MiB. "passes": a new buffer for some of them. */
NOINLINE void sort_passes(void) {
    char *buffer = touched(4 << 20);
    for (int pass = 0; pass < 16; pass++) {
        if (is("passes") && pass % 8 == 7) {
            free(buffer);
            buffer = touched(4 << 20);
        }
        memset(buffer, pass, 4 << 20);
    }
    free(buffer);
}

/* A stack of 2 MiB. "stack": larger frames. */
NOINLINE unsigned long walk(int depth) {
    volatile char frame[4096];
    frame[0] = (char)depth;
    unsigned long below = depth > 0 ? walk(depth - 1) : 0;
    return below + (unsigned char)frame[0];
}

/* A child that writes to 4 MiB that it shares. "copy": to more. */
NOINLINE void run_child(char *shared) {
    pid_t child = fork();
    if (child == 0) {
        memset(shared, 3, is("copy") ? 8 << 20 : 4 << 20);
        _exit(0);
    }
    waitpid(child, 0, 0);
}

/* A mapping of 24 MiB, touched in every other page of its first 16 MiB. "sparse": of all of it. */
NOINLINE void fill_table(void) {
    char *table = mmap(0, 24 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    for (size_t at = 0; at < (is("sparse") ? 24u : 16u) << 20; at += 8192)
        table[at] = 1;
}

/* 8 MiB that it reads, and all pages are the page of zeros. "price": it writes, and each page is one of its own. */
NOINLINE void look_up(void) {
    volatile char *table = mmap(0, 8 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    for (size_t at = 0; at < 8u << 20; at += 4096)
        if (is("price"))
            table[at] = 1;
        else
            sum += table[at];
}

int main(int argc, char **argv) {
    prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0);
    planted = argc > 1 ? argv[1] : "";
    load_rows();
    build_index();
    sort_passes();
    sum += walk(is("stack") ? 1500 : 500);
    char *shared = touched(8 << 20);
    run_child(shared);
    fill_table();
    look_up();
    printf("%lu\n", sum);
    return 0;
}
