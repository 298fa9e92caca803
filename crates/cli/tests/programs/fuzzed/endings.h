/* How programs end: every way that shows in the status, from the main thread and from others. */

static void at_exit_first(void) {
    struct worker *w = &workers[0];
    unsigned char *p = calloc(1, 300 * KIB);
    say(w, "at exit: %s", p && !p[0] && !p[300 * KIB - 1] ? "zero" : "WRONG");
    free(p);
}

static void at_exit_last(void) {
    struct worker *w = &workers[0];
    int is_right = 1;
    for (int at = 0; at < SLOTS; at++) is_right &= check(w, &w->slots[at], 0);
    say(w, "at exit: blocks %s", is_right ? "right" : "wrong");
}

static void at_quick_exit_only(void) { say(&workers[0], "at quick exit"); }

static int status_of(void) { return world.is_quiet ? 100 + world.hash % 100 : 10 + world.seed % 50; }

/* A program that was executed in a handler begins with that handler's signals blocked. */
static void end_by_signal(int number) {
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    signal(number, SIG_DFL);
    for (;;) kill(getpid(), number), pause();
}

/* The process ends by the kernel's call, with a status. */
static void end_directly(struct worker *w, int status) {
    if (chance(w, 50)) syscall(SYS_exit_group, status);
    instruction(SYS_exit_group, status, 0, 0, 0, 0, 0);
}

/* The program itself once more. */
static void become_another(struct worker *w, const char *word) {
    char seed[24], *words[] = {"fuzzed", seed, "12", "0", (char *)word, NULL};
    snprintf(seed, sizeof seed, "%zu", pick(w, 1 << 30));
    execv("/proc/self/exe", words);
    _exit(95);
}

static void exit_in_handler(void) { exit(status_of()); }
static void exit_in_destructor(void *block) { free(block), exit(status_of()); }
static void exit_by_signal(int number) { exit(status_of() + number % 2); }

static void *end_from_thread(void *way) {
    struct worker *w = &workers[0];
    void *volatile block = malloc(2 * MIB);
    free(block);
    switch ((intptr_t)way) {
    case 0: exit(status_of());
    case 1: quick_exit(status_of());
    case 2: abort();
    case 3: end_directly(w, status_of()); break;
    case 4: become_another(w, NULL); break;
    case 5: signal(SIGSEGV, SIG_DFL), *(volatile char *)16 = 1; break;
    case 6: _exit(status_of());
    default: {
        pthread_key_t key;
        pthread_key_create(&key, exit_in_destructor);
        pthread_setspecific(key, malloc(700 * KIB));
    }
    }
    return NULL;
}

/* The thread does one thing with the first one's numbers, and the first one waits for the end. */
static void end_in_thread(struct worker *w, int count) {
    pthread_t thread;
    int way = pick(w, count);
    say(w, "end in thread %d", way);
    world.threads_live = 1;
    if (start_thread(&thread, NULL, end_from_thread, (void *)(intptr_t)way)) _exit(94);
    for (;;) pause();
}

static void *allocate_forever(void *argument) {
    uint64_t state = mixed((uintptr_t)argument + 1);
    unsigned char *blocks[8] = {0};
    for (;; state = mixed(state + 1)) {
        unsigned char **p = &blocks[state % 8];
        free(*p);
        *p = state / 8 % 2 ? malloc(1 + state / 16 % (3 * MIB)) : calloc(1, 1 + state / 16 % MIB);
        if (*p) **p = 1;
    }
    return NULL;
}

/* Other threads allocate on until the process is gone. */
static void start_busy_threads(void) {
    pthread_t thread;
    for (intptr_t count = 0; count < 3; count++)
        if (start_thread(&thread, NULL, allocate_forever, (void *)count)) _exit(94);
    world.threads_live = 3;
    struct timespec time = {0, 1000000};
    nanosleep(&time, NULL);
}

/* A forked child's end. Behind pthread_exit is nobody, also where the fork was a thread's: the process ends with its last thread. */
static void end_child(struct worker *w) {
    size_t way = pick(w, 13);
    if (is_without("pthread_exit") && way == 7) way = 0;
    say(w, "child's end %zu", way);
    switch (way) {
    case 0: case 1: case 2: _exit(20 + pick(w, 10));
    case 3: case 4:
        if (w->id == 0) exit(30 + pick(w, 10));
        _exit(50);
    case 5: end_by_signal(SIGTERM);
    case 6: end_by_signal(SIGKILL);
    case 7:
        if (w->id == 0) pthread_exit(NULL);
        _exit(51);
    case 8: end_directly(w, 52);
    case 9: abort();
    case 10: become_another(w, "silent");
    case 11:
        if (w->id == 0 && !world.is_alone) end_in_thread(w, 7);
        _exit(53);
    default:
        if (w->id == 0) quick_exit(54);
        _exit(54);
    }
}

/* The kernel takes the status of a process from its last thread: the first one must be gone. */
static void await_main(void) {
    char text[64] = "";
    const char *state = NULL;
    while (!state || state[2] != 'Z') {
        int file = open("/proc/self/stat", O_RDONLY | O_CLOEXEC);
        if (read(file, text, sizeof text - 1) < 0) _exit(99);
        close(file);
        state = strrchr(text, ')');
    }
}

static void *outlive_main(void *way) {
    struct worker *w = &workers[1];
    struct timespec time = {0, 2000000};
    begin_thread();
    nanosleep(&time, NULL);
    run_operations(w, 6);
    fork_child(w);
    say(w, "outlived");
    flush_log(w);
    switch ((intptr_t)way) {
    case 7: return NULL;
    case 8: pthread_exit(w);
    case 9: exit(status_of());
    case 10: end_by_signal(SIGTERM);
    case 16:
        await_main();
        /* So much freed memory gives an allocator work to do beside the program's threads. */
        free(memset(malloc(48 * MIB), 1, 48 * MIB));
        syscall(SYS_exit, status_of());
        break;
    case 17: become_another(w, NULL); break;
    default: _exit(status_of());
    }
    return NULL;
}

static void end_without_main(struct worker *w, int way) {
    pthread_t thread;
    prepare(&workers[1], 1, mixed(world.seed), 100 * MIB);
    world.threads_live = 1;
    world.live_max = 96 * MIB;
    int error = start_thread(&thread, NULL, outlive_main, (void *)(intptr_t)way);
    say(w, "main thread ends, %d", error);
    if (chance(w, 50)) pthread_detach(thread);
    pthread_exit(NULL);
}

/* Chosen by the seed alone, so that a shorter sequence ends in the same way. */
static void end_program(struct worker *w) {
    int way = mixed(world.seed * 31 + 7) % (world.is_quiet ? 4 : 26);
    if (is_without("pthread_exit") && (way == 4 || way >= 7)) way = 1;
    stop_alarm();
    if ((world.is_alone || world.profile == GROUP) && way >= 7) way %= 7;
    if (world.is_locked) lock_all(w);
    say(w, "end %d, elsewhere %d", way, elsewhere);
    w->state = mixed(world.seed + 5);
    switch (way) {
    case 0: return;
    case 1: exit(status_of());
    case 2: _exit(status_of());
    case 3: quick_exit(status_of());
    case 4: pthread_exit(NULL);
    case 5: end_by_signal(SIGTERM);
    case 6: abort();
    case 7: case 8: case 9: case 10: case 11: end_without_main(w, way);
    case 12: end_by_signal(SIGKILL);
    case 13: {
        struct itimerval soon = {{0, 0}, {0, 2000}};
        signal(SIGALRM, SIG_DFL);
        setitimer(ITIMER_REAL, &soon, NULL);
        for (;;) pause();
    }
    case 14: become_another(w, NULL);
    case 16: case 17: end_without_main(w, way);
    case 18: case 19: end_in_thread(w, 8);
    case 20: end_directly(w, status_of());
    case 21: atexit(exit_in_handler), exit(1);
    case 22: handle_by(SIGUSR1, exit_by_signal), raise(SIGUSR1);
    case 23:
        pthread_key_create(&last_block, exit_in_destructor);
        pthread_setspecific(last_block, malloc(3 * MIB));
        pthread_exit(NULL);
    case 24: case 25:
        start_busy_threads();
        switch (pick(w, 6)) {
        case 0: exit(status_of());
        case 1: quick_exit(status_of());
        case 2: become_another(w, NULL);
        case 3: end_by_signal(SIGTERM);
        case 4: end_directly(w, status_of());
        default: return;
        }
    default:
        for (int at = 0; at < SLOTS; at++) {
            struct slot *s = &w->slots[at];
            if (s->p) leave_or_end(w, s), release(w, s);
        }
        collect(w);
        pthread_exit(NULL);
    }
}
