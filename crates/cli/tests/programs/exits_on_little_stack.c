/* `exit` and a second `free`, where no more stack is left than a thread or a signal handler has at the least. */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char stack[8192];
static const char *way;

static void handler(int signal) {
    (void)signal;
    exit(0);
}

static void *work(void *nothing) {
    void *volatile block = malloc(1 << 20);
    free(block);
    if (strcmp(way, "twice") == 0) free(block);
    exit(0);
    return nothing;
}

int main(int count, char **words) {
    way = count > 1 ? words[1] : "exit";
    if (strcmp(way, "handler") == 0) {
        free(malloc(1 << 20));
        stack_t other = {stack, 0, sizeof stack};
        struct sigaction action = {0};
        action.sa_handler = handler;
        action.sa_flags = SA_ONSTACK;
        if (sigaltstack(&other, 0) != 0 || sigaction(SIGTERM, &action, 0) != 0) return 1;
        raise(SIGTERM);
        return 2;
    }
    pthread_attr_t attributes;
    pthread_t thread;
    pthread_attr_init(&attributes);
    if (pthread_attr_setstacksize(&attributes, sysconf(_SC_THREAD_STACK_MIN)) != 0) return 3;
    if (pthread_create(&thread, &attributes, work, NULL) != 0) return 4;
    pthread_join(thread, NULL);
    return 5;
}
