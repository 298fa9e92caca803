/* Frees 100 MiB and waits until they are gone, for at most so many tenths of a second as the first word says. Prints
 * whether the memory is still resident. The other words are libraries to load meanwhile. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MIB = 1 << 20, LEN = 100 * MIB };

static long resident_mib(void) {
    long pages = 0;
    FILE *counts = fopen("/proc/self/statm", "r");
    if (!counts || fscanf(counts, "%*d %ld", &pages) != 1) exit(3);
    fclose(counts);
    return pages * sysconf(_SC_PAGESIZE) / MIB;
}

int main(int count, char **words) {
    char *block = malloc(LEN);
    memset(block, 1, LEN);
    for (int at = 2; at < count; at++)
        if (!dlopen(words[at], RTLD_NOW)) return fprintf(stderr, "%s\n", dlerror());
    free(block);
    for (int tenths = atoi(words[1]); tenths > 0 && resident_mib() > 60; tenths--) usleep(100000);
    /* Neither a longer block nor a child gets pages by other ways than copying. */
    block = malloc(LEN / 2);
    block[0] = 1;
    if (fork() == 0) _exit(memset(realloc(block, LEN), 2, LEN) == NULL);
    puts(resident_mib() > 60 ? "kept" : "gone");
    return 0;
}
