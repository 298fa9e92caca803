/* faultless.h: large blocks of memory that keep their pages, for C.
 *
 * The first touch of every page of new memory traps into the kernel: 0.25 to 11 us per 4 KiB. A pool keeps the pages of
 * freed blocks and hands them out again, so only the first round of a program pays for them.
 *
 *     #include <faultless.h>
 *     #include <stdio.h>
 *
 *     int main(void) {
 *         faultless_pool *pool;
 *         int error = faultless_pool_create(NULL, &pool);
 *         if (error) {
 *             fprintf(stderr, "no pool: %s\n", faultless_error_text(error));
 *             return 1;
 *         }
 *         for (int round = 0; round < 1000; round++) {
 *             char *block = faultless_alloc(pool, 640 << 10);
 *             if (!block) return 1;
 *             block[0] = 1;                      // faults in the first round only
 *             faultless_free(pool, block);
 *         }
 *         return faultless_pool_destroy(pool);
 *     }
 *
 *     cc example.c $(pkg-config --cflags --libs faultless)
 *
 * Lengths are bytes. A pool rounds them up to FAULTLESS_GRANULE_BYTES, so it is meant for blocks from some 64 KiB on;
 * smaller ones are better off with malloc.
 *
 * Threads: every function may be called from any thread at any time, and a block may be freed by another thread than
 * the one that got it; except that faultless_pool_destroy must be the last call for its pool. Not from signal handlers.
 *
 * fork: the child has the parent's pools and blocks, copied on write, and may go on using them.
 *
 * A pool that has more than 32 MiB to give back, or that works ahead of need, has a thread of its own, "faultless": it takes no
 * signals, sleeps while there is nothing to do, and is not there during fork. Where it can't be started the pool does without,
 * and nothing decays.
 *
 * Errors: functions that give a pointer give NULL; the others give one of FAULTLESS_OK ... below. Nothing is printed, no
 * function aborts or unwinds, and a call that failed has changed nothing. An address that is not the start of a block
 * of the pool in use, also one that was freed already, is refused with FAULTLESS_FOREIGN while no new block begins there.
 * What cannot be checked is a pool handle: it must be NULL (FAULTLESS_INVALID) or come from here and not be destroyed.
 *
 * Binary compatibility: within one FAULTLESS_VERSION_MAJOR functions and values are only added, and structures only
 * grow at their end; that is what their first member, their size, is for.
 */
#ifndef FAULTLESS_H
#define FAULTLESS_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define FAULTLESS_VERSION_MAJOR 0
#define FAULTLESS_VERSION_MINOR 1
#define FAULTLESS_VERSION_PATCH 0

/* Every block begins at a multiple of this and occupies multiples of it. */
#define FAULTLESS_GRANULE_BYTES ((size_t)16 << 10)

/* What went wrong; faultless_error_text says it in words, with what to do about it. */
#define FAULTLESS_OK 0
#define FAULTLESS_INVALID 1 /* an argument: NULL, an unknown policy, an alignment that is no power of two */
#define FAULTLESS_NO_MEMORY 2 /* the kernel refused memory or addresses */
#define FAULTLESS_FOREIGN 3 /* no block in use of this pool begins at this address */

/* One line of text for one of the values above, and for any other. Never NULL, never freed. */
const char *faultless_error_text(int error);

/* ---- Pools ---- */

typedef struct faultless_pool faultless_pool;

/* Which pages back a pool. What the machine does not have falls back to base pages; counted in fallback_bytes. */
#define FAULTLESS_PAGE_THP 0 /* transparent huge pages, but for the first 2 MiB */
#define FAULTLESS_PAGE_BASE 1 /* base pages only */
#define FAULTLESS_PAGE_MTHP 2 /* transparent huge pages of page_order, smaller than a PMD (Linux 6.8) */
#define FAULTLESS_PAGE_HUGETLB 3 /* from the hugetlb pool; for programs that do not fork, or only to exec */

/* When pages become resident. The time is the caller's but for the last one, which takes it on an idle processor. */
#define FAULTLESS_PREFAULT_NONE 0 /* at the first touch */
#define FAULTLESS_PREFAULT_TOUCH 1 /* when a block is handed out: one byte per page */
#define FAULTLESS_PREFAULT_MEMSET 2 /* likewise: every byte */
#define FAULTLESS_PREFAULT_MAP_POPULATE 3 /* likewise: a mapping with MAP_POPULATE */
#define FAULTLESS_PREFAULT_POPULATE 4 /* likewise: MADV_POPULATE_WRITE (Linux 5.14) */
#define FAULTLESS_PREFAULT_AHEAD 5 /* ahead of need: from less than low bytes of free resident memory on, up to high */

/* When dirty memory is zeroed. */
#define FAULTLESS_SCRUB_ON_GET 0 /* when somebody asks for zeroes */
#define FAULTLESS_SCRUB_ON_FREE 1 /* when a block is freed: for secrets */
#define FAULTLESS_SCRUB_AHEAD 2 /* on an idle processor: from less than low bytes of zeroed free memory on, up to high */

/* For retain_bytes: give everything back as soon as it is free. */
#define FAULTLESS_RETAIN_NOTHING UINT64_MAX
/* For decay_ns: nothing goes back because of its age, and no thread is needed for it. */
#define FAULTLESS_DECAY_NEVER UINT64_MAX

/* Where work ahead of need begins, and where it ends, in bytes: low <= high, high > 0. */
typedef struct faultless_watermarks {
    uint64_t low_bytes;
    uint64_t high_bytes;
} faultless_watermarks;

/* What a pool may do. Zero means the default for every member but `size`, also for those that later versions add. */
typedef struct faultless_policy {
    size_t size;              /* sizeof(faultless_policy) */
    uint32_t page;            /* FAULTLESS_PAGE_... */
    uint32_t page_order;      /* for FAULTLESS_PAGE_MTHP: log2 of base pages, 4 for 64 KiB */
    uint32_t prefault;        /* FAULTLESS_PREFAULT_... */
    uint32_t scrub;           /* FAULTLESS_SCRUB_... */
    faultless_watermarks stock;    /* for FAULTLESS_PREFAULT_AHEAD */
    faultless_watermarks zeroed;   /* for FAULTLESS_SCRUB_AHEAD */
    uint64_t prewarm_bytes;   /* made resident when the pool is made, as far as the kernel and retain_bytes allow; never decays */
    uint64_t retain_bytes;    /* most bytes of free blocks that stay resident; 0: 4 GiB, or a quarter of a smaller machine */
    uint64_t decay_ns;        /* free memory that nobody needed for so long goes back, but for about 32 MiB; 0: 1 s, or 10 s where a host takes freed pages */
} faultless_policy;

/* The default policy: faultless_policy policy = FAULTLESS_POLICY_INIT; */
#define FAULTLESS_POLICY_INIT {sizeof(faultless_policy), 0, 0, 0, 0, {0, 0}, {0, 0}, 0, 0, 0}

/* Makes a pool: reserves addresses, no memory yet. `policy` may be NULL for the default.
 * FAULTLESS_INVALID: no place for the handle, or a policy of unknown size or values. FAULTLESS_NO_MEMORY: no addresses. */
int faultless_pool_create(const faultless_policy *policy, faultless_pool **pool);

/* Ends a pool that faultless_pool_create made, and with it every block of it, freed or not.
 * FAULTLESS_INVALID: NULL, or not such a pool, or destroyed already. */
int faultless_pool_destroy(faultless_pool *pool);

/* The pool of this process with the default policy, shared by all who ask for it, opened by the first. It cannot be destroyed.
 * NULL: it could not be opened, or another thread is opening it at this moment. */
faultless_pool *faultless_process_pool(void);

/* Makes at least `bytes` of free memory resident, so that blocks handed out later do not fault. It takes about the time
 * that the faults would have taken. What nobody needs decays like other free memory; prewarm_bytes of a policy does not.
 * `resident` (may be NULL) receives how many bytes were seen to be resident afterwards.
 * FAULTLESS_NO_MEMORY: less than asked for, see `resident`. */
int faultless_prewarm(faultless_pool *pool, size_t bytes, size_t *resident);

/* ---- Blocks ---- */

/* A block of at least `len` bytes, content arbitrary, aligned to FAULTLESS_GRANULE_BYTES. NULL: refused.
 * A length of 0 gives a block like any other. */
void *faultless_alloc(faultless_pool *pool, size_t len);

/* The same, all bytes zero. What came fresh from the kernel is not touched for it. */
void *faultless_zalloc(faultless_pool *pool, size_t len);

/* The same as faultless_alloc, aligned to `align` bytes, a power of two, of any size. */
void *faultless_aligned_alloc(faultless_pool *pool, size_t align, size_t len);

/* Changes the length of the block at *block, which keeps its content up to the shorter length and may move: *block is
 * its new address. Growing moves page tables instead of bytes where it can. *block == NULL: as faultless_alloc. Alignment beyond
 * a granule is kept only where the block stays. FAULTLESS_FOREIGN, FAULTLESS_NO_MEMORY: *block is as it was. */
int faultless_realloc(faultless_pool *pool, void **block, size_t len);

/* Gives a block back; its pages stay resident for the next. NULL is a block already given back: FAULTLESS_OK. */
int faultless_free(faultless_pool *pool, void *block);

/* How many bytes of a block may be used: the length asked for, rounded up. 0: no block of this pool begins here. */
size_t faultless_usable_size(faultless_pool *pool, const void *block);

/* ---- Counters ---- */

/* One counter. A level goes up and down; others count since the pool was made. The unit ends the name (_bytes, _ns). */
typedef struct faultless_stat {
    const char *name; /* such as "dirty_hits"; never freed */
    const char *help; /* one line; never freed */
    uint64_t value;
    uint32_t is_level;
} faultless_stat;

/* Writes the first `room` counters to `to` and returns how many there are; `to` may be NULL if `room` is 0. */
size_t faultless_stats(faultless_pool *pool, faultless_stat *to, size_t room);

/* One counter by its name. FAULTLESS_INVALID: unknown name, or NULL. */
int faultless_stat_value(faultless_pool *pool, const char *name, uint64_t *value);

#define FAULTLESS_FORMAT_TEXT 0
#define FAULTLESS_FORMAT_JSON 1
#define FAULTLESS_FORMAT_OPENMETRICS 2 /* as Prometheus reads it */

/* Writes all counters as text, NUL-terminated and cut to `room` bytes, and returns the length of the whole text without
 * the NUL, like snprintf. 0: an argument is invalid. */
size_t faultless_stats_text(faultless_pool *pool, int format, char *to, size_t room);

#ifdef __cplusplus
}
#endif

#endif
