/* One mechanism behind page faults at a time: mechanisms NAME ROUNDS. */
#define _GNU_SOURCE
#include <malloc.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { KIB = 1 << 10, MIB = 1 << 20 };

static void take(char *block, size_t bytes) { memset(block, 1, bytes); }
static void give(void *block) { free(block); }

/* Below the mmap threshold, which a large block has raised, and above the trim threshold, which it has too. */
static void *heap_top(void *rounds) {
    free(malloc(512 * KIB));
    for (int i = 0; i < *(int *)rounds; i++) {
        char *blocks[4];
        for (int b = 0; b < 4; b++) take(blocks[b] = malloc(500 * KIB), 500 * KIB);
        for (int b = 4; b--;) give(blocks[b]);
    }
    return NULL;
}

static void large(int rounds) {
    for (int i = 0; i < rounds; i++) {
        char *block = malloc(33 * MIB);
        take(block, 33 * MIB);
        give(block);
    }
}

/* Kept, these blocks would have to be zeroed. */
static void sparse(int rounds) {
    for (int i = 0; i < rounds; i++) {
        char *block = calloc(64, MIB);
        take(block, 4 * MIB);
        give(block);
    }
}

static void own(int rounds, int keep) {
    char *kept = mmap(NULL, 2 * MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    for (int i = 0; i < rounds; i++) {
        char *piece = keep ? kept : mmap(NULL, 2 * MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        madvise(piece, 2 * MIB, MADV_NOHUGEPAGE);
        take(piece, 2 * MIB);
        if (keep) madvise(piece, 2 * MIB, MADV_DONTNEED);
        else munmap(piece, 2 * MIB);
    }
}

static void *stack_user(void *unused) {
    char deep[2 * MIB];
    take(deep, sizeof deep);
    return deep[*(volatile int *)&unused & 1] ? NULL : unused;
}

static void threads(int rounds) {
    pthread_t thread;
    for (int i = 0; i < rounds; i++) pthread_create(&thread, NULL, stack_user, NULL), pthread_join(thread, NULL);
}

static void copies(int rounds) {
    char *block = malloc(8 * MIB);
    for (int i = 0; i < rounds; i++) {
        take(block, 8 * MIB);
        pid_t child = fork();
        if (!child) take(block, 8 * MIB), _exit(0);
        waitpid(child, NULL, 0);
    }
}

static void reads_first(int rounds) {
    volatile char sum = 0;
    for (int i = 0; i < rounds; i++) {
        char *piece = mmap(NULL, 2 * MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        madvise(piece, 2 * MIB, MADV_NOHUGEPAGE);
        for (int at = 0; at < 2 * MIB; at += 4096) sum += piece[at];
    }
}

int main(int argc, char **argv) {
    int rounds = argc > 2 ? atoi(argv[2]) : 100;
    const char *name = argc > 1 ? argv[1] : "";
    pthread_t thread;
    if (!strcmp(name, "heap_top")) heap_top(&rounds);
    else if (!strcmp(name, "arena")) pthread_create(&thread, NULL, heap_top, &rounds), pthread_join(thread, NULL);
    else if (!strcmp(name, "large")) large(rounds);
    else if (!strcmp(name, "sparse")) sparse(rounds);
    else if (!strcmp(name, "unmaps")) own(rounds, 0);
    else if (!strcmp(name, "advises")) own(rounds, 1);
    else if (!strcmp(name, "threads")) threads(rounds);
    else if (!strcmp(name, "copies")) copies(rounds);
    else if (!strcmp(name, "reads_first")) reads_first(rounds);
    else return 2;
    return 0;
}
