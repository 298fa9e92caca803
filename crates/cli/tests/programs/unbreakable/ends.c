/* A process ends with its last thread, as if that had called exit(0). Usage: ends main | worker | last | term | kill */
#include "proc.h"
#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>

static void handler(void) {
    if (write(1, "exit handler\n", 13) < 0) _exit(81);
}

static void *allocates(void *nothing) {
    free(written(100 * MIB));
    return nothing;
}

static void *allocates_late(void *nothing) {
    sleep_ms(50);
    return allocates(nothing);
}

static void *waits(void *nothing) {
    allocates(nothing);
    for (;;) pause();
}

static void *ends_itself(void *nothing) {
    allocates(nothing);
    sleep_ms(50);
    kill(getpid(), SIGTERM);
    for (;;) pause();
}

int main(int count, char **words) {
    const char *way = count > 1 ? words[1] : "main";
    pthread_t thread;
    atexit(handler);
    if (strcmp(way, "main") == 0) {
        allocates(NULL);
    } else if (strcmp(way, "worker") == 0) {
        pthread_create(&thread, NULL, allocates, NULL);
        pthread_join(thread, NULL);
    } else if (strcmp(way, "last") == 0) {
        pthread_create(&thread, NULL, allocates_late, NULL);
    } else if (strcmp(way, "term") == 0) {
        pthread_create(&thread, NULL, ends_itself, NULL);
    } else if (strcmp(way, "kill") == 0) {
        pid_t parent = getpid();
        if (fork() == 0) {
            sleep_ms(300);
            kill(parent, SIGTERM);
            _exit(0);
        }
        pthread_create(&thread, NULL, waits, NULL);
    } else {
        return 2;
    }
    pthread_exit(0);
}
