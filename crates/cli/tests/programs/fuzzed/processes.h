/* fork, vfork, exec and spawn. A child goes on with a sequence of its own, and its parent tells how it ended. */
#if __has_include(<linux/filter.h>)
#include <linux/filter.h>
#include <linux/seccomp.h>
#endif
#include <spawn.h>
#include <stddef.h>
#include <sys/wait.h>

static void run_operations(struct worker *w, int count);
static void end_child(struct worker *w);

static void wait_for(struct worker *w, const char *what, pid_t child) {
    int status = 0;
    while (child > 0 && waitpid(child, &status, 0) < 0 && errno == EINTR) {}
    if (child < 0) say(w, "%s failed: %d", what, errno);
    else if (WIFSIGNALED(status)) say(w, "%s ended by signal %d", what, WTERMSIG(status));
    else say(w, "%s exited with %d", what, WEXITSTATUS(status));
    for (int at = 0; at < SLOTS; at++) check(w, &w->slots[at], 0);
}

static void be_child(struct worker *w, uint64_t seed, int count) {
    world.depth++;
    world.is_of_threads |= world.threads_live;
    world.threads_live = 0;
    w->state = seed;
    w->budget /= 4;
    inherit(w);
    run_operations(w, count);
    end_child(w);
}

static void fork_child(struct worker *w) {
    uint64_t seed = random64(w);
    int count = 3 + pick(w, 25);
    if (world.depth >= 2) return;
    w->budget -= w->budget / 4;
    pid_t child = fork();
    if (child == 0) be_child(w, seed, count);
    wait_for(w, "child", child);
}

#ifdef SECCOMP_MODE_FILTER
#define ALLOW(call) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_##call, 0, 1), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)

/* A child that allows itself only the system calls of the C library's malloc, and its own. */
static void fork_confined(struct worker *w) {
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        ALLOW(brk), ALLOW(mmap), ALLOW(munmap), ALLOW(mremap), ALLOW(mprotect), ALLOW(madvise), ALLOW(futex),
        ALLOW(write), ALLOW(getrandom), ALLOW(getpid), ALLOW(clock_gettime), ALLOW(exit_group),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
    };
    struct sock_fprog program = {sizeof filter / sizeof *filter, filter};
    uint64_t seed = random64(w);
    int is_direct = chance(w, 30);
    if (is_without("confine")) return;
    if (world.threads_live) return; /* more than one arena: the C library asks how many processors there are */
    pid_t child = fork();
    if (child == 0) {
        world.depth++;
        w->state = seed;
        w->budget /= 4;
        inherit(w);
        prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
        int error = is_direct ? outcome(syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program))
                              : outcome(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0));
        say(w, "confined: %d", error);
        for (int left = 12; left > 0; left--) {
            struct slot *s = &w->slots[pick(w, SLOTS)];
            if (s->special != NOTHING) continue;
            w->step++;
            if (!s->p) allocate(w, s);
            else if (chance(w, 40)) resize(w, s);
            else release(w, s);
        }
        _exit(40);
    }
    wait_for(w, "confined child", child);
}

#else /* musl's wrapper of gcc has no kernel headers */
static void fork_confined(struct worker *w) { fork_child(w); }
#endif

/* Only a process of one thread may. By the C library's function, or by the bare system call right after fork. */
static void fork_unshared(struct worker *w) {
    int is_direct = chance(w, 30);
    pid_t child = fork();
    if (child == 0) {
        world.depth++;
        world.is_of_threads |= world.threads_live;
        world.threads_live = 0;
        inherit(w);
        if (!is_direct) run_operations(w, 4);
        int error = outcome(is_direct ? syscall(SYS_unshare, CLONE_NEWUSER) : unshare(CLONE_NEWUSER));
        say(w, "user namespace: %d", error);
        void *volatile block = malloc(5 * MIB);
        free(block);
        _exit(41);
    }
    wait_for(w, "unshared child", child);
}

/* The program itself, with a seed of its own. It is silent; its status tells the result. */
static void words_of_child(struct worker *w, char text[3][24], char *words[6]) {
    snprintf(text[0], 24, "%zu", pick(w, 1 << 30));
    snprintf(text[1], 24, "%zu", 5 + pick(w, 20));
    snprintf(text[2], 24, "%d", (int)pick(w, 2) ? 0 : 1);
    char *all[6] = {"fuzzed", text[0], text[1], text[2], "silent", NULL};
    memcpy(words, all, sizeof all);
}

static void spawn_child(struct worker *w) {
    char text[3][24], *words[6];
    extern char **environ;
    int way = pick(w, 4);
    words_of_child(w, text, words);
    if (world.depth || world.is_alone) return;
    pid_t child = -1;
    if (way == 0) {
        child = vfork();
        if (child == 0) {
            execv("/proc/self/exe", words);
            _exit(93);
        }
    } else if (way == 1) {
        child = vfork();
        if (child == 0) _exit(42);
    } else if (way == 2) {
        errno = posix_spawn(&child, "/proc/self/exe", NULL, NULL, words, environ);
    } else {
        int status = system("exit 43");
        say(w, "system: %x", status);
        return;
    }
    wait_for(w, "spawned child", child);
}
