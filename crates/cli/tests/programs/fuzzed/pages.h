/* What programs do to whole pages inside their blocks. Some of it lasts until the block is freed: under the C library alone
 * it goes with the block's mapping, so the next block must not have it. */

#ifndef MADV_COLD
#define MADV_COLD 20
#define MADV_PAGEOUT 21
#endif
#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22
#define MADV_POPULATE_WRITE 23
#endif
#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25
#endif
#ifndef MADV_GUARD_INSTALL
#define MADV_GUARD_INSTALL 102
#define MADV_GUARD_REMOVE 103
#endif
#ifndef MAP_FIXED_NOREPLACE
#define MAP_FIXED_NOREPLACE 0x100000
#endif

static const char *const special_names[] = {"nothing", "no access", "read only", "guarded", "not forked", "wiped", "locked",
                                            "private file", "shared file"};

/* Some whole pages of a block. How many there are at least, wherever it begins: where it does is the allocator's business. */
static int some_pages(struct worker *w, struct slot *s, size_t *from, size_t *to) {
    size_t page = world.page, count = s->len < page ? 0 : (s->len - page + 1) / page;
    if (count == 0) return 0;
    size_t first = chance(w, 30) ? 0 : pick(w, count), some = chance(w, 30) ? count - first : 1 + pick(w, count - first);
    *from = (-(uintptr_t)s->p & (page - 1)) + first * page;
    *to = *from + some * page;
    return 1;
}

/* Whether so much more may be locked: a user may lock a little, and the program counts that only while it has one thread. */
static int may_lock(size_t bytes) {
    if (!world.is_user) return 1;
    return world.is_alone && world.locked + bytes <= world.lock_limit;
}

/* A new mapping over these pages; for a file's the pattern of `key`. Other mappings are moved there, or are new there. */
static int map_over(struct slot *s, size_t from, size_t to, int flags, uint64_t key) {
    int file = -1;
    if (key) {
        struct extent e = {0, to - from, 0, 0, key};
        file = syscall(SYS_memfd_create, "fuzzed", 1 /* MFD_CLOEXEC */);
        if (file < 0 || ftruncate(file, to - from) != 0) return errno;
        unsigned char *all = mmap(NULL, to - from, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
        if (all == MAP_FAILED) return close(file), ENOMEM;
        fill(all, &e);
        munmap(all, to - from);
    }
    int is_moved = key % 4 == 1, error = 0;
    void *p = map(is_moved ? NULL : s->p + from, to - from, is_moved ? flags & ~MAP_FIXED : flags, file);
    if (p == MAP_FAILED) error = errno;
    else if (is_moved && !(error = move(p, to - from, s->p + from))) p = s->p + from;
    if (p != MAP_FAILED && p != s->p + from) munmap(p, to - from), error = EEXIST; /* an old kernel with NOREPLACE */
    if (file >= 0) close(file);
    if (error == 0) know(s, (struct extent){from, to - from, 0, from, key});
    return error;
}

static void be_special(struct slot *s, enum special special, size_t from, size_t to) {
    s->special = special;
    s->is_unseen = route == BY_INSTRUCTION;
    s->from = from;
    s->to = to;
}

static int begin_special(struct slot *s, enum special special, size_t from, size_t to, uint64_t key) {
    void *p = s->p + from;
    size_t len = to - from;
    int error;
    switch (special) {
    case NO_ACCESS: error = protect(p, len, PROT_NONE); break;
    case READ_ONLY: error = protect(p, len, PROT_READ); break;
    case GUARDED: error = advise(s, from, to, MADV_GUARD_INSTALL); break;
    case NOT_FORKED: error = advise(s, from, to, MADV_DONTFORK); break;
    case WIPED: error = advise(s, from, to, MADV_WIPEONFORK); break;
    case LOCKED: error = lock(p, len, key % 4 == 1); break;
    case FILE_PRIVATE: error = map_over(s, from, to, MAP_PRIVATE | MAP_FIXED, key); break;
    default: error = map_over(s, from, to, MAP_SHARED | MAP_FIXED, key);
    }
    if (error) return error;
    if (special == GUARDED) forget(s, from, to);
    if (special == LOCKED) world.locked += len;
    be_special(s, special, from, to);
    return 0;
}

/* The pages are as all others again. */
static void end_special(struct worker *w, struct slot *s) {
    void *p = s->p + s->from;
    size_t len = s->to - s->from;
    enum special special = s->special;
    if (special == NOTHING) return;
    int error = 0;
    switch (special) {
    case NO_ACCESS: case READ_ONLY: error = protect(p, len, PROT_READ | PROT_WRITE); break;
    case GUARDED: error = advise(s, s->from, s->to, MADV_GUARD_REMOVE); break;
    case NOT_FORKED: error = advise(s, s->from, s->to, MADV_DOFORK); break;
    case WIPED: error = advise(s, s->from, s->to, MADV_KEEPONFORK); break;
    case LOCKED: error = unlock(s, s->from, s->to); break;
    default: error = map_over(s, s->from, s->to, MAP_PRIVATE | MAP_FIXED, 0);
    }
    if (special == LOCKED) world.locked -= len;
    if (special == GUARDED) know_zero(s, s->from, s->to);
    s->special = NOTHING;
    say(w, "%zu: no longer %s, %d", s->len, special_names[special], error);
    check(w, s, 0);
}

/* Before a block is freed: what its pages are may stay where they certainly go with it, and no instruction of the
 * program's own made it: the help of `run` says so. */
static void leave_or_end(struct worker *w, struct slot *s) {
    if (s->special == NOTHING) return;
    if (!s->is_sole || s->is_unseen || chance(w, 35) || is_without("leave")) {
        end_special(w, s);
        return;
    }
    if (s->special == LOCKED) world.locked -= s->to - s->from;
    say(w, "%zu: freed while %s", s->len, special_names[s->special]);
}

/* How the kernel answers an access to special pages. */
static void probe_special(struct worker *w, struct slot *s) {
    unsigned char *p = s->p + s->from + pick(w, (s->to - s->from) / world.page) * world.page + pick(w, 4000);
    int is_write = s->special == READ_ONLY;
    if (is_unreadable(s) || is_write) say(w, "%s page: signal code %d", special_names[s->special], probe(p, is_write));
    check(w, s, 0);
}

/* Advices that change no content and need no undoing, unless the allocator can't see them. Whether MADV_COLLAPSE finds a huge page is chance. */
static void harmless(struct worker *w, struct slot *s, size_t from, size_t to) {
    static const int advices[] = {MADV_NORMAL, MADV_RANDOM, MADV_SEQUENTIAL, MADV_WILLNEED, MADV_HUGEPAGE, MADV_NOHUGEPAGE,
        MADV_MERGEABLE, MADV_UNMERGEABLE, MADV_DONTDUMP, MADV_DODUMP, MADV_COLD, MADV_PAGEOUT, MADV_POPULATE_READ,
        MADV_POPULATE_WRITE, MADV_COLLAPSE, MADV_DOFORK, MADV_KEEPONFORK, MADV_REMOVE, 12345};
    int advice = advices[pick(w, sizeof advices / sizeof *advices)];
    if (advice == MADV_POPULATE_WRITE && !spend(w, to - from)) return;
    int error = advise(s, from, to, advice);
    say(w, "%zu: advice %d, %d", s->len, advice, advice == MADV_COLLAPSE ? 0 : error);
    if (route == BY_INSTRUCTION) advise(s, from, to, MADV_NORMAL), advise(s, from, to, MADV_DODUMP), advise(s, from, to, MADV_UNMERGEABLE);
    check(w, s, 0);
}

/* Pages that are unmapped and mapped again at once: in between another thread's mapping could come there. */
static void hole(struct worker *w, struct slot *s, size_t from, size_t to) {
    if (world.threads_live) return;
    int error = unmap(s->p + from, to - from);
    forget(s, from, to);
    if (s->is_sole && route != BY_INSTRUCTION && chance(w, 40) && !is_without("leave")) {
        say(w, "%zu: freed with a hole, %d", s->len, error);
        release(w, s);
        return;
    }
    int again = map_over(s, from, to, MAP_PRIVATE | MAP_FIXED_NOREPLACE, 0);
    say(w, "%zu: hole %d, filled %d", s->len, error, again);
    check(w, s, 0);
}

static void touch_pages(struct worker *w, struct slot *s) {
    size_t from, to;
    if (s->special != NOTHING) {
        if (chance(w, 50)) end_special(w, s);
        else probe_special(w, s);
        return;
    }
    int action = pick(w, 15);
    uint64_t key = random64(w) | 1;
    if (!some_pages(w, s, &from, &to)) return;
    unlock(s, from, to); /* from mlockall, or in heap memory from an earlier block: the advices refuse locked pages */
    if (action == 0) {
        int error = advise(s, from, to, MADV_DONTNEED);
        know_zero(s, from, to);
        say(w, "%zu: not needed, %d, %s", s->len, error, check(w, s, 0) ? "zero" : "WRONG");
    } else if (action == 1) {
        int error = advise(s, from, to, MADV_FREE);
        forget(s, from, to);
        say(w, "%zu: free pages, %d", s->len, error);
    } else if (action == 2) {
        if (!may_lock(to - from)) return;
        int locked = lock(s->p + from, to - from, 0), refused = advise(s, from, to, MADV_DONTNEED);
        say(w, "%zu: locked %d, not needed %d, unlocked %d", s->len, locked, refused, unlock(s, from, to));
    } else if (action == 3) {
        hole(w, s, from, to);
    } else if (action <= 6) {
        harmless(w, s, from, to);
    } else {
        enum special special = NO_ACCESS + action - 7;
        int is_file = special == FILE_PRIVATE || special == FILE_SHARED, is_touched = is_file || special == LOCKED;
        if (is_touched && (to - from > 16 * MIB || !spend(w, to - from))) return;
        if (special == LOCKED && !may_lock(to - from)) return;
        say(w, "%zu: %s, %d", s->len, special_names[special], begin_special(s, special, from, to, is_file || special == LOCKED ? key : 0));
    }
}

/* A block is freed as it is, and the next of its length is used whole: the pages must be as new. */
static void replace(struct worker *w, struct slot *s) {
    size_t len = s->len;
    int is_zeroed = chance(w, 50);
    if (len > 24 * MIB || !spend(w, len)) return;
    int is_mapping = s->is_mapping;
    leave_or_end(w, s);
    release(w, s);
    errno = KEPT;
    unsigned char *p = is_mapping ? new_mapping(s, len) : is_zeroed ? calloc(1, len) : malloc(len);
    int error = errno;
    if (!p) {
        say(w, "another %zu: null, %s", len, errno_word(error));
        return;
    }
    if (!is_mapping) begin_slot(s, p, len);
    if (is_mapping || is_zeroed) after_zeroed(w, s);
    struct extent all = {0, len, 0, 0, random64(w) | 1};
    know(s, all);
    fill(p, &all);
    if (is_mapping) say(w, "another mapping %zu: %s", len, errno_word(error));
    else describe(w, s, "another", 0, error);
    check(w, s, 0);
}

/* In a child of fork, MADV_DONTFORK memory is gone, MADV_WIPEONFORK memory is zero, and nothing is locked. Shared memory is
 * given up, because the parent relies on its content. */
static void inherit(struct worker *w) {
    world.locked = 0;
    world.is_locked = 0;
    for (int at = 0; at < SLOTS; at++) {
        struct slot *s = &w->slots[at];
        if (!s->p) continue;
        if (s->special == LOCKED) s->special = NOTHING;
        if (s->special == WIPED) know_zero(s, s->from, s->to);
        if (s->special == FILE_SHARED) end_special(w, s);
        if (s->special == NOT_FORKED) {
            forget(s, s->from, s->to);
            int error = map_over(s, s->from, s->to, MAP_PRIVATE | MAP_FIXED_NOREPLACE, 0);
            say(w, "%zu: not forked, filled %d", s->len, error);
            s->special = NOTHING;
        }
        check(w, s, 0);
    }
}
