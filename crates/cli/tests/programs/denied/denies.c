/* Runs a command in a sandbox. `denies ERRNO CMD`: perf_event_open(2) answers this errno. `denies docker CMD`: as in
 * a container of Docker's without more rights, what its default seccomp profile forbids answers EPERM. */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Of the profile's rules those that name calls a profiler may make: they need a capability, or are on no list. */
static const int DOCKER[] = {
    SYS_perf_event_open, SYS_bpf, SYS_process_vm_readv, SYS_process_vm_writev, SYS_kcmp, SYS_userfaultfd, SYS_pidfd_getfd,
    SYS_unshare, SYS_setns, SYS_mount, SYS_umount2, SYS_fsopen, SYS_fsmount, SYS_open_tree, SYS_move_mount,
    SYS_io_uring_setup, SYS_mbind, SYS_set_mempolicy, SYS_get_mempolicy, SYS_move_pages, SYS_migrate_pages, SYS_syslog,
    SYS_open_by_handle_at, SYS_fanotify_init, SYS_quotactl, SYS_keyctl, SYS_add_key, SYS_swapon, SYS_swapoff, SYS_acct,
};

static struct sock_filter filter[128];
static unsigned short length;

static void add(struct sock_filter one) { filter[length++] = one; }

static void load(size_t offset) { add((struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offset)); }

static void answer(unsigned errno_) { add((struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | errno_)); }

/* The next statements hold only if the loaded word is `value`; `steps` of them. */
static void only_if(unsigned value, unsigned char steps) {
    add((struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, 0, steps));
}

static void deny(int call, unsigned errno_) {
    only_if((unsigned)call, 1);
    answer(errno_);
}

/* The argument of personality(2) is looked at: addresses stay random. */
static void deny_fixed_addresses(void) {
    only_if(SYS_personality, 5);
    load(offsetof(struct seccomp_data, args[0]));
    only_if(0xffffffff, 1);
    add((struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW));
    add((struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, ADDR_NO_RANDOMIZE, 0, 1));
    answer(EPERM);
}

/* clone(2) makes no namespace of users; what clone3(2) makes can't be seen, so it is as if the kernel lacked it. */
static void deny_namespaces(void) {
    deny(SYS_clone3, ENOSYS);
    only_if(SYS_clone, 3);
    load(offsetof(struct seccomp_data, args[0]));
    add((struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, CLONE_NEWUSER, 0, 1));
    answer(EPERM);
}

int main(int count, char **words) {
    if (count < 3) return 125;
    load(offsetof(struct seccomp_data, nr));
    if (strcmp(words[1], "docker") == 0) {
        for (size_t at = 0; at < sizeof DOCKER / sizeof *DOCKER; at++) deny(DOCKER[at], EPERM);
        deny_namespaces();
        load(offsetof(struct seccomp_data, nr));
        deny_fixed_addresses();
    } else {
        deny(SYS_perf_event_open, (unsigned)atoi(words[1]));
    }
    add((struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW));
    struct sock_fprog program = {length, filter};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return 126;
    if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0) != 0) return 126;
    execvp(words[2], words + 2);
    return 127;
}
