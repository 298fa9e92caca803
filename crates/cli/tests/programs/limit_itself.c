// A program that limits its own address space after it has used the pool: small and large blocks must still be had.
// An address where no limit is is the kernel's to refuse.
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

int main(void) {
    char *kept = malloc(8 << 20);
    if (!kept) return 3;
    memset(kept, 7, 8 << 20);
    free(malloc(1 << 20));
    const struct rlimit *volatile nowhere = (void *)16;
    if (setrlimit(RLIMIT_AS, nowhere) != -1 || errno != EFAULT) return 6;
    struct rlimit limit = {400 << 20, 400 << 20};
    if (setrlimit(RLIMIT_AS, &limit)) return 4;
    int small = 0, large = 0;
    for (int i = 0; i < 5000; i++) small += malloc(10000) != NULL;
    for (int i = 0; i < 20; i++) {
        char *block = malloc(3 << 20);
        if (block) large++, memset(block, i, 3 << 20);
    }
    for (int i = 0; i < 8 << 20; i++) if (kept[i] != 7) return 5;
    free(kept);
    printf("small %d large %d\n", small, large);
    return 0;
}
