/* What only a process of one thread may do, and what a second thread could disturb, with a pool that has a background thread:
 * namespaces, users, sandboxes, signals, descriptors, fork. Prints the same with and without the pool.
 * With the argument "thread" it demands that there was one. */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define BLOCKS 64
#define LEN (1 << 20)

static int with_thread;

static int threads(void) {
    DIR *tasks = opendir("/proc/self/task");
    int count = -2;
    while (readdir(tasks)) count++;
    closedir(tasks);
    return count;
}

/* More freed memory than a pool retains without a background thread. */
static void burst(void) {
    char *blocks[BLOCKS];
    for (int at = 0; at < BLOCKS; at++) {
        blocks[at] = malloc(LEN);
        memset(blocks[at], at, LEN);
    }
    for (int at = 0; at < BLOCKS; at++) {
        if (blocks[at][LEN - 1] != at) printf("lost\n");
        free(blocks[at]);
    }
}

static void rouse(void) {
    burst();
    for (int wait = 0; with_thread && threads() < 2; wait++) {
        if (wait == 20000) { printf("no background thread came\n"); exit(1); }
        usleep(1000);
        burst();
    }
}

static void in_child(const char *name, int (*work)(void)) {
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) { int result = work(); fflush(stdout); _exit(result); }
    int status;
    waitpid(child, &status, 0);
    printf("%s: %x\n", name, status);
}

static int forked(void) {
    int alone = threads() == 1;
    rouse();
    return alone ? 0 : 1;
}

static int user_namespace(void) {
    rouse();
    return unshare(CLONE_NEWUSER) == 0 ? 0 : errno;
}

static int mount_namespace(void) {
    rouse();
    int own = open("/proc/self/ns/mnt", O_RDONLY);
    return setns(own, CLONE_NEWNS) == 0 ? 0 : errno;
}

static int other_user(void) {
    rouse();
    if (setresuid(65534, 65534, 65534) != 0) return errno;
    burst();
    DIR *tasks = opendir("/proc/self/task");
    for (struct dirent *task; (task = readdir(tasks));) {
        char path[300], line[300];
        unsigned uid = 65534;
        snprintf(path, sizeof path, "/proc/self/task/%s/status", task->d_name);
        FILE *status = task->d_name[0] == '.' ? NULL : fopen(path, "r");
        while (status && fgets(line, sizeof line, status)) sscanf(line, "Uid: %u", &uid);
        if (status) fclose(status);
        if (uid != 65534) return 200;
    }
    return 0;
}

/* Kills the process for any attempt to make a thread, to open a file or to change a policy. */
static int sandbox(void) {
    rouse();
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    int forbidden[] = {SYS_clone, SYS_clone3, SYS_openat, SYS_sched_setscheduler, SYS_close_range, SYS_mincore};
    struct sock_filter filter[20];
    int at = 0, count = sizeof forbidden / sizeof *forbidden;
    filter[at++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
    for (int each = 0; each < count; each++) {
        filter[at] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, forbidden[each], count - each, 0);
        at++;
    }
    filter[at++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    filter[at++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS);
    struct sock_fprog program = {at, filter};
    if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0) != 0) return errno;
    for (int round = 0; round < 5; round++) burst();
    return 0;
}

static volatile sig_atomic_t signals, elsewhere;

static void handler(int number) {
    (void)number;
    signals++;
    elsewhere += syscall(SYS_gettid) != getpid();
}

static int signalled(void) {
    rouse();
    signal(SIGUSR1, handler);
    for (int round = 0; round < 200; round++) {
        kill(getpid(), SIGUSR1);
        if (round % 50 == 0) burst();
    }
    return signals == 200 && !elsewhere ? 0 : 1;
}

/* The next descriptor is the lowest that is free: programs count on it. A pipe ends when its last writer is closed. */
static int descriptors(void) {
    int ends[2];
    if (pipe(ends) != 0) return errno;
    rouse();
    for (int round = 0; round < 300; round++) {
        close(0);
        if (open("/dev/null", O_RDONLY) != 0) return 1;
        if (round % 60 == 0) burst();
    }
    char byte;
    close(ends[1]);
    return read(ends[0], &byte, 1) == 0 ? 0 : 2;
}

static int many_forks(void) {
    for (int round = 0; round < 25; round++) {
        burst();
        pid_t child = fork();
        if (child == 0) {
            int alone = threads() == 1;
            burst();
            _exit(!alone);
        }
        /* The background thread ended for the fork, and starts again when fork returns. */
        if (threads() > 1 + with_thread) return 100;
        int status;
        waitpid(child, &status, 0);
        if (status) return 101;
    }
    return 0;
}

static int again(void) {
    burst();
    execl("/proc/self/exe", "alone", "end", (char *)0);
    return errno;
}

int main(int count, char **words) {
    if (count > 1 && !strcmp(words[1], "end")) { burst(); return 0; }
    with_thread = count > 1 && !strcmp(words[1], "thread");
    rouse();
    in_child("forked", forked);
    in_child("user namespace", user_namespace);
    in_child("mount namespace", mount_namespace);
    in_child("other user", other_user);
    in_child("sandbox", sandbox);
    in_child("signals", signalled);
    in_child("descriptors", descriptors);
    in_child("many forks", many_forks);
    in_child("exec", again);
    return 0;
}
