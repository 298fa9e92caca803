/* More that programs do to pages of blocks: move them, ask for many at once, handle their faults, and read what they have. */
#if __has_include(<linux/userfaultfd.h>)
#include <linux/userfaultfd.h>
#include <sys/ioctl.h>
#endif

static size_t locked_kib(void) {
    char line[256];
    size_t sum = 0;
    FILE *file = fopen("/proc/self/status", "re");
    while (file && fgets(line, sizeof line, file)) sscanf(line, "VmLck: %zu", &sum);
    if (file) fclose(file);
    return sum;
}

/* Says which lasting flags a new block's pages have, and whether they are a file's: nothing. */
static void see_flags(struct worker *w, struct slot *s) {
    static const char *const flags[] = {" dc", " dd", " wf", " mg", " rr", " sr", " um", " uw", " sh", " lo"};
    char line[256], found[64] = "";
    int is_here = 0, rest = 0;
    size_t from, to, page = world.page, first = (uintptr_t)s->p & -page, end = ((uintptr_t)s->p + s->len + page - 1) & -page;
    FILE *file = fopen("/proc/self/smaps", "re");
    while (file && fgets(line, sizeof line, file)) {
        if (sscanf(line, "%zx-%zx%n", &from, &to, &rest) == 2 && line[rest] == ' ') is_here = from < end && first < to;
        if (is_here && strstr(line, "/memfd:fuzzed") && !strstr(found, "file")) strcat(found, " file");
        if (!is_here || strncmp(line, "VmFlags:", 8)) continue;
        for (size_t at = 0; at + world.is_locked < sizeof flags / sizeof *flags; at++)
            if (strstr(line, flags[at]) && !strstr(found, flags[at])) strcat(found, flags[at]);
    }
    if (file) fclose(file);
    say(w, "%zu: flags%s", s->len, found);
}

/* Kernels before 6.17 move only single mappings: then the pages are copied. */
static void move_or_copy(void *p, size_t len, void *to) {
    if (move(p, len, to) == 0) return;
    if (map(to, len, MAP_PRIVATE | MAP_FIXED, -1) == MAP_FAILED) _exit(97);
    memcpy(to, p, len);
    if (p != to) munmap(p, len);
}

/* Pages move away and come back, or others come in their place; between two calls another thread's mapping could come there. */
static void move_pages_away(struct worker *w, struct slot *s, size_t from, size_t to) {
    size_t len = to - from;
    unsigned char *p = s->p + from, *q;
    if (world.threads_live || len > 16 * MIB || !spend(w, len)) return;
    q = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (q == MAP_FAILED) _exit(97);
    if (chance(w, 50)) {
        move_or_copy(p, len, q);
        move_or_copy(q, len, p);
        say(w, "%zu: pages moved away and back, %s", s->len, check(w, s, len <= MIB) ? "right" : "wrong");
        return;
    }
    struct extent others = {from, len, 0, from, random64(w) | 1}, there = {0, len, 0, 0, others.key};
    fill(q, &there);
    move_or_copy(q, len, p);
    know(s, others);
    say(w, "%zu: other pages moved in, %s", s->len, check(w, s, len <= MIB) ? "right" : "wrong");
}

/* Pages of all blocks, by one call. Where the kernel refuses it, nothing happens. */
static void advise_many(struct worker *w) {
    static const struct { int advice; enum special special; } kinds[] = {{MADV_DONTNEED, NOTHING}, {MADV_FREE, NOTHING},
        {MADV_COLD, NOTHING}, {MADV_PAGEOUT, NOTHING}, {MADV_DONTDUMP, NOTHING}, {MADV_DONTFORK, NOT_FORKED},
        {MADV_WIPEONFORK, WIPED}, {MADV_GUARD_INSTALL, GUARDED}, {MADV_SEQUENTIAL, NOTHING}, {MADV_HUGEPAGE, NOTHING}};
    struct iovec parts[SLOTS];
    struct slot *slots[SLOTS];
    int kind = pick(w, sizeof kinds / sizeof *kinds), advice = kinds[kind].advice, count = 0;
    size_t from, to, sum = 0;
    int is_lasting = advice == MADV_DONTDUMP || advice == MADV_SEQUENTIAL;
    if (world.is_locked || (is_lasting && route == BY_INSTRUCTION)) return;
    for (int at = 0; at < SLOTS; at++) {
        struct slot *s = &w->slots[at];
        if (!s->p || s->special != NOTHING || chance(w, 30) || !some_pages(w, s, &from, &to)) continue;
        unlock(s, from, to);
        parts[count] = (struct iovec){s->p + from, to - from};
        slots[count++] = s;
        sum += to - from;
    }
    long done = advise_parts(parts, count, advice);
    say(w, "advice %d of %d parts: %s, %d", advice, count, done == (long)sum ? "all" : "not all", done < 0 ? errno : 0);
    if (done > 0 && done != (long)sum) _exit(98);
    for (int at = 0; at < count && done > 0; at++) {
        struct slot *s = slots[at];
        from = (unsigned char *)parts[at].iov_base - s->p;
        to = from + parts[at].iov_len;
        if (advice == MADV_DONTNEED) know_zero(s, from, to);
        if (advice == MADV_FREE || advice == MADV_GUARD_INSTALL) forget(s, from, to);
        if (kinds[kind].special != NOTHING) be_special(s, kinds[kind].special, from, to);
        check(w, s, 0);
    }
}

/* Missing pages are filled by the program: until then an access gets a signal. */
static void handle_faults(struct worker *w, struct slot *s, size_t from, size_t to) {
#ifdef UFFD_FEATURE_SIGBUS
    struct uffdio_api api = {.api = UFFD_API, .features = UFFD_FEATURE_SIGBUS};
    struct uffdio_range range = {(uintptr_t)s->p + from, to - from};
    struct uffdio_register all = {.range = range, .mode = UFFDIO_REGISTER_MODE_MISSING};
    if (world.is_locked || is_without("userfaultfd")) return;
    int file = syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK);
    if (file < 0 || ioctl(file, UFFDIO_API, &api)) {
        say(w, "userfaultfd: %d", errno);
        if (file >= 0) close(file);
        return;
    }
    int registered = outcome(ioctl(file, UFFDIO_REGISTER, &all)), dropped = advise(s, from, to, MADV_DONTNEED);
    int code = probe(s->p + from + pick(w, (to - from) / world.page) * world.page, 0);
    int filled = 0;
    /* Page by page: one call may not cross mappings, and how many a block has is the allocator's business. */
    for (size_t at = from; at < to && at < from + 64 * world.page && !filled; at += world.page) {
        struct uffdio_zeropage page = {.range = {(uintptr_t)s->p + at, world.page}};
        filled = outcome(ioctl(file, UFFDIO_ZEROPAGE, &page));
    }
    int ended = outcome(ioctl(file, UFFDIO_UNREGISTER, &range));
    close(file);
    know_zero(s, from, to);
    say(w, "%zu: faults handled %d %d, code %d, filled %d, ended %d, %s", s->len, registered, dropped, code, filled, ended,
        check(w, s, 0) ? "zero" : "WRONG");
#else
    (void)w, (void)s, (void)from, (void)to;
#endif
}

/* What was locked is unlocked with its block. */
static void see_locked(struct worker *w) {
    if (world.is_locked || world.threads_live) return;
    size_t kib = locked_kib();
    say(w, "locked: %zu kB, %s", kib, kib * KIB == world.locked ? "right" : "WRONG");
}

static void alter(struct worker *w, struct slot *s) {
    size_t from, to;
    int action = pick(w, 10);
    if (action < 3) advise_many(w);
    else if (action == 3) see_locked(w);
    if (action < 4 || !s->p || s->special != NOTHING || !some_pages(w, s, &from, &to)) return;
    unlock(s, from, to);
    if (action < 8) move_pages_away(w, s, from, to);
    else handle_faults(w, s, from, to);
}

/* A block is freed, and the pages of another are as new. Those of a heap may have what an earlier block was given. */
static void renew(struct worker *w, struct slot *s) {
    replace(w, s);
    if (s->p && s->is_sole && s->special == NOTHING && !world.threads_live) see_flags(w, s);
}
