/* Threads that touch one new mapping, as in "Bringing The Hardware And Windows To Its Limits": `touch MB THREADS ROUNDS`.
 * Each thread writes one byte in every page of its own part. Then the memory goes back, and the next round begins. */
#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

enum { MOST = 1024 };
static struct part { volatile char *at; size_t len, page; } parts[MOST];
static pthread_barrier_t gate;

__attribute__((noinline)) static void *touch(void *given) {
    struct part *part = given;
    pthread_barrier_wait(&gate);
    for (size_t i = 0; i < part->len; i += part->page) part->at[i] = 1;
    return NULL;
}

static int once(size_t page, size_t pages, int count) {
    pthread_t threads[MOST];
    char *at = mmap(0, pages * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED) return 2;
    for (int i = 0; i < count; i++) {
        size_t first = pages * i / count, end = pages * (i + 1) / count;
        parts[i] = (struct part){at + first * page, (end - first) * page, page};
        if (pthread_create(&threads[i], NULL, touch, &parts[i])) return 2;
    }
    for (int i = 0; i < count; i++) pthread_join(threads[i], NULL);
    return munmap(at, pages * page);
}

int main(int argc, char **argv) {
    if (argc != 4) return 2;
    size_t page = sysconf(_SC_PAGESIZE), pages = ((size_t)atol(argv[1]) << 20) / page;
    int count = atoi(argv[2]);
    if (count < 1 || count > MOST || pages < (size_t)count) return 2;
    prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0);
    pthread_barrier_init(&gate, NULL, count);
    for (int rounds = atoi(argv[3]); rounds > 0; rounds--)
        if (once(page, pages, count)) return 2;
    return 0;
}
