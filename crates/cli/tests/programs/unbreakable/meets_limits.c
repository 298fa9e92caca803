/* A program that has freed much limits itself: what is free counts for nothing. Prints "served" or the errno.
 * Usage: meets_limits block-addresses | block-data | own-addresses | own-data | thread: what it asks for, and which limit it set;
 *        thread-before: the limit was there when it started. */
#include "proc.h"
#include <pthread.h>
#include <sys/mman.h>
#include <sys/resource.h>

static void limit(int resource, size_t most) {
    struct rlimit limit = {most, most};
    if (setrlimit(resource, &limit) != 0) exit(87);
}

static void *nothing(void *argument) { return argument; }

static int ask(const char *way) {
    pthread_t thread;
    if (strncmp(way, "thread", 6) == 0) return pthread_create(&thread, NULL, nothing, NULL);
    errno = 0;
    char *block = strncmp(way, "own", 3) == 0
        ? mmap(NULL, 300 * MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)
        : malloc(300 * MIB);
    if (!block || block == MAP_FAILED) return errno;
    block[0] = block[300 * MIB - 1] = 1;
    return 0;
}

/* A user of whom there is no other process may have this thread and one more. */
static void limit_threads(void) {
    uid_t user = 300000 + getpid();
    if (setresuid(user, user, user) != 0) printf("only root can\n"), exit(0);
    limit(RLIMIT_NPROC, 2);
}

int main(int count, char **words) {
    if (count < 2) return 2;
    if (strcmp(words[1], "thread-before") == 0) {
        limit_threads();
        execl(words[0], words[0], "thread-inside", NULL);
        return 88;
    }
    for (size_t len = 5 * MIB; len < 60 * MIB; len += 20 * MIB) free(written(len));
    free(written(200 * MIB));
    if (strcmp(words[1], "thread") == 0) {
        limit_threads();
    } else if (strcmp(words[1], "thread-inside") != 0) {
        limit(strstr(words[1], "data") ? RLIMIT_DATA : RLIMIT_AS, 400 * MIB);
    }
    int error = ask(words[1]);
    if (error) printf("errno %d\n", error);
    else printf("served\n");
    return 0;
}
