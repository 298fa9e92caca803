/* A program that lets itself make no calls but those that glibc's malloc makes, and a few more; and then uses memory. */
#define _GNU_SOURCE
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#define ALLOW(call) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_##call, 0, 1), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)

static void confine(void) {
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        ALLOW(brk), ALLOW(mmap), ALLOW(munmap), ALLOW(mremap), ALLOW(mprotect), ALLOW(madvise), ALLOW(futex),
        ALLOW(write), ALLOW(getrandom), ALLOW(getpid), ALLOW(clock_gettime), ALLOW(exit_group),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
    };
    struct sock_fprog program = {sizeof filter / sizeof *filter, filter};
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program) != 0) _exit(3);
}

int main(int count, char **words) {
    if (count > 1 && strcmp(words[1], "late") == 0) free(memset(malloc(1 << 20), 1, 1 << 20));
    confine();
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
    if (write(1, "ok\n", 3) != 3) _exit(4);
    _exit(0);
}
