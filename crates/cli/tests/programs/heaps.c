/* One mechanism of allocators and of populated memory at a time: heaps NAME ROUNDS. */
#define _GNU_SOURCE
#include <malloc.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum { KIB = 1 << 10, MIB = 1 << 20 };

static void take(char *block, size_t bytes) { memset(block, 1, bytes); }

static char *map(size_t bytes, int prot, int flags) {
    return mmap(NULL, bytes, prot, MAP_PRIVATE | MAP_ANONYMOUS | flags, -1, 0);
}

static void compute(int ms) {
    struct timespec now, end;
    clock_gettime(CLOCK_MONOTONIC, &end);
    for (end.tv_nsec += ms * 1000000l; end.tv_nsec >= 1000000000; end.tv_nsec -= 1000000000) end.tv_sec++;
    do clock_gettime(CLOCK_MONOTONIC, &now);
    while (now.tv_sec < end.tv_sec || (now.tv_sec == end.tv_sec && now.tv_nsec < end.tv_nsec));
}

/* As a vector does: a longer block, a copy, and the old one is freed. */
static void grow_copy(int rounds) {
    for (int i = 0; i < rounds / 8 + 1; i++) {
        char *old = malloc(256 * KIB);
        size_t len = 256 * KIB;
        for (take(old, len); len < 64 * MIB; len *= 2) {
            char *longer = malloc(2 * len);
            memcpy(longer, old, len);
            free(old);
            take(longer + len, len);
            old = longer;
        }
        free(old);
    }
}

static void grow_map(int rounds) {
    for (int i = 0; i < rounds; i++) {
        size_t len = 256 * KIB;
        char *old = map(len, PROT_READ | PROT_WRITE, 0);
        for (take(old, len); len < 16 * MIB; len *= 2) {
            char *longer = map(2 * len, PROT_READ | PROT_WRITE, 0);
            memcpy(longer, old, len);
            munmap(old, len);
            take(longer + len, len);
            old = longer;
        }
        munmap(old, len);
    }
}

static void populate(int rounds, const char *how) {
    for (int i = 0; i < rounds; i++) {
        int prot = strcmp(how, "none") ? PROT_READ : PROT_NONE;
        if (!strcmp(how, "unmapped") || !strcmp(how, "back")) prot = PROT_READ | PROT_WRITE;
        char *piece = map(4 * MIB, prot, MAP_POPULATE);
        if (!strcmp(how, "back")) madvise(piece, 4 * MIB, MADV_DONTNEED);
        mprotect(piece, 4 * MIB, PROT_READ | PROT_WRITE);
        madvise(piece, 4 * MIB, MADV_NOHUGEPAGE);
        take(piece, 4 * MIB);
        if (!strcmp(how, "unmapped")) munmap(piece, 4 * MIB);
    }
}

/* A library asks for huge pages on a block, and frees it. */
static void ask(char *block, size_t bytes) {
    uintptr_t from = ((uintptr_t)block + 4095) & ~4095ul;
    madvise((void *)from, (bytes - 8192) & ~4095ul, MADV_HUGEPAGE);
    free(block);
}

static void *sparse_table(void *slots) {
    for (int i = 0; i < *(int *)slots; i++) {
        volatile char *slot = malloc(64 * KIB);
        slot[40000] = 1;
    }
    return NULL;
}

static void flag(int rounds) {
    mallopt(M_MMAP_MAX, 0);
    mallopt(M_TRIM_THRESHOLD, 1 << 30);
    ask(malloc(256 * MIB), 256 * MIB);
    int slots = 100 * rounds;
    sparse_table(&slots);
}

static void flag_of_parts(int rounds) {
    mallopt(M_MMAP_MAX, 0);
    mallopt(M_TRIM_THRESHOLD, 1 << 30);
    char *parts[8];
    for (int i = 0; i < 8; i++) parts[i] = malloc(24 * MIB);
    for (int i = 0; i < 8; i++) ask(parts[i], 24 * MIB);
    int slots = 80 * rounds;
    sparse_table(&slots);
}

/* The first rounds train malloc, later ones find their blocks in the heap. */
static void learned(size_t bytes, int rounds) {
    for (int i = 0; i < 10 * rounds; i++) {
        char *block = malloc(bytes);
        take(block, i < 4 ? bytes : 4096);
        free(block);
    }
    compute(300);
}

static void starts(int rounds) {
    take(malloc(MIB / 2 * rounds), MIB / 2 * rounds);
    compute(300);
}

static void *keeper(void *bytes) {
    take(malloc((size_t)bytes), (size_t)bytes);
    compute(60);
    return NULL;
}

int main(int argc, char **argv) {
    int rounds = argc > 2 ? atoi(argv[2]) : 30;
    const char *name = argc > 1 ? argv[1] : "";
    pthread_t thread;
    if (!strcmp(name, "grow_copy")) grow_copy(rounds);
    else if (!strcmp(name, "grow_map")) grow_map(rounds);
    else if (!strncmp(name, "populate_", 9)) populate(rounds, name + 9);
    else if (!strcmp(name, "flag")) flag(rounds);
    else if (!strcmp(name, "flag_of_parts")) flag_of_parts(rounds);
    else if (!strcmp(name, "learned")) learned(20 * MIB, rounds);
    else if (!strcmp(name, "learned_small")) learned(4 * MIB, rounds);
    else if (!strcmp(name, "starts")) starts(rounds);
    else if (!strcmp(name, "keeper")) {
        for (int i = 0; i < 4; i++) pthread_create(&thread, NULL, keeper, (void *)(size_t)(rounds * MIB / 4)), pthread_join(thread, NULL);
        compute(600);
    }
    else return 2;
    return 0;
}
