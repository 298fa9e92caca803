/* Faults in known numbers: `touch PAGES` touches so many private pages and prints the median time of a touch in ns;
   `tree PAGES` does it in two threads, three children and one grandchild that nobody waits for.
   With a third word it first waits for a byte on its stdin. */
#define _GNU_SOURCE
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static size_t pages, page;

static long now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000L + t.tv_nsec;
}

static int order(const void *a, const void *b) {
    long x = *(const long *)a, y = *(const long *)b;
    return (x > y) - (x < y);
}

static void *touch(void *times) {
    long *ns = times;
    char *p = mmap(NULL, pages * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED) exit(9);
    madvise(p, pages * page, MADV_NOHUGEPAGE);
    for (size_t i = 0; i < pages; i++) {
        long begin = ns ? now() : 0;
        *(volatile char *)(p + i * page) = 1;
        if (ns) ns[i] = now() - begin;
    }
    munmap(p, pages * page);
    return NULL;
}

/* Returns once a process that is no child of ours has ended: its usage is complete then. */
static void await_end(pid_t pid) {
#ifdef SYS_pidfd_open
    struct pollfd end = {syscall(SYS_pidfd_open, pid, 0), POLLIN, 0};
    if (end.fd >= 0) poll(&end, 1, -1);
#else
    (void)pid;
    usleep(50000);
#endif
}

int main(int argc, char **argv) {
    char byte;
    if (argc < 3 || (argc > 3 && read(0, &byte, 1) != 1)) return 9;
    pages = strtoul(argv[2], NULL, 10);
    page = sysconf(_SC_PAGESIZE);
    if (strcmp(argv[1], "touch") == 0) {
        long *ns = malloc(pages * sizeof *ns);
        memset(ns, 1, pages * sizeof *ns);
        touch(ns);
        qsort(ns, pages, sizeof *ns, order);
        printf("%ld\n", ns[pages / 2]);
        return 0;
    }
    pthread_t threads[2];
    for (int i = 0; i < 2; i++) pthread_create(&threads[i], NULL, touch, NULL);
    for (int i = 0; i < 2; i++) pthread_join(threads[i], NULL);
    for (int i = 0; i < 3; i++)
        if (fork() == 0) _exit(touch(NULL) != NULL);
    while (wait(NULL) > 0) {}
    int done[2];
    if (pipe(done) != 0) return 9;
    if (fork() == 0) {
        if (fork() == 0) {
            touch(NULL);
            pid_t own = getpid();
            _exit(write(done[1], &own, sizeof own) != sizeof own);
        }
        _exit(0);
    }
    wait(NULL);
    pid_t orphan;
    if (read(done[0], &orphan, sizeof orphan) != sizeof orphan) return 9;
    await_end(orphan);
    return 0;
}
