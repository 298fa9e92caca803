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

static void end_by_signal(int number) {
    signal(number, SIG_DFL);
    for (;;) kill(getpid(), number), pause();
}

/* A forked child's end. Behind pthread_exit is nobody, also where the fork was a thread's: the process ends with its last thread. */
static void end_child(struct worker *w) {
    size_t way = pick(w, is_without("pthread_exit") ? 7 : 8);
    say(w, "child's end %zu", way);
    switch (way) {
    case 0: case 1: case 2: _exit(20 + pick(w, 10));
    case 3: case 4:
        if (w->id == 0) exit(30 + pick(w, 10));
        _exit(50);
    case 5: end_by_signal(SIGTERM);
    case 6: end_by_signal(SIGKILL);
    default:
        if (w->id == 0) pthread_exit(NULL);
        _exit(51);
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
    default: _exit(status_of());
    }
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
    int way = mixed(world.seed * 31 + 7) % (world.is_quiet ? 4 : 16);
    if (is_without("pthread_exit") && (way == 4 || way >= 7)) way = 1;
    stop_alarm();
    if (world.is_alone && way >= 7) way %= 7;
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
    case 14: {
        char seed[24], *words[] = {"fuzzed", seed, "12", "0", NULL};
        snprintf(seed, sizeof seed, "%zu", pick(w, 1 << 30));
        execv("/proc/self/exe", words);
        _exit(95);
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
