// gives WAY PAGES ROUNDS: touches so many pages and gives them back in one way, again and again. Prints the calls, the
// bytes that were taken again, the time in the calls and the CPU time of all rounds, ns.
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

static long now(clockid_t clock) {
    struct timespec at;
    clock_gettime(clock, &at);
    return at.tv_sec * 1000000000L + at.tv_nsec;
}

static void touch(char *memory, size_t bytes) {
    for (size_t at = 0; at < bytes; at += 4096) *(volatile char *)(memory + at) = 1;
}

static char *fresh(size_t bytes) { return mmap(0, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0); }

int main(int count, char **words) {
    if (count < 4) return 2;
    const char *way = words[1];
    size_t bytes = atol(words[2]) * 4096;
    long rounds = atol(words[3]), spent = 0;
    char *memory = strcmp(way, "brk") ? fresh(bytes) : sbrk(bytes);
    long begin = now(CLOCK_PROCESS_CPUTIME_ID);
    for (long round = 0; round < rounds; round++) {
        touch(memory, bytes);
        long from = now(CLOCK_MONOTONIC);
        if (!strcmp(way, "munmap")) munmap(memory, bytes);
        else if (!strcmp(way, "dontneed")) madvise(memory, bytes, MADV_DONTNEED);
        else if (!strcmp(way, "brk")) sbrk(-(long)bytes);
        else if (!strcmp(way, "mremap")) mremap(memory, bytes, 4096, 0);
        else if (!strcmp(way, "over")) mmap(memory, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
        else return 2;
        spent += now(CLOCK_MONOTONIC) - from;
        if (!strcmp(way, "munmap")) memory = fresh(bytes);
        if (!strcmp(way, "brk")) sbrk(bytes);
        if (!strcmp(way, "mremap")) memory = mremap(memory, 4096, bytes, MREMAP_MAYMOVE);
    }
    size_t again = strcmp(way, "mremap") ? bytes : bytes - 4096;
    printf("%ld %ld %ld %ld\n", rounds, (rounds - 1) * (long)again, spent, now(CLOCK_PROCESS_CPUTIME_ID) - begin);
    return 0;
}
