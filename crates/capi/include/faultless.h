/* faultless.h: large blocks of memory that keep their pages, for C.
 *
 * The first touch of every page of new memory traps into the kernel, for 0.25 to 11 us per 4 KiB. A pool keeps the pages of
 * freed blocks and hands them out again. So only the first round of a program pays for them.
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
 * Lengths are bytes. A pool rounds them up to FAULTLESS_GRANULE_BYTES. Use it for blocks of 64 KiB and more, and malloc for
 * smaller ones.
 *
 * Threads: any thread may call any function at any time, and may free a block of another thread. Only faultless_pool_destroy
 * must be the last call for its pool. Do not call these functions in signal handlers.
 *
 * fork: the child has the parent's pools and blocks, copied on write, and may use them.
 *
 * Background thread: a pool that retains more than 16 MiB of free memory, or works ahead of need, has a thread named
 * "faultless". The thread takes no signals, sleeps while there is nothing to do, and does not exist during fork. If it cannot
 * start, the pool works without it and nothing decays.
 *
 * Errors: a function that returns a pointer returns NULL; the others return one of FAULTLESS_OK ... below. Functions never
 * print, abort or unwind. A call that failed has changed nothing. An address at which no block of the pool begins is refused
 * with FAULTLESS_FOREIGN. So is a block that was freed, until a new block begins at its address. Handles are not checked: a
 * handle must be NULL (FAULTLESS_INVALID), or come from here and not be destroyed.
 *
 * Binary compatibility: within one FAULTLESS_VERSION_MAJOR, functions and values are only added, and structures only grow at
 * their end. For that their first member is their size.
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

/* Errors. faultless_error_text explains them and names the remedy. */
#define FAULTLESS_OK 0
#define FAULTLESS_INVALID 1 /* an argument: NULL, an unknown policy, an alignment that is no power of two */
#define FAULTLESS_NO_MEMORY 2 /* the kernel refused memory or addresses */
#define FAULTLESS_FOREIGN 3 /* no block in use of this pool begins at this address */

/* One line of text for each value above, and for any other value. Never NULL; do not free it. */
const char *faultless_error_text(int error);

/* ---- Pools ---- */

typedef struct faultless_pool faultless_pool;

/* Which pages back a pool. A machine that lacks them provides base pages, counted in fallback_bytes. */
#define FAULTLESS_PAGE_THP 0 /* transparent huge pages, except in the first 2 MiB */
#define FAULTLESS_PAGE_BASE 1 /* base pages only */
#define FAULTLESS_PAGE_MTHP 2 /* transparent huge pages of page_order, smaller than a PMD (Linux 6.8) */
#define FAULTLESS_PAGE_HUGETLB 3 /* from the hugetlb pool, for programs that never fork, or fork only to exec */

/* When pages become resident. */
#define FAULTLESS_PREFAULT_NONE 0 /* at the first touch */
#define FAULTLESS_PREFAULT_POPULATE 1 /* when a block is handed out, by MADV_POPULATE_WRITE (Linux 5.14) */
#define FAULTLESS_PREFAULT_AHEAD 2 /* ahead of need, on an idle processor, between the watermarks of `stock` */

/* When dirty memory is zeroed. */
#define FAULTLESS_SCRUB_ON_GET 0 /* when zeroes are requested */
#define FAULTLESS_SCRUB_ON_FREE 1 /* when a block is freed: for secrets */
#define FAULTLESS_SCRUB_AHEAD 2 /* ahead of need, on an idle processor, between the watermarks of `zeroed` */

/* For retain_bytes: give all memory back as soon as it is free. */
#define FAULTLESS_RETAIN_NOTHING UINT64_MAX
/* For decay_ns: idle memory never goes back, and needs no background thread. */
#define FAULTLESS_DECAY_NEVER UINT64_MAX

/* Watermarks in bytes: work begins below `low` and ends at `high`. low <= high, high > 0. */
typedef struct faultless_watermarks {
    uint64_t low_bytes;
    uint64_t high_bytes;
} faultless_watermarks;

/* What a pool may do. Zero means the default for every member except `size`, including members of later versions. */
typedef struct faultless_policy {
    size_t size;              /* sizeof(faultless_policy) */
    uint32_t page;            /* FAULTLESS_PAGE_... */
    uint32_t page_order;      /* for FAULTLESS_PAGE_MTHP: log2 of base pages, 4 for 64 KiB */
    uint32_t prefault;        /* FAULTLESS_PREFAULT_... */
    uint32_t scrub;           /* FAULTLESS_SCRUB_... */
    faultless_watermarks stock;    /* for FAULTLESS_PREFAULT_AHEAD */
    faultless_watermarks zeroed;   /* for FAULTLESS_SCRUB_AHEAD */
    uint64_t prewarm_bytes;   /* made resident at the start, within retain_bytes; never decays */
    uint64_t retain_bytes;    /* most bytes of free blocks that stay resident; 0: 4 GiB, or a quarter of a smaller machine */
    uint64_t decay_ns;        /* time after which idle memory has gone back, except for about 16 MiB;
                                 0: 1 s, or 10 s in a guest whose host takes freed pages */
} faultless_policy;

/* The default policy: faultless_policy policy = FAULTLESS_POLICY_INIT; */
#define FAULTLESS_POLICY_INIT {sizeof(faultless_policy), 0, 0, 0, 0, {0, 0}, {0, 0}, 0, 0, 0}

/* Creates a pool. It maps addresses when blocks need them; only prewarm_bytes become resident now. `policy` may be NULL for the
 * default.
 * FAULTLESS_INVALID: `pool` is NULL, or the policy has an unknown size or value. FAULTLESS_NO_MEMORY: no addresses. */
int faultless_pool_create(const faultless_policy *policy, faultless_pool **pool);

/* Destroys a pool of faultless_pool_create and all its blocks.
 * FAULTLESS_INVALID: NULL, not a pool of that function, or destroyed already. */
int faultless_pool_destroy(faultless_pool *pool);

/* The pool of this process, shared by all callers and opened by the first call, with the default policy. It cannot be destroyed.
 * NULL: it could not be opened, or another thread is opening it right now. */
faultless_pool *faultless_process_pool(void);

/* Makes at least `bytes` of free memory resident, so that later blocks do not fault. The call takes about as long as the faults
 * would. Idle memory decays as usual; prewarm_bytes of a policy does not. `resident` (may be NULL) receives the bytes that are
 * resident afterwards. FAULTLESS_NO_MEMORY: fewer than `bytes`. */
int faultless_prewarm(faultless_pool *pool, size_t bytes, size_t *resident);

/* ---- Blocks ---- */

/* A block of at least `len` bytes with arbitrary content, aligned to FAULTLESS_GRANULE_BYTES. NULL: refused.
 * A length of 0 is valid. */
void *faultless_alloc(faultless_pool *pool, size_t len);

/* The same, with all bytes zero. Fresh memory of the kernel is zero already and is not touched. */
void *faultless_zalloc(faultless_pool *pool, size_t len);

/* The same as faultless_alloc, aligned to `align` bytes, a power of two of any size. */
void *faultless_aligned_alloc(faultless_pool *pool, size_t align, size_t len);

/* Changes the length of the block at *block and keeps its content. The block may move; *block becomes its new address. Growing
 * moves page tables instead of bytes if possible. *block == NULL: as faultless_alloc. A block that moves keeps no alignment beyond
 * a granule. FAULTLESS_FOREIGN, FAULTLESS_NO_MEMORY: *block is unchanged. */
int faultless_realloc(faultless_pool *pool, void **block, size_t len);

/* Frees a block. Its pages stay resident for the next block. NULL does nothing: FAULTLESS_OK. */
int faultless_free(faultless_pool *pool, void *block);

/* The usable length of a block: the requested length, rounded up. 0: no block of this pool begins here. */
size_t faultless_usable_size(faultless_pool *pool, const void *block);

/* ---- Counters ---- */

/* One counter. A level goes up and down; the others count since the pool was created. The unit ends the name (_bytes, _ns). */
typedef struct faultless_stat {
    const char *name; /* such as "dirty_hits"; do not free it */
    const char *help; /* one line; do not free it */
    uint64_t value;
    uint32_t is_level;
} faultless_stat;

/* Writes the first `room` counters to `to`. Returns how many there are. `to` may be NULL if `room` is 0. */
size_t faultless_stats(faultless_pool *pool, faultless_stat *to, size_t room);

/* One counter by its name. FAULTLESS_INVALID: unknown name, or NULL. */
int faultless_stat_value(faultless_pool *pool, const char *name, uint64_t *value);

#define FAULTLESS_FORMAT_TEXT 0
#define FAULTLESS_FORMAT_JSON 1
#define FAULTLESS_FORMAT_OPENMETRICS 2 /* for Prometheus */

/* Writes all counters as text, NUL-terminated and cut to `room` bytes. Returns the length of the whole text without the NUL,
 * like snprintf. 0: an argument is invalid. */
size_t faultless_stats_text(faultless_pool *pool, int format, char *to, size_t room);

#ifdef __cplusplus
}
#endif

#endif
