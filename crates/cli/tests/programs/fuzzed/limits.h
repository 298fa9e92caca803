/* Operations on the process as a whole; only while it has one thread. */
#include <pthread.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/time.h>

static int set_limit(int resource, size_t bytes) {
    struct rlimit limit;
    getrlimit(resource, &limit);
    limit.rlim_cur = bytes && bytes < limit.rlim_max ? bytes : limit.rlim_max;
    return outcome(setrlimit(resource, &limit));
}

/* A limit on addresses or on writable memory, far above the present use; or no limit any more. */
static void limit_memory(struct worker *w) {
    int is_space = chance(w, 50);
    size_t bytes = chance(w, 30) ? 0 : 2 * live(w) + (192 + pick(w, 1024)) * MIB;
    int error = set_limit(is_space ? RLIMIT_AS : RLIMIT_DATA, bytes);
    *(is_space ? &world.space_limit : &world.data_limit) = bytes;
    say(w, "limit of %s %zu: %d", is_space ? "addresses" : "data", bytes, error);
}

/* Requests that the limit in force must refuse, and one that it must not. The blocks stay as they are. */
static void meet_limit(struct worker *w, struct slot *s) {
    size_t limit = world.space_limit && (!world.data_limit || world.space_limit < world.data_limit) ? world.space_limit : world.data_limit;
    if (!limit || is_without("limit")) return;
    size_t len = limit + 1 + pick(w, limit);
    int way = pick(w, s->is_mapping ? 3 : 4);
    void *p = NULL;
    errno = KEPT;
    if (way == 0) p = malloc(len);
    if (way == 1) p = calloc(len / 8, 8);
    if (way == 2) p = memalign(world.page, len);
    if (way == 3) p = realloc(s->p, len);
    int error = errno;
    say(w, "beyond the limit %d: %s, %s", way, p ? "block" : "null", errno_word(error));
    if (p) _exit(92);
    check(w, s, 0);
    /* After a refusal the C library tries to reserve a heap of 64 MiB, and asks for 128 MiB for that. */
    size_t others = live(w) + 192 * MIB;
    len = limit / 16 * 15 > others ? limit / 16 * 15 - others : 0;
    if (len == 0 || len > world.machine_bytes / 8 || world.is_locked) return;
    errno = KEPT;
    unsigned char *q = chance(w, 50) ? malloc(len) : calloc(1, len);
    say(w, "within the limit: %s, %s", q ? "block" : "null", errno_word(errno));
    if (q) q[0] = q[len / 2] = q[len - 1] = 1;
    free(q);
}

static volatile sig_atomic_t signals, elsewhere;
static __thread int is_ours;

static void on_signal(int number) {
    signals += number == SIGUSR1;
    elsewhere += !is_ours;
}

static void handle_by(int number, void (*handler)(int)) {
    struct sigaction action = {.sa_handler = handler, .sa_flags = SA_RESTART};
    sigaction(number, &action, NULL);
}

static void handle(int number) { handle_by(number, on_signal); }

/* The thread is one of the program's: from now on it may get signals. It began with all of them blocked. */
static void begin_thread(void) {
    sigset_t none;
    sigemptyset(&none);
    is_ours = 1;
    pthread_sigmask(SIG_SETMASK, &none, NULL);
}

static int start_thread(pthread_t *thread, pthread_attr_t *attributes, void *(*run)(void *), void *argument) {
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &before);
    int error = pthread_create(thread, attributes, run, argument);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return error;
}

static void *do_nothing(void *argument) { return argument; }

/* As many processes and threads as the user has now: no other thread can be made. One more: one can. */
static void limit_processes(struct worker *w) {
    pthread_t thread;
    struct timespec time = {0, 2000000};
    if (!world.is_user || world.depth || is_without("processes")) return;
    nanosleep(&time, NULL); /* a thread that was joined counts until the kernel has cleared it away */
    for (int more = 0; more < 2; more++) {
        int limited = set_limit(RLIMIT_NPROC, 1 + more);
        int error = start_thread(&thread, NULL, do_nothing, NULL);
        if (error == 0) pthread_join(thread, NULL);
        say(w, "threads %d, limited %d: %d", 1 + more, limited, error);
    }
    set_limit(RLIMIT_NPROC, 0);
}

static void lock_all(struct worker *w) {
    if (is_without("lock")) return;
    if (world.is_locked) {
        world.is_locked = 0;
        say(w, "munlockall %d", outcome(munlockall()));
        world.locked = 0;
        for (int at = 0; at < SLOTS; at++)
            if (w->slots[at].special == LOCKED) w->slots[at].special = NOTHING;
        return;
    }
    /* All blocks become resident, and for a user all mappings count, with what the help of `run` says of large blocks: only where
     * both are far from a limit. */
    size_t large = 0;
    for (int at = 0; at < SLOTS; at++) large += w->slots[at].p && w->slots[at].len >= 128 * KIB ? 2 * MIB : 0;
    if (live(w) + (world.is_user ? large : 0) > (world.is_user ? world.lock_limit / 8 * 5 : 48 * MIB)) return;
    if (world.is_user && (!world.is_alone || world.lock_limit < 8 * MIB)) return;
    int flags = world.is_user ? MCL_CURRENT : (int[]){MCL_CURRENT, MCL_CURRENT | MCL_FUTURE, MCL_FUTURE}[pick(w, 3)];
    int error = outcome(mlockall(flags));
    say(w, "mlockall %d: %d", flags, error);
    world.is_locked = error == 0;
    if (world.is_user && error == 0) say(w, "munlockall %d", outcome(munlockall())), world.is_locked = 0;
}

static void lock_limit(struct worker *w) {
    if (!world.is_user || world.locked) return;
    size_t bytes = MIB << pick(w, 4);
    int error = set_limit(RLIMIT_MEMLOCK, bytes);
    if (error == 0) world.lock_limit = bytes;
    say(w, "limit of locked memory %zu: %d", bytes, error);
}

/* What an open file or a changed mask of the allocator's would show. A child of a process with threads may have descriptors
 * that one of them was just using: the C library asks for the number of processors. */
static void look(struct worker *w) {
    sigset_t mask;
    char name[17] = "";
    int file = open("/dev/null", O_RDONLY | O_CLOEXEC), shown = world.is_of_threads ? 0 : file;
    uint64_t bits = 0;
    sigprocmask(SIG_BLOCK, NULL, &mask);
    for (int number = 1; number < 64; number++) bits |= (uint64_t)(sigismember(&mask, number) == 1) << number;
    prctl(PR_GET_NAME, name, 0, 0, 0);
    int dumpable = prctl(PR_GET_DUMPABLE, 0, 0, 0, 0);
    say(w, "descriptor %d, mask %lx, dumpable %d, name %s, umask %o", shown, bits, dumpable, name, umask(022));
    close(file);
}

static void set_process(struct worker *w) {
    switch (pick(w, 5)) {
    case 0: say(w, "no huge pages: %d", outcome(prctl(PR_SET_THP_DISABLE, pick(w, 2), 0, 0, 0))); break;
    case 1: say(w, "name: %d", outcome(prctl(PR_SET_NAME, "other", 0, 0, 0))); break;
    case 2: say(w, "stack: %d", set_limit(RLIMIT_STACK, MIB << pick(w, 5))); break;
    case 3: say(w, "no new privileges: %d", outcome(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))); break;
    default: say(w, "stack without a limit: %d", set_limit(RLIMIT_STACK, 0));
    }
}

/* A signal to the process waits while its only thread blocks it, and comes when it doesn't. */
static void signal_self(struct worker *w) {
    sigset_t set, pending;
    handle(SIGUSR1);
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    sigprocmask(SIG_BLOCK, &set, NULL);
    int before = signals;
    kill(getpid(), SIGUSR1);
    void *volatile block = malloc(3 * MIB);
    free(block);
    struct timespec time = {0, 200000};
    nanosleep(&time, NULL);
    int early = signals - before;
    sigpending(&pending);
    int waits = sigismember(&pending, SIGUSR1);
    sigprocmask(SIG_UNBLOCK, &set, NULL);
    say(w, "signal: early %d, waits %d, after %d", early, waits, signals - before);
}

/* Interrupts everything that follows a thousand times a second, or no longer. How often it did is chance. */
static void alarm_clock(struct worker *w) {
    handle(SIGALRM);
    long every = chance(w, 60) ? 1000 : 0;
    struct itimerval timer = {{0, every}, {0, every}};
    say(w, "alarm: %d, elsewhere %d", outcome(setitimer(ITIMER_REAL, &timer, NULL)), elsewhere);
}

static void stop_alarm(void) {
    struct itimerval timer = {{0, 0}, {0, 0}};
    setitimer(ITIMER_REAL, &timer, NULL);
}

static void idle(struct worker *w) {
    struct timespec time = {0, (chance(w, 10) ? 30 : pick(w, 3)) * 1000000};
    nanosleep(&time, NULL);
}
