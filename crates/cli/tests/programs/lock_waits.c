/* Three threads that want the lock of the address space: mincore for reading, mprotect and madvise for writing. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { BYTES = 64 << 20, PAGE = 4096 };

static char *memory;
static atomic_int ended;

static void *reads(void *unused) {
    static unsigned char pages[BYTES / PAGE];
    while (!ended) mincore(memory, BYTES, pages);
    return unused;
}

static void *protects(void *unused) {
    while (!ended) {
        mprotect(memory, PAGE, PROT_READ);
        mprotect(memory, PAGE, PROT_READ | PROT_WRITE);
    }
    return unused;
}

static void *advises(void *unused) {
    while (!ended) {
        madvise(memory + BYTES / 2, PAGE, MADV_RANDOM);
        madvise(memory + BYTES / 2, PAGE, MADV_NORMAL);
    }
    return unused;
}

int main(void) {
    void *(*works[])(void *) = {reads, protects, advises};
    pthread_t threads[3];
    memory = mmap(0, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memset(memory, 1, BYTES);
    for (int i = 0; i < 3; i++) pthread_create(&threads[i], 0, works[i], 0);
    sleep(1);
    ended = 1;
    for (int i = 0; i < 3; i++) pthread_join(threads[i], 0);
    return 0;
}
