/* Programs in which a thread waits, or another one pays: waits NAME [FILE]. Exit status 3: this machine can't. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { PAGE = 4096, MIB = 1 << 20 };

static char *map(size_t bytes) {
    char *piece = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (piece == MAP_FAILED) exit(3);
    madvise(piece, bytes, MADV_NOHUGEPAGE);
    return piece;
}

static void touch(char *piece, size_t bytes) {
    for (size_t at = 0; at < bytes; at += PAGE) piece[at] = 1;
}

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec + time.tv_nsec / 1e9;
}

static volatile int stop;

/* Gives pages back all the time, by one call or another. */
static void *giver(void *unmaps) {
    pthread_setname_np(pthread_self(), "giver");
    char *kept = map(16 * PAGE);
    while (!stop) {
        char *piece = unmaps ? map(16 * PAGE) : kept;
        touch(piece, 16 * PAGE);
        if (unmaps) munmap(piece, 16 * PAGE);
        else madvise(piece, 16 * PAGE, MADV_DONTNEED);
    }
    return NULL;
}

/* Interrupts to flush a TLB, of all processors. */
static long interrupts(void) {
    char line[4096], *at;
    long sum = 0;
    FILE *file = fopen("/proc/interrupts", "r");
    while (file && fgets(line, sizeof line, file)) {
        if (!(at = strstr(line, "TLB:"))) continue;
        for (at = strtok(at + 4, " "); at && *at >= '0' && *at <= '9'; at = strtok(NULL, " ")) sum += atol(at);
    }
    if (file) fclose(file);
    return sum;
}

/* Until so many interrupts came that they show; on a busy machine both threads rarely run at once. */
static void victim(int unmaps) {
    pthread_t thread;
    long begin = interrupts();
    pthread_create(&thread, NULL, giver, unmaps ? (void *)&stop : NULL);
    double end = now() + 3;
    while (interrupts() - begin < 20000) {
        if (now() > end) exit(3);
        for (volatile int step = 0; step < 10000000; step++) {}
    }
    stop = 1;
    pthread_join(thread, NULL);
}

static void forks(int execs) {
    touch(map(384 * MIB), 384 * MIB);
    for (int i = 0; i < 12; i++) {
        pid_t child = fork();
        if (!child && execs) execl("/bin/true", "true", NULL);
        if (!child) _exit(0);
        waitpid(child, NULL, 0);
    }
}

/* A file that is not in memory, read page by page: in order, or not. */
static void cold(const char *path, int random, int advice) {
    size_t bytes = 48 * MIB, pages = bytes / PAGE;
    int fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
    char *piece = malloc(MIB);
    for (size_t at = 0; at < bytes; at += MIB) {
        memset(piece, at / MIB + 1, MIB);
        if (write(fd, piece, MIB) != MIB) exit(3);
    }
    if (fsync(fd) || posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED)) exit(3);
    volatile char *file = mmap(NULL, bytes, PROT_READ, MAP_SHARED, fd, 0);
    unsigned char cached[48 * MIB / PAGE];
    if (mincore((void *)file, bytes, cached) || cached[pages / 2] & 1) exit(3);
    madvise((void *)file, bytes, advice);
    unsigned long sum = 0;
    for (size_t i = 0; i < pages; i++) sum += file[(random ? i * 7919 % pages : i) * PAGE];
    unlink(path);
}

static int uffd;

static void *filler(void *page) {
    struct pollfd wait = {uffd, POLLIN, 0};
    struct uffd_msg message;
    while (poll(&wait, 1, -1) == 1 && read(uffd, &message, sizeof message) == sizeof message) {
        unsigned long at = message.arg.pagefault.address & ~(PAGE - 1ul);
        struct uffdio_copy copy = {at, (unsigned long)page, PAGE, 0, 0};
        struct uffdio_zeropage zero = {{at, PAGE}, 0, 0};
        if (page ? ioctl(uffd, UFFDIO_COPY, &copy) : ioctl(uffd, UFFDIO_ZEROPAGE, &zero)) break;
    }
    return NULL;
}

static void filled(int copies) {
    uffd = syscall(SYS_userfaultfd, O_CLOEXEC | 1 /* UFFD_USER_MODE_ONLY */);
    struct uffdio_api api = {UFFD_API, 0, 0};
    char *piece = map(16 * MIB), *page = copies ? map(PAGE) : NULL;
    if (page) touch(page, PAGE);
    struct uffdio_register range = {{(unsigned long)piece, 16 * MIB}, UFFDIO_REGISTER_MODE_MISSING, 0};
    if (uffd < 0 || ioctl(uffd, UFFDIO_API, &api) || ioctl(uffd, UFFDIO_REGISTER, &range)) exit(3);
    pthread_t thread;
    pthread_create(&thread, NULL, filler, page);
    touch(piece, 16 * MIB);
}

int main(int argc, char **argv) {
    const char *name = argc > 1 ? argv[1] : "", *path = argc > 2 ? argv[2] : "waits.data";
    if (!strcmp(name, "madvise")) victim(0);
    else if (!strcmp(name, "munmap")) victim(1);
    else if (!strcmp(name, "forks")) forks(0);
    else if (!strcmp(name, "spawns")) forks(1);
    else if (!strcmp(name, "in_order")) cold(path, 0, MADV_RANDOM);
    else if (!strcmp(name, "ahead")) cold(path, 0, MADV_NORMAL);
    else if (!strcmp(name, "at_random")) cold(path, 1, MADV_RANDOM);
    else if (!strcmp(name, "copied")) filled(1);
    else if (!strcmp(name, "zeroed")) filled(0);
    else return 2;
    return 0;
}
