/* A signal handler forks, wherever in malloc and free it interrupted the only thread. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

static volatile int forks;

static void handler(int number) {
    (void)number;
    pid_t child = fork();
    if (child == 0) _exit(0);
    int status;
    waitpid(child, &status, 0);
    forks++;
}

int main(void) {
    static char *blocks[64];
    unsigned random = 1;
    alarm(600);
    signal(SIGPROF, handler);
    struct itimerval every = {{0, 2000}, {0, 2000}};
    setitimer(ITIMER_PROF, &every, 0);
    while (forks < 300) {
        random = random * 1103515245 + 12345;
        char **block = &blocks[random >> 16 & 63];
        free(*block);
        *block = malloc(65536 + (random >> 8 & 0x1fffff));
        (*block)[0] = 1;
    }
    puts("ok");
    return 0;
}
