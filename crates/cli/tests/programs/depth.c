/* How deep malloc and its kin go into the stack: prints the bytes of the deepest call. Argument: the length in KiB. */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>

static ucontext_t here, there;
static char stack[64 << 10] __attribute__((aligned(64)));
static int step;
static size_t len;
static char *block, *zeroed;

static void take(void) {
    switch (step) {
    case 0: block = malloc(len); break;
    case 1: memset(block, 1, len); break;
    case 2: zeroed = calloc(1, len); break;
    case 3: block = realloc(block, 2 * len); break;
    case 4: free(zeroed); break;
    case 5: free(block); break;
    case 6: block = malloc(len); break;
    case 7: block = realloc(block, 3 * len); break;
    case 8: free(block); break;
    }
}

static size_t deep(void) {
    memset(stack, 0x5a, sizeof stack);
    getcontext(&there);
    there.uc_stack.ss_sp = stack;
    there.uc_stack.ss_size = sizeof stack;
    there.uc_link = &here;
    makecontext(&there, take, 0);
    swapcontext(&here, &there);
    size_t unused = 0;
    while (unused < sizeof stack && stack[unused] == 0x5a) unused++;
    return sizeof stack - unused;
}

int main(int count, char **words) {
    size_t deepest = 0;
    len = (size_t)atol(words[1]) << 10;
    for (step = 0; step < 9; step++) {
        size_t found = deep();
        if (found > deepest) deepest = found;
    }
    printf("%zu\n", deepest);
    return 0;
}
