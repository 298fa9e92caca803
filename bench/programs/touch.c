/* Threads that touch one new mapping, as in "Bringing The Hardware And Windows To Its Limits": `touch MIB THREADS ROUNDS`.
 * Each thread writes one byte in every page of its own part. Then the memory goes back, and the next round begins. */
#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

enum { MOST = 1024 };
static size_t page, pages, count;
static volatile char *at;
static pthread_barrier_t gate;

__attribute__((noinline)) static void *touch(void *part) {
    size_t from = pages * (size_t)part / count, end = pages * ((size_t)part + 1) / count;
    pthread_barrier_wait(&gate);
    for (size_t i = from; i < end; i++) at[i * page] = 1;
    return NULL;
}

int main(int argc, char **argv) {
    if (argc != 4) return 2;
    page = sysconf(_SC_PAGESIZE), pages = ((size_t)atol(argv[1]) << 20) / page, count = atol(argv[2]);
    if (count < 1 || count > MOST || pages < count) return 2;
    prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0);
    pthread_barrier_init(&gate, NULL, count);
    for (int rounds = atoi(argv[3]); rounds > 0; rounds--) {
        pthread_t threads[MOST];
        at = mmap(0, pages * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (at == MAP_FAILED) return 2;
        for (size_t i = 0; i < count; i++)
            if (pthread_create(&threads[i], NULL, touch, (void *)i)) return 2;
        for (size_t i = 0; i < count; i++) pthread_join(threads[i], NULL);
        munmap((void *)at, pages * page);
    }
    return 0;
}
