/* A program that forbids itself all calls, or all but those that glibc's malloc makes, and then uses memory.
 * sandboxed WHEN HOW: WHEN early | late: after the first large block. HOW filter: with PR_SET_NO_NEW_PRIVS; privileged:
 * without; fork: the filter lets it fork; strict: seccomp's strict mode; clock: the clock is forbidden. */
#define _GNU_SOURCE
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define ALLOW(call) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_##call, 0, 1), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)

static int filter(void) {
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        ALLOW(brk), ALLOW(mmap), ALLOW(munmap), ALLOW(mremap), ALLOW(mprotect), ALLOW(write), ALLOW(getrandom),
        ALLOW(exit_group),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
    };
    struct sock_fprog program = {sizeof filter / sizeof *filter, filter};
    return syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program);
}

/* What fork(3) and waitpid(2) need as well. */
static int filter_with_fork(void) {
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        ALLOW(brk), ALLOW(mmap), ALLOW(munmap), ALLOW(mremap), ALLOW(mprotect), ALLOW(write), ALLOW(getrandom),
        ALLOW(exit_group), ALLOW(clone), ALLOW(wait4), ALLOW(set_robust_list), ALLOW(rseq), ALLOW(gettid),
        ALLOW(rt_sigprocmask),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
    };
    struct sock_fprog program = {sizeof filter / sizeof *filter, filter};
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
}

static int confines(const char *how) {
    if (!strcmp(how, "filter")) return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || filter();
    if (!strcmp(how, "privileged")) return filter();
    if (!strcmp(how, "fork")) return filter_with_fork();
    if (!strcmp(how, "strict")) return prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT);
    if (!strcmp(how, "clock")) return prctl(PR_SET_TSC, PR_TSC_SIGSEGV);
    return 1;
}

/* Blocks that glibc's heap still holds too. */
static void few_blocks(void) {
    for (int round = 0; round < 100; round++) {
        char *block = calloc(1, 6 << 20);
        for (int at = 0; at < 6 << 20; at += 512) if (block[at]) write(1, "not zero\n", 9);
        free(memset(block, 1, 6 << 20));
        block = memset(malloc(5 << 20), 1, 5 << 20);
        free(realloc(block, 6 << 20));
    }
}

static void many_blocks(void) {
    for (int round = 0; round < 4; round++) {
        char *blocks[20];
        for (int at = 0; at < 20; at++) {
            size_t len = 1 << 20;
            blocks[at] = calloc(1, len);
            while (len < 20 << 20) {
                len += len / 2;
                blocks[at] = realloc(blocks[at], len);
                blocks[at][len - 1] = 1;
            }
        }
        for (int at = 0; at < 20; at++) free(blocks[at]);
        for (int at = 0; at < 20; at++) blocks[at] = calloc(1, 100 << at % 10);
        for (int at = 0; at < 20; at++) free(blocks[at]);
    }
}

int main(int count, char **words) {
    const char *how = words[2];
    int is_strict = !strcmp(how, "strict");
    if (!strcmp(words[1], "late") || is_strict) {
        free(memset(malloc(8 << 20), 1, 8 << 20));
        free(memset(malloc(6 << 20), 1, 6 << 20));
    }
    if (confines(how)) _exit(3);
    if (is_strict) {
        few_blocks();
    } else {
        many_blocks();
    }
    if (!strcmp(how, "fork")) {
        pid_t child = fork();
        if (child == 0) {
            many_blocks();
            _exit(0);
        }
        int status;
        if (waitpid(child, &status, 0) != child || status) _exit(5);
        many_blocks();
    }
    if (write(1, "ok\n", 3) != 3) _exit(4);
    if (is_strict) syscall(SYS_exit, 0);
    exit(0);
}
