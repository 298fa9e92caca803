/* Leaves free memory in one way or another, and then waits: "gone" when it has gone back. */
#define _GNU_SOURCE
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define MIB (1L << 20)

static long resident_mib(void) {
    long all, resident;
    FILE *file = fopen("/proc/self/statm", "r");
    if (fscanf(file, "%ld %ld", &all, &resident) != 2) exit(1);
    fclose(file);
    return resident * sysconf(_SC_PAGESIZE) / MIB;
}

static char *written(long bytes) {
    char *block = malloc(bytes);
    memset(block, 1, bytes);
    return block;
}

static void be_on(int processor) {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(processor, &set);
    sched_setaffinity(0, sizeof set, &set); /* where there is only one, that one */
}

static void free_all(char **blocks, int count) {
    for (int at = 0; at < count; at++) free(blocks[at]);
}

int main(int count, char **words) {
    const char *way = count > 1 ? words[1] : "fork";
    char *blocks[19];
    if (strcmp(way, "fork") == 0) {
        for (int at = 0; at < 12; at++) blocks[at] = written(10 * MIB);
        free_all(blocks, 12);
        pid_t child = fork();
        if (child == 0) _exit(0);
        waitpid(child, 0, 0);
    } else if (strcmp(way, "forks") == 0) {
        for (int at = 0; at < 12; at++) blocks[at] = written(10 * MIB);
        free_all(blocks, 12);
        for (int round = 0; round < 5000 && resident_mib() > 40; round++) { /* less where the machine is not busy */
            pid_t child = fork();
            if (child == 0) _exit(0);
            waitpid(child, 0, 0);
            usleep(10000); /* a tenth of the decay time */
        }
        printf("%s", resident_mib() > 40 ? "while it forks nothing goes back, " : "");
    } else if (strcmp(way, "unshare") == 0) {
        for (int at = 0; at < 12; at++) blocks[at] = written(10 * MIB);
        free_all(blocks, 12);
        unshare(CLONE_FS);
    } else if (strcmp(way, "shrink") == 0) {
        free(written(200 * MIB));
        blocks[0] = realloc(written(200 * MIB), MIB);
    } else if (strcmp(way, "shrink-fresh") == 0) {
        blocks[0] = realloc(written(200 * MIB), MIB);
    } else if (strcmp(way, "grow") == 0) {
        char *first = written(200 * MIB + 100 * 1024), *second = written(MIB);
        blocks[0] = realloc(first, 209 * MIB);
        blocks[1] = second;
    } else if (strcmp(way, "front") == 0) {
        for (int at = 0; at < 16; at++) blocks[at] = written(2 * MIB);
        for (int at = 16; at < 19; at++) blocks[at] = written(10 * MIB);
        free_all(blocks + 16, 3);
        be_on(0);
        free_all(blocks, 8);
        be_on(1);
        free_all(blocks + 8, 8);
    } else {
        return 2;
    }
    long limit = strcmp(way, "grow") == 0 ? 250 : 40; /* what is in use, 32 MiB, and the program */
    for (int reading = 0; reading < 4000; reading++) {
        if (resident_mib() <= limit) {
            puts("gone");
            return 0;
        }
        usleep(50000);
    }
    printf("%ld MiB stay\n", resident_mib());
    return 0;
}
