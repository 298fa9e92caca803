/* Small blocks of one kind or another, most of them freed: "peak MIB rest MIB". Confined: "ok". */
#define _GNU_SOURCE
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define COUNT 40000
#define ALLOW(call) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_##call, 0, 1), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)

static char *blocks[COUNT];
static unsigned long state = 88172645463325252;

static unsigned long draw(unsigned long below) {
    state ^= state << 13, state ^= state >> 7, state ^= state << 17;
    return state % below;
}

/* Blocks of random lengths, of which the program writes `written` bytes. */
static void take(int count, long least, long spread, long written) {
    for (int at = 0; at < count; at++) {
        long len = least + (spread ? draw(spread) : 0);
        blocks[at] = malloc(len);
        memset(blocks[at], 1, written < len ? written : len);
    }
}

/* Frees all but one of `kept`; 0: all. */
static void leave(int count, int kept) {
    for (int at = 0; at < count; at++) {
        if (kept == 0 || at % kept) free(blocks[at]), blocks[at] = 0;
    }
}

static void *take_in_thread(void *_) {
    take(COUNT, 8000, 8000, 16000);
    return 0;
}

static pthread_barrier_t all_have;

/* Blocks of all small sizes, a few MiB in all. */
static void *hold_in_thread(void *seed) {
    unsigned long own = state + (unsigned long)seed, sum = 0;
    char *held[3000];
    int count = 0;
    for (; sum < 1800 << 10; count++) {
        own ^= own << 13, own ^= own >> 7, own ^= own << 17;
        unsigned long len = (16ul << own % 12) + (own >> 32) % (16ul << own % 12);
        held[count] = memset(malloc(len), 1, len);
        sum += len;
    }
    pthread_barrier_wait(&all_have);
    while (count) free(held[--count]);
    return 0;
}

/* No calls but those that glibc's malloc makes in one thread. */
static int confine(void) {
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        ALLOW(brk), ALLOW(mmap), ALLOW(munmap), ALLOW(mremap), ALLOW(write), ALLOW(exit_group), ALLOW(clock_gettime),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
    };
    struct sock_fprog program = {sizeof filter / sizeof *filter, filter};
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
}

/* Uses freed blocks after longer than an allocator may wait before it gives them back. */
static int confined(void) {
    take(COUNT, 2000, 30000, 500);
    if (confine()) return 3;
    leave(COUNT, 0);
    struct timespec begin, now;
    clock_gettime(CLOCK_MONOTONIC, &begin);
    do clock_gettime(CLOCK_MONOTONIC, &now);
    while (now.tv_sec - begin.tv_sec < 3);
    for (int round = 0; round < 3; round++) {
        for (int at = 0; at < COUNT; at++) {
            long len = 2000 + draw(30000);
            blocks[at] = calloc(1, len);
            for (long byte = 0; byte < len; byte++) {
                if (blocks[at][byte]) _exit(4);
            }
            blocks[at][len - 1] = 1;
        }
        leave(COUNT, 0);
    }
    if (write(1, "ok\n", 3) != 3) return 5;
    _exit(0);
}

int main(int count, char **words) {
    const char *way = count > 1 ? words[1] : "";
    if (strcmp(way, "confined") == 0) return confined();
    if (strcmp(way, "sparse") == 0) {
        take(30000, 1000, 60000, 1000);
        leave(30000, 16);
    } else if (strcmp(way, "phases") == 0) {
        take(COUNT, 16000, 0, 16000);
        leave(COUNT, 0);
        take(COUNT / 4, 60000, 0, 60000);
        leave(COUNT / 4, 0);
    } else if (strcmp(way, "threads") == 0) { /* another thread's blocks, after its end */
        pthread_t thread;
        pthread_create(&thread, 0, take_in_thread, 0);
        pthread_join(thread, 0);
        leave(COUNT, 0);
    } else if (strcmp(way, "beside") == 0) { /* eight threads at a time */
        pthread_t threads[8];
        pthread_barrier_init(&all_have, 0, 8);
        for (long at = 0; at < 8; at++) pthread_create(&threads[at], 0, hold_in_thread, (void *)at);
        for (int at = 0; at < 8; at++) pthread_join(threads[at], 0);
    } else if (strcmp(way, "grow") == 0) { /* texts that grow to different lengths, touched as they grow */
        take(4000, 64, 0, 64);
        for (long len = 128; len <= 32768; len *= 2) {
            for (int at = 0; at < 4000; at++) {
                if (draw(8) == 0) continue;
                blocks[at] = realloc(blocks[at], len);
                blocks[at][len - 1] = 1;
            }
        }
        leave(4000, 0);
    } else {
        return 2;
    }
    long all, resident;
    FILE *file = fopen("/proc/self/statm", "r");
    if (fscanf(file, "%ld %ld", &all, &resident) != 2) return 1;
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    printf("peak %ld rest %ld\n", usage.ru_maxrss >> 10, resident * sysconf(_SC_PAGESIZE) >> 20);
    return 0;
}
