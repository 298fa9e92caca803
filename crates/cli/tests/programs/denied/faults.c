/* Programs that come and go in ways that are easy to lose count of; each way touches so many fresh base pages. */
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern char **environ;

static void touch(size_t pages) {
    size_t page = sysconf(_SC_PAGESIZE);
    char *at = mmap(NULL, pages * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED) _exit(9);
    madvise(at, pages * page, MADV_NOHUGEPAGE);
    for (size_t n = 0; n < pages; n++) *(volatile char *)(at + n * page) = 1;
    munmap(at, pages * page);
}

static void *thread(void *pages) {
    touch((size_t)pages);
    return NULL;
}

static void threads(int all, int at_once, size_t pages) {
    pthread_t ids[64];
    for (int done = 0; done < all; done += at_once) {
        for (int n = 0; n < at_once; n++)
            if (pthread_create(&ids[n], NULL, thread, (void *)pages) != 0) _exit(8);
        for (int n = 0; n < at_once; n++) pthread_join(ids[n], NULL);
    }
}

static void await(pid_t pid) {
    int status;
    if (pid < 0 || waitpid(pid, &status, 0) != pid) _exit(7);
}

static void pause_ms(long ms) {
    struct timespec time = {ms / 1000, ms % 1000 * 1000000};
    nanosleep(&time, NULL);
}

static void children(int all, char *self, int by_vfork) {
    char *words[] = {self, "touch", "20", NULL};
    for (int n = 0; n < all; n++) {
        pid_t pid = -1;
        if (!by_vfork) {
            posix_spawn(&pid, "/proc/self/exe", NULL, NULL, words, environ);
        } else if ((pid = vfork()) == 0) {
            execve("/proc/self/exe", words, environ);
            _exit(6);
        }
        await(pid);
    }
}

/* 500 pages; then a daemon touches 50 at a time, for 0.2 s, of which this process sees a part. It ends when its input does. */
static void daemon_left(void) {
    touch(500);
    pid_t pid = fork();
    if (pid == 0) {
        setsid();
        if (fork() != 0) _exit(0);
        /* Who waits for the end of the outputs waits for the program. */
        close(1);
        close(2);
        for (int n = 0; n < 20; n++) {
            touch(50);
            pause_ms(10);
        }
        char byte;
        _exit(read(0, &byte, 1) != 0);
    }
    await(pid);
    pause_ms(50);
}

int main(int count, char **words) {
    const char *way = count > 1 ? words[1] : "";
    long n = count > 2 ? atol(words[2]) : 0;
    if (!strcmp(way, "touch")) {
        touch(n);
    } else if (!strcmp(way, "short")) {
        threads(500, 1, 20);
    } else if (!strcmp(way, "many")) {
        threads(64, 64, 200);
    } else if (!strcmp(way, "exec")) {
        char left[24];
        snprintf(left, sizeof left, "%ld", n - 1);
        touch(100);
        if (n > 1) execl("/proc/self/exe", words[0], "exec", left, NULL);
    } else if (!strcmp(way, "vfork")) {
        children(200, words[0], 1);
    } else if (!strcmp(way, "spawn")) {
        children(100, words[0], 0);
    } else if (!strcmp(way, "daemon")) {
        daemon_left();
    } else if (!strcmp(way, "kill")) {
        touch(2000);
        kill(getpid(), SIGKILL);
    } else if (!strcmp(way, "close")) {
        for (int fd = 3; fd < 1024; fd++) close(fd);
        touch(2000);
        threads(20, 4, 20);
    } else if (!strcmp(way, "undumpable")) {
        prctl(PR_SET_DUMPABLE, 0);
        touch(2000);
        threads(20, 4, 20);
    } else {
        return 5;
    }
    return 0;
}
