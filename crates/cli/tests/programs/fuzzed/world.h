/* What every operation of fuzzed.c knows: the random numbers, the log, the blocks and what must lie in them.
 *
 * A slot holds a block and a list of extents: parts of the block that were written, with the key of their pattern. Bytes in
 * no extent are unspecified and never read. The log has no addresses and no times. */
#define _GNU_SOURCE
#include <errno.h>
#include <malloc.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define KIB ((size_t)1 << 10)
#define MIB ((size_t)1 << 20)
#define GIB ((size_t)1 << 30)
#define TIB ((size_t)1 << 40)

enum { SLOTS = 12, EXTENTS = 24, WORKERS = 5, LOG_BYTES = 1 << 20 };
enum { BLOCKS, SMALL, LARGE, PAGES, FORKS, THREADS, LIMITS, SIGNALS, MIXED, ALTERED, GROUP, PROFILES };

/* Bytes at `from`, `from + stride`, ... below `from + len`; a stride of 0 means every byte. Key 0 means zeroes. */
struct extent {
    size_t from, len, stride, shift;
    uint64_t key;
};

/* What was done to some whole pages of a block, and lasts until it is undone. */
enum special { NOTHING, NO_ACCESS, READ_ONLY, GUARDED, NOT_FORKED, WIPED, LOCKED, FILE_PRIVATE, FILE_SHARED };

struct slot {
    unsigned char *p;
    size_t len;
    int is_mapping; /* from mmap(2), and goes back by munmap(2) */
    int is_sole; /* certainly a mapping of its own under the C library alone: free removes all of the mapping */
    int extents;
    struct extent extent[EXTENTS];
    enum special special;
    size_t from, to; /* the special range */
    int is_unseen;   /* made special by the program's own instruction */
};

/* Shared with forked children, which write on in it. */
struct log {
    size_t used;
    char text[LOG_BYTES];
};

struct worker {
    uint64_t state;
    int id, step;
    size_t budget;   /* bytes that may still be touched: bounds the time */
    struct log *log; /* null: each line goes out at once */
    struct slot slots[SLOTS];
};

static struct worker workers[WORKERS];
/* The process: its forks, its rights, and the limits in force. `is_alone`: the program sets limits. It has one thread, no other
 * process has its user, and it counts all locked memory. */
static struct {
    int profile, depth, is_quiet, is_fixed, is_user, is_alone, is_locked, threads_live, is_of_threads;
    uint64_t seed, hash;
    size_t page, machine_bytes, live_max, len_max;
    size_t space_limit, data_limit, lock_limit; /* 0 means none */
    _Atomic size_t locked;
    int overcommit;
} world;

static uint64_t mixed(uint64_t x) {
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

static uint64_t random64(struct worker *w) { return mixed(w->state += 0x9e3779b97f4a7c15u); }
static size_t pick(struct worker *w, size_t below) { return below ? random64(w) % below : 0; }
static int chance(struct worker *w, int percent) { return pick(w, 100) < (size_t)percent; }

/* Whether this kind of operation is left out, so that a known difference does not hide others: FUZZED_WITHOUT=oversize,leave */
static int is_without(const char *kind) {
    const char *list = getenv("FUZZED_WITHOUT");
    return list && strstr(list, kind);
}

/* ---- the log ---- */

static void emit(const char *text, size_t len) {
    for (size_t at = 0; at < len; at++) world.hash = (world.hash ^ (unsigned char)text[at]) * 0x100000001b3u;
    while (!world.is_quiet && len > 0) {
        ssize_t done = write(1, text, len);
        if (done < 0 && errno != EINTR) _exit(90);
        if (done > 0) text += done, len -= done;
    }
}

/* One line: forks above, thread, step, and what happened. errno stays. */
static void say(struct worker *w, const char *format, ...) {
    int error = errno;
    char line[400];
    va_list list;
    va_start(list, format);
    int used = snprintf(line, 40, "%d.%d.%d ", world.depth, w->id, w->step);
    used += vsnprintf(line + used, sizeof line - 48, format, list);
    va_end(list);
    line[used++] = '\n';
    if (getenv("FUZZED_AT_ONCE") && write(2, line, used) < 0) _exit(91);
    if (!w->log) {
        emit(line, used);
    } else if (w->log->used + used < LOG_BYTES) {
        memcpy(w->log->text + w->log->used, line, used);
        w->log->used += used;
    }
    errno = error;
}

/* Before each call errno gets a value that no call here sets. It should still be there after a success. The C library alone
 * sometimes leaves another value, from a first attempt: by chance ENOMEM in the heaps of threads, and the same, unreported, in a
 * heap that can't grow under a limit. Where it left another value, the comparison accepts "kept"
 * from the pool. */
enum { KEPT = 113 };

static int after_success(struct worker *w, int error) { 
    int is_limited = world.space_limit || world.data_limit;
    return (w->id > 0 || is_limited) && error == ENOMEM ? KEPT : error;
}

static const char *errno_word(int error) {
    static __thread char word[16];
    if (error == KEPT) return "kept";
    snprintf(word, sizeof word, "%d", error);
    return word;
}

/* ---- patterns ---- */

static uint64_t word_of(uint64_t key, size_t index) { return key ? ((index + key) * 0x9e3779b97f4a7c15u) ^ key : 0; }

static unsigned char byte_of(const struct extent *e, size_t at) {
    at -= e->shift;
    return word_of(e->key, at / 8) >> at % 8 * 8;
}

static void fill(unsigned char *p, const struct extent *e) {
    size_t at = e->from, end = e->from + e->len;
    if (e->stride) {
        for (; at < end; at += e->stride) p[at] = byte_of(e, at);
        return;
    }
    for (; at < end && at % 8; at++) p[at] = byte_of(e, at);
    for (; at + 8 <= end; at += 8) {
        uint64_t word = word_of(e->key, (at - e->shift) / 8);
        memcpy(p + at, &word, 8);
    }
    for (; at < end; at++) p[at] = byte_of(e, at);
}

/* The first byte between two places that is not as written; -1 where all are. */
static size_t first_bad(const unsigned char *p, const struct extent *e, size_t at, size_t end) {
    size_t step = e->stride ? e->stride : 1;
    for (; at < end && (step > 1 || at % 8); at += step)
        if (p[at] != byte_of(e, at)) return at;
    for (; at + 8 <= end; at += 8) {
        uint64_t word = word_of(e->key, (at - e->shift) / 8);
        if (memcmp(p + at, &word, 8)) break;
    }
    for (; at < end; at += step)
        if (p[at] != byte_of(e, at)) return at;
    return -1;
}

/* The same, of a long dense part: both ends and a word of each page. */
static size_t first_bad_sample(const unsigned char *p, const struct extent *e, size_t at, size_t end) {
    size_t page = world.page, edge = at + page, bad;
    if (e->stride || end - at <= 4 * page) return first_bad(p, e, at, end);
    if ((bad = first_bad(p, e, at, edge)) != (size_t)-1) return bad;
    for (size_t spot = edge; spot + page < end; spot += page) {
        size_t inside = spot + mixed(spot + e->key) % (page / 8 - 1) * 8;
        if ((bad = first_bad(p, e, inside, inside + 8)) != (size_t)-1) return bad;
    }
    return first_bad(p, e, end - page, end);
}

/* ---- extents ---- */

static size_t spot_from(const struct extent *e, size_t at) {
    return e->stride ? e->from + (at - e->from + e->stride - 1) / e->stride * e->stride : at;
}

static void add_extent(struct slot *s, struct extent e) {
    if (e.len == 0) return;
    if (s->extents == EXTENTS) {
        int least = 0;
        for (int at = 1; at < EXTENTS; at++)
            if (s->extent[at].len < s->extent[least].len) least = at;
        s->extent[least] = s->extent[--s->extents];
    }
    s->extent[s->extents++] = e;
}

/* Nothing is known any more of what lies between two places. */
static void forget(struct slot *s, size_t from, size_t to) {
    int count = s->extents;
    struct extent before[EXTENTS];
    memcpy(before, s->extent, sizeof before);
    s->extents = 0;
    for (int at = 0; at < count; at++) {
        struct extent e = before[at], right = e;
        size_t end = e.from + e.len;
        if (end <= from || e.from >= to) {
            add_extent(s, e);
            continue;
        }
        if (e.from < from) add_extent(s, (e.len = from - e.from, e));
        if (end > to && (right.from = spot_from(&right, to)) < end) add_extent(s, (right.len = end - right.from, right));
    }
}

static void know(struct slot *s, struct extent e) {
    forget(s, e.from, e.from + e.len);
    add_extent(s, e);
}

static void know_zero(struct slot *s, size_t from, size_t to) { know(s, (struct extent){from, to - from, 0, 0, 0}); }

static int is_unreadable(const struct slot *s) { return s->special == NO_ACCESS || s->special == GUARDED; }

/* Checks the known content of a block and reports a mistake. With `whole` it reads every byte, else some of each page. */
static int check(struct worker *w, struct slot *s, int whole) {
    for (int at = 0; s->p && at < s->extents; at++) {
        const struct extent *e = &s->extent[at];
        size_t end = e->from + e->len, bad = -1;
        size_t parts[2][2] = {{e->from, end}, {end, end}};
        if (is_unreadable(s) && s->from < end && e->from < s->to) {
            parts[0][1] = s->from > e->from ? s->from : e->from;
            parts[1][0] = s->to < end ? spot_from(e, s->to) : end;
        }
        for (int part = 0; part < 2 && bad == (size_t)-1; part++)
            if (parts[part][0] < parts[part][1])
                bad = (whole ? first_bad : first_bad_sample)(s->p, e, parts[part][0], parts[part][1]);
        if (bad == (size_t)-1) continue;
        say(w, "WRONG byte %zu of %zu: %d instead of %d", bad, s->len, s->p[bad], byte_of(e, bad));
        return 0;
    }
    return 1;
}

static int spend(struct worker *w, size_t bytes) {
    if (bytes > w->budget) return 0;
    w->budget -= bytes;
    return 1;
}

/* ---- faults that are expected ---- */

static __thread sigjmp_buf probe_end;
static __thread volatile int is_probing;

static void on_fault(int number, siginfo_t *info, void *context) {
    (void)context;
    if (is_probing) siglongjmp(probe_end, info->si_code);
    signal(number, SIG_DFL); /* the access comes again, and ends the program */
}

/* How the kernel answers one access: 0, or the code of its signal. */
static int probe(volatile unsigned char *p, int is_write) {
    int code = sigsetjmp(probe_end, 1);
    if (code == 0) {
        is_probing = 1;
        unsigned char byte = *p;
        if (is_write) *p = byte;
    }
    is_probing = 0;
    return code;
}
