/* The malloc family: every call, its answer, errno, and what must lie in the block. */

enum answer { SURE, REFUSED, UNCLEAR };

/* The thread's own blocks alone: what others have depends on their progress. Limits are set only in programs of one thread. */
static size_t live(struct worker *w) {
    size_t sum = 0;
    for (int at = 0; at < SLOTS; at++) sum += w->slots[at].p ? w->slots[at].len : 0;
    return sum;
}

static enum answer under_limit(struct worker *w, size_t limit, size_t len) {
    if (limit == 0) return SURE;
    /* The program, its libraries and stacks; and what an allocator may lose to rounding. */
    if (live(w) + len + 64 * MIB + limit / 16 <= limit) return SURE;
    return len > limit ? REFUSED : UNCLEAR;
}

/* Whether a request must be served. Near a limit that depends on how the allocator lays its blocks out, so nobody asks there:
 * the kernel counts what the allocator took, not what the program asked for. */
static enum answer answer_to(struct worker *w, size_t len) {
    if (len > (size_t)1 << 47) return REFUSED;
    if (world.overcommit == 0 && len > world.machine_bytes / 8 * 9) return REFUSED;
    enum answer space = under_limit(w, world.space_limit, len), data = under_limit(w, world.data_limit, len);
    if (space == REFUSED || data == REFUSED) return REFUSED;
    if (space == UNCLEAR || data == UNCLEAR) return UNCLEAR;
    /* Below an eighth of the machine, also for an allocator that makes blocks resident. In locked programs a block is resident at
     * once. */
    return len <= (world.is_locked ? 32 * MIB : world.machine_bytes / 8) ? SURE : UNCLEAR;
}

static size_t some_len(struct worker *w) {
    size_t len = 1;
    switch (pick(w, 12)) {
    case 0: len = 1 + pick(w, 256); break;
    case 1: len = 1 + pick(w, 16 * KIB); break;
    case 2: len = 64 * KIB - 40 + pick(w, 80); break;
    case 3: len = 128 * KIB - 60 + pick(w, 120); break;
    case 4: case 5: len = 64 * KIB + pick(w, MIB); break;
    case 6: len = MIB + pick(w, 8 * MIB); break;
    case 7: len = 2 * MIB * (1 + pick(w, 6)) - 40 + pick(w, 80); break;
    case 8: len = (4 * KIB << pick(w, 14)) - 1 + pick(w, 3); break;
    case 9: len = 64 * KIB + pick(w, 200 * KIB); break;
    case 10: len = 8 * MIB + pick(w, 56 * MIB); break;
    default: len = 64 * MIB + pick(w, 340 * MIB);
    }
    while (len > world.len_max) len = len / 7 + 1;
    return len;
}

static size_t some_align(struct worker *w) {
    static const size_t odd[] = {0, 1, 2, 3, 4, 12, 24, 48, 100, 4095, 12288, (size_t)3 << 20};
#ifdef __GLIBC__ /* musl refuses other numbers than powers of two; an allocator in front of it may answer as glibc */
    if (chance(w, 20)) return odd[pick(w, sizeof odd / sizeof *odd)];
#endif
    return (size_t)8 << pick(w, chance(w, 85) ? 12 : 20); /* up to 16 KiB, seldom to 4 MiB */
}

static void write_block(struct worker *w, struct slot *s);

/* The promises of every new block. A block shorter than 16 bytes may have the alignment of the largest type that fits. */
static void describe(struct worker *w, struct slot *s, const char *call, size_t align, int error) {
    size_t least = s->len >= 16 ? 16 : s->len >= 8 ? 8 : 1;
    if (align & (align - 1)) align = 0; /* not a power of two: the C library rounds it up, or not, by its version */
    if (align < least) align = least;
    int is_aligned = (uintptr_t)s->p % align == 0, is_usable = malloc_usable_size(s->p) >= s->len;
    say(w, "%s %zu: block, %s%s%s", call, s->len, errno_word(after_success(w, error)), is_aligned ? "" : ", NOT ALIGNED",
        is_usable ? "" : ", NOT USABLE");
}

/* In its own mapping are blocks of this many bytes, where small ones can leave no gap as large in the heap: see `settle`. */
static int is_sole(size_t len) { return world.is_fixed && len >= 512 * KIB; }

static void begin_slot(struct slot *s, unsigned char *p, size_t len) {
    memset(s, 0, sizeof *s);
    s->p = p;
    s->len = len;
    s->is_sole = is_sole(len);
}

static void after_zeroed(struct worker *w, struct slot *s) {
    know_zero(s, 0, s->len);
    if (s->len > 48 * MIB || !spend(w, s->len / 4)) {
        /* Only spots, to bound the time. All zeroes are checked again later. */
        struct extent spots = {0, s->len, world.page * (1 + s->len / (1024 * world.page)) + 8, 0, 0};
        if (first_bad(s->p, &spots, 0, s->len) != (size_t)-1) say(w, "WRONG: not zero");
        s->extents = 0;
        know(s, spots);
        return;
    }
    check(w, s, s->len <= MIB);
}

static void *map(void *p, size_t len, int flags, int file);
static int unmap_whole(void *p, size_t len);

/* A mapping of the program's own: zero, and whole pages. */
static unsigned char *new_mapping(struct slot *s, size_t len) {
    unsigned char *p = map(NULL, len, MAP_PRIVATE, -1);
    if (p == MAP_FAILED) return NULL;
    begin_slot(s, p, len);
    s->is_mapping = s->is_sole = 1;
    return p;
}

static void allocate_mapping(struct worker *w, struct slot *s) {
    size_t len = (some_len(w) + world.page - 1) & -world.page;
    if (chance(w, 30)) len = (64 * KIB << pick(w, 9)) + pick(w, 2) * world.page;
    if (len > world.len_max || answer_to(w, len) != SURE || live(w) + len > world.live_max) return;
    errno = KEPT;
    unsigned char *p = new_mapping(s, len);
    say(w, "map %zu: %s, %s", len, p ? "mapping" : "none", errno_word(errno));
    if (!p) return;
    after_zeroed(w, s);
    if (chance(w, 85)) write_block(w, s);
}

static void allocate(struct worker *w, struct slot *s) {
    if (chance(w, 20) && !is_without("mappings")) {
        allocate_mapping(w, s);
        return;
    }
    size_t len = some_len(w), align = some_align(w), unit = (size_t[]){1, 3, 8, 4096}[pick(w, 4)];
    int call = pick(w, 12);
    if (answer_to(w, len + 2 * align) != SURE || live(w) + len > world.live_max) return;
    unsigned char *p = NULL;
    int result = 0;
    const char *name = "malloc";
    errno = KEPT;
    switch (call) {
    case 0: case 1: case 2: case 3: p = calloc(len / unit + 1, unit); len = (len / unit + 1) * unit; name = "calloc"; break;
    case 4: p = realloc(NULL, len); name = "realloc of null"; break;
    case 5: p = reallocarray(NULL, len / unit + 1, unit); len = (len / unit + 1) * unit; name = "reallocarray of null"; break;
    case 6:
        result = posix_memalign((void **)&p, align, len);
        name = "posix_memalign";
        break;
    case 7: p = aligned_alloc(align, len); name = "aligned_alloc"; break;
    case 8: p = memalign(align, len); name = "memalign"; break;
    case 9: p = valloc(len); align = world.page; name = "valloc"; break;
#ifdef __GLIBC__
    case 10: p = pvalloc(len); align = world.page; len = (len + align - 1) & -align; name = "pvalloc"; break;
#endif
    default: p = malloc(len); align = 0;
    }
    int error = errno;
    if (!p) {
        say(w, "%s %zu of alignment %zu: null, %d, %s", name, len, align, result, errno_word(result ? KEPT : error));
        return;
    }
    begin_slot(s, p, len);
    describe(w, s, name, call >= 6 ? align : 0, error);
    if (call < 4) after_zeroed(w, s);
    if (chance(w, 85)) write_block(w, s);
}

/* Writes all of a block, a part, one byte per so many pages, or its ends. */
static void write_block(struct worker *w, struct slot *s) {
    size_t len = s->len, from = pick(w, len), part = 1 + pick(w, len - from);
    uint64_t key = random64(w) | 1;
    size_t stride = world.page * (1 + pick(w, chance(w, 50) ? 16 : 1024));
    size_t way = pick(w, 100);
    if (len <= 16 * MIB ? way < 45 : way < 10) from = 0, part = len, stride = 0;
    else if (way < 60) stride = 0;
    else if (way < 90) part = len - from;
    else part = 0;
    size_t touched = stride ? part / stride * world.page : part;
    if (part == 0 || !spend(w, touched)) {
        size_t edge = len < 64 ? len : 64;
        struct extent first = {0, edge, 0, 0, key}, last = {len - edge, edge, 0, 0, key};
        know(s, first), fill(s->p, &first);
        know(s, last), fill(s->p, &last);
        return;
    }
    struct extent e = {from, part, stride, 0, key};
    know(s, e);
    fill(s->p, &e);
}

static void release(struct worker *w, struct slot *s) {
    check(w, s, 0);
    errno = KEPT;
    if (s->is_mapping) unmap_whole(s->p, s->len);
    else free(s->p);
    int error = errno;
    say(w, "%s %zu: %s", s->is_mapping ? "unmap" : "free", s->len, errno_word(error));
    memset(s, 0, sizeof *s);
}

static void cut(struct slot *s, size_t len) {
    forget(s, len, -1);
    s->len = len;
}

/* By mremap(2). Where it refuses, as it may if the pages were advised, the program copies. */
static void resize_mapping(struct worker *w, struct slot *s) {
    size_t len = (some_len(w) + world.page - 1) & -world.page, old = s->len;
    struct slot new;
    if (len > world.len_max || answer_to(w, len) != SURE || live(w) + len > world.live_max) return;
    if (!spend(w, (len < old ? len : old) / 4)) return;
    unsigned char *p = mremap(s->p, old, len, MREMAP_MAYMOVE);
    if (p == MAP_FAILED) {
        p = new_mapping(&new, len);
        if (!p) _exit(93);
        memcpy(p, s->p, len < old ? len : old);
        unmap_whole(s->p, old);
    }
    s->p = p;
    cut(s, len);
    if (len > old) know_zero(s, old, len);
    say(w, "map %zu again: %s", len, check(w, s, 0) ? "right" : "wrong");
    if (chance(w, 50)) write_block(w, s);
}

/* realloc and reallocarray. */
static void resize(struct worker *w, struct slot *s) {
    if (s->is_mapping) {
        resize_mapping(w, s);
        return;
    }
    size_t len = some_len(w), old = s->len;
    switch (pick(w, 6)) {
    case 0: len = old + pick(w, 64); break;
    case 1: len = old > 64 ? old - pick(w, 64) : old; break;
    case 2: len = old + old / 2 + 1; break;
    case 3: len = old / 2 + 1; break;
    }
    int is_array = chance(w, 25);
    if (len > world.len_max || answer_to(w, len) != SURE || live(w) + len > world.live_max) return;
    if (!spend(w, (len < old ? len : old) / 4)) return;
    check(w, s, 0);
    errno = KEPT;
    unsigned char *p = is_array ? reallocarray(s->p, len, 1) : realloc(s->p, len);
    int error = errno;
    if (!p) {
        say(w, "resize %zu to %zu: null, %s", old, len, errno_word(error));
        return;
    }
    s->p = p;
    cut(s, len);
    s->is_sole = s->is_sole && is_sole(len);
    /* A block whose pages were advised is several mappings, perhaps: mremap(2) refuses those, and the C library copies then. */
    describe(w, s, is_array ? "reallocarray to" : "realloc to", 0, error == EFAULT ? KEPT : error);
    check(w, s, 0);
    if (chance(w, 50)) write_block(w, s);
}

/* Writes what malloc_usable_size says may be written; it stays until the block is resized. */
static void use_all(struct worker *w, struct slot *s) {
    if (s->is_mapping) return;
    size_t usable = malloc_usable_size(s->p);
    if (usable < s->len) say(w, "NOT USABLE");
    if (usable > s->len) memset(s->p + s->len, 0xd3, usable - s->len < 3 * MIB ? usable - s->len : 3 * MIB);
    say(w, "all usable bytes written, %s", check(w, s, 0) ? "right" : "wrong");
}

/* The corners with one answer each: no block, no length, and more than can be. */
static void corner(struct worker *w, struct slot *s) {
    void *p = NULL;
    size_t huge = chance(w, 50) ? SIZE_MAX - pick(w, 5000) : (size_t)PTRDIFF_MAX - 2000 + pick(w, 4000) * 16;
    if (huge < (size_t)1 << 48) huge = SIZE_MAX;
    int kind = pick(w, 14), result = 0;
    if (s->is_mapping && (kind == 8 || kind == 9)) kind = 5;
    errno = KEPT;
    switch (kind) {
    case 0: free(NULL); break;
    case 1: p = malloc(0); free(p); break;
    case 2: p = calloc(0, 8); free(p); break;
    case 3: p = realloc(malloc(100), 0); break;
    case 4: p = realloc(malloc(300 * KIB), 0); break;
    case 5: p = malloc(huge); break;
    case 6: p = calloc(huge, 1); break;
    case 7: p = calloc(huge / 16 + pick(w, 99), 17 + pick(w, 9999)); break;
    case 8: p = realloc(s->p, huge); break;
    case 9: p = reallocarray(s->p, huge / 16, 17 + pick(w, 9999)); break;
    case 10: result = posix_memalign(&p, 64, huge); break;
    case 11: result = posix_memalign(&p, (size_t)1 << 62, 100 * KIB); break;
    case 12: p = memalign((size_t)1 << 62, 100 * KIB); break;
    default: p = aligned_alloc(4096, huge);
    }
    int error = result ? KEPT : errno; /* that posix_memalign leaves is not specified */
    say(w, "corner %d: %s, %d, %s", kind, p ? "block" : "null", result, errno_word(error));
    if (kind > 4 && p) free(p);
    check(w, s, 0);
}

/* One block from 1 GiB to 16 TiB, in one of five ways, used at its ends and freed at once. */
static void oversize(struct worker *w, struct slot *s) {
    size_t len = (GIB << pick(w, 15)) + pick(w, 3) * 333 * MIB, align = (size_t)4096 << pick(w, 10);
    int way = pick(w, s->is_mapping ? 4 : 6);
    if (chance(w, 40)) len = GIB + pick(w, GIB / 8);
    if (answer_to(w, len + 2 * align) == UNCLEAR || world.is_locked || is_without("oversize")) return;
    unsigned char *p, *before = s->p;
    if (way >= 4) check(w, s, 0);
    errno = KEPT;
    switch (way) {
    case 0: case 1: p = malloc(len); break;
    case 2: p = calloc(1, len); break;
    case 3: p = aligned_alloc(align, len); break;
    default: p = realloc(before, len);
    }
    int error = errno;
    say(w, "oversize %d %zu: %s, %s", way, len, p ? "block" : "null", errno_word(p ? after_success(w, error) : error));
    if (!p) {
        check(w, s, 0);
        return;
    }
    if (way >= 4 && before) {
        s->p = p;
        check(w, s, 0);
        forget(s, s->len, -1);
    }
    for (size_t at = 0; at < len; at += len / 7) {
        if (way == 2 && p[at]) say(w, "WRONG: not zero at %zu", at);
        if (way < 4) p[at] = 1;
    }
    p[len - 1] = 1;
    if (way >= 4 && before) {
        s->p = realloc(p, s->len); /* a shorter length is never refused by the C library */
        say(w, "back to %zu: %s", s->len, s->p ? "block" : "null");
        check(w, s, 0);
        return;
    }
    free(p);
}
