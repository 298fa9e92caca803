/* Calls every function of faultless.h with valid and invalid arguments. Prints the first failed check. */
#include <faultless.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#define CHECK(holds) \
    do { if (!(holds)) { printf("line %d: %s\n", __LINE__, #holds); exit(1); } } while (0)

static int all_bytes(const unsigned char *block, size_t len, int byte) {
    for (size_t at = 0; at < len; at++) if (block[at] != byte) return 0;
    return 1;
}

static void blocks(faultless_pool *pool) {
    unsigned char *block = faultless_alloc(pool, 100000);
    CHECK(block && faultless_usable_size(pool, block) >= 100000);
    CHECK((uintptr_t)block % FAULTLESS_GRANULE_BYTES == 0);
    memset(block, 0xaa, 100000);
    void *moved = block;
    CHECK(faultless_realloc(pool, &moved, 10 << 20) == FAULTLESS_OK);
    CHECK(all_bytes(moved, 100000, 0xaa) && faultless_usable_size(pool, moved) >= 10 << 20);
    CHECK(faultless_realloc(pool, &moved, SIZE_MAX) == FAULTLESS_NO_MEMORY && all_bytes(moved, 100000, 0xaa));
    CHECK(faultless_free(pool, moved) == FAULTLESS_OK);

    block = faultless_zalloc(pool, 100000);
    CHECK(block && all_bytes(block, 100000, 0));
    CHECK(faultless_free(pool, block) == FAULTLESS_OK);
    void *fresh = NULL;
    CHECK(faultless_realloc(pool, &fresh, 1) == FAULTLESS_OK && fresh);
    CHECK(faultless_free(pool, fresh) == FAULTLESS_OK);
    CHECK(faultless_free(pool, NULL) == FAULTLESS_OK);
    for (size_t align = 1; align <= (size_t)64 << 20; align *= 4) {
        block = faultless_aligned_alloc(pool, align, 70000);
        CHECK(block && (uintptr_t)block % align == 0);
        CHECK(faultless_free(pool, block) == FAULTLESS_OK);
    }
    CHECK(!faultless_alloc(pool, SIZE_MAX));
}

static void wrong_arguments(faultless_pool *pool) {
    int on_stack;
    void *foreign = &on_stack, *block = faultless_alloc(pool, 70000);
    CHECK(faultless_free(pool, foreign) == FAULTLESS_FOREIGN);
    CHECK(faultless_free(pool, (char *)block + 16) == FAULTLESS_FOREIGN);
    CHECK(faultless_free(pool, (char *)block + FAULTLESS_GRANULE_BYTES) == FAULTLESS_FOREIGN);
    CHECK(faultless_realloc(pool, &foreign, 70000) == FAULTLESS_FOREIGN && foreign == &on_stack);
    CHECK(faultless_usable_size(pool, foreign) == 0);
    CHECK(faultless_free(pool, block) == FAULTLESS_OK);
    CHECK(faultless_free(pool, block) == FAULTLESS_FOREIGN); /* a second time */
    CHECK(!faultless_aligned_alloc(pool, 3, 70000) && !faultless_aligned_alloc(pool, 0, 70000));
    CHECK(!faultless_alloc(NULL, 70000) && !faultless_zalloc(NULL, 70000) && !faultless_aligned_alloc(NULL, 8, 1));
    CHECK(faultless_free(NULL, block) == FAULTLESS_INVALID);
    CHECK(faultless_realloc(pool, NULL, 1) == FAULTLESS_INVALID);
    CHECK(faultless_pool_create(NULL, NULL) == FAULTLESS_INVALID);
    CHECK(faultless_pool_destroy(NULL) == FAULTLESS_INVALID);
    CHECK(faultless_pool_destroy((faultless_pool *)&on_stack) == FAULTLESS_INVALID);
    for (int error = -1; error < 6; error++) CHECK(strlen(faultless_error_text(error)) > 5);
}

static void policies(void) {
    struct { faultless_policy known; uint64_t later; } newer = {FAULTLESS_POLICY_INIT, 0};
    faultless_pool *pool = NULL;
    newer.known.size = sizeof newer;
    newer.known.page = FAULTLESS_PAGE_BASE;
    newer.known.prefault = FAULTLESS_PREFAULT_POPULATE;
    newer.known.retain_bytes = FAULTLESS_RETAIN_NOTHING;
    CHECK(faultless_pool_create(&newer.known, &pool) == FAULTLESS_OK);
    CHECK(faultless_free(pool, faultless_alloc(pool, 70000)) == FAULTLESS_OK);
    uint64_t retained = 1;
    CHECK(faultless_stat_value(pool, "retained_bytes", &retained) == FAULTLESS_OK && retained == 0);
    CHECK(faultless_pool_destroy(pool) == FAULTLESS_OK);
    CHECK(faultless_pool_destroy(pool) == FAULTLESS_INVALID); /* a second time */
    newer.later = 1; /* asks for something this version doesn't know */
    CHECK(faultless_pool_create(&newer.known, &pool) == FAULTLESS_INVALID);
    faultless_policy older = FAULTLESS_POLICY_INIT;
    older.size = sizeof older.size; /* has nothing but its size */
    older.page = 77;
    CHECK(faultless_pool_create(&older, &pool) == FAULTLESS_OK && faultless_pool_destroy(pool) == FAULTLESS_OK);
    faultless_policy unknown = FAULTLESS_POLICY_INIT;
    unknown.page = 99;
    CHECK(faultless_pool_create(&unknown, &pool) == FAULTLESS_INVALID);
    unknown.page = 0;
    unknown.scrub = FAULTLESS_SCRUB_AHEAD; /* without watermarks */
    CHECK(faultless_pool_create(&unknown, &pool) == FAULTLESS_INVALID);
    unknown.scrub = 0;
    unknown.size = SIZE_MAX;
    CHECK(faultless_pool_create(&unknown, &pool) == FAULTLESS_INVALID);
}

/* Idle memory decays, and a pool may be destroyed while its thread works. */
static void decays(void) {
    faultless_policy policy = FAULTLESS_POLICY_INIT;
    faultless_pool *pool;
    policy.decay_ns = 100000000;
    policy.prewarm_bytes = (uint64_t)8 << 20;
    for (int round = 0; round < 5; round++) {
        uint64_t retained = 0;
        CHECK(faultless_pool_create(&policy, &pool) == FAULTLESS_OK);
        CHECK(faultless_stat_value(pool, "retained_bytes", &retained) == FAULTLESS_OK && retained >= 8 << 20);
        for (int block = 0; block < 3; block++) {
            void *all = faultless_alloc(pool, (size_t)100 << 20);
            CHECK(all);
            memset(all, 1, (size_t)100 << 20);
            CHECK(faultless_free(pool, all) == FAULTLESS_OK);
        }
        if (round == 0) {
            for (int wait = 0; wait < 10000; wait++) { /* up to 1000 times the decay time: the machine may be busy */
                CHECK(faultless_stat_value(pool, "retained_bytes", &retained) == FAULTLESS_OK);
                if (retained <= (uint64_t)32 << 20) break;
                usleep(10000);
            }
            CHECK(retained <= (uint64_t)32 << 20);
        }
        CHECK(faultless_pool_destroy(pool) == FAULTLESS_OK);
    }
}

static void counters(faultless_pool *pool) {
    faultless_stat stats[100];
    size_t count = faultless_stats(pool, NULL, 0);
    CHECK(count > 10 && count < 100 && faultless_stats(pool, stats, 100) == count);
    for (size_t at = 0; at < count; at++) {
        uint64_t value;
        CHECK(strlen(stats[at].help) > 5 && stats[at].is_level <= 1);
        CHECK(faultless_stat_value(pool, stats[at].name, &value) == FAULTLESS_OK && value == stats[at].value);
    }
    CHECK(faultless_stat_value(pool, "nonsense", &stats[0].value) == FAULTLESS_INVALID);
    char text[20000], start[8] = "xxxxxxx";
    size_t len = faultless_stats_text(pool, FAULTLESS_FORMAT_JSON, text, sizeof text);
    CHECK(len == strlen(text) && text[0] == '{' && text[len - 1] == '}' && strstr(text, "\"dirty_hits\":"));
    CHECK(faultless_stats_text(pool, FAULTLESS_FORMAT_JSON, start, 5) == len);
    CHECK(strlen(start) == 4 && !strncmp(start, text, 4) && start[5] == 'x');
    CHECK(faultless_stats_text(pool, FAULTLESS_FORMAT_JSON, NULL, 0) == len);
    CHECK(faultless_stats_text(pool, FAULTLESS_FORMAT_OPENMETRICS, text, sizeof text) && strstr(text, "# EOF\n"));
    CHECK(faultless_stats_text(pool, FAULTLESS_FORMAT_TEXT, text, sizeof text) && strstr(text, "Bytes in blocks now."));
    CHECK(faultless_stats_text(pool, 9, text, sizeof text) == 0);
}

static void prewarmed(void) {
    faultless_pool *pool;
    struct rusage before, after;
    size_t resident = 0, len = (size_t)20 << 20;
    CHECK(faultless_pool_create(NULL, &pool) == FAULTLESS_OK);
    CHECK(faultless_prewarm(pool, len, &resident) == FAULTLESS_OK && resident >= len);
    CHECK(faultless_prewarm(pool, 1, NULL) == FAULTLESS_OK && faultless_prewarm(NULL, 1, NULL) == FAULTLESS_INVALID);
    getrusage(RUSAGE_SELF, &before);
    void *block = faultless_alloc(pool, len);
    memset(block, 1, len);
    getrusage(RUSAGE_SELF, &after);
    CHECK(after.ru_minflt - before.ru_minflt < 50); /* of 5120 base pages */
    CHECK(faultless_pool_destroy(pool) == FAULTLESS_OK);
}

static void forks(faultless_pool *pool) {
    unsigned char *block = faultless_alloc(pool, 300000);
    memset(block, 7, 300000);
    pid_t child = fork();
    if (child == 0) {
        alarm(600);
        unsigned char *other = faultless_alloc(pool, 300000);
        int well = other && all_bytes(block, 300000, 7) && !faultless_free(pool, block) && !faultless_free(pool, other);
        _exit(well ? 0 : 1);
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    CHECK(all_bytes(block, 300000, 7) && faultless_free(pool, block) == FAULTLESS_OK);
}

int main(void) {
    faultless_pool *pool = NULL, *shared = faultless_process_pool();
    CHECK(faultless_pool_create(NULL, &pool) == FAULTLESS_OK && pool);
    CHECK(shared && shared == faultless_process_pool() && shared != pool);
    CHECK(faultless_pool_destroy(shared) == FAULTLESS_INVALID);
    blocks(pool);
    blocks(shared);
    wrong_arguments(pool);
    policies();
    decays();
    counters(pool);
    prewarmed();
    forks(pool);
    CHECK(faultless_pool_destroy(pool) == FAULTLESS_OK);
    printf("policy %zu stat %zu version %d.%d.%d\n", sizeof(faultless_policy), sizeof(faultless_stat),
           FAULTLESS_VERSION_MAJOR, FAULTLESS_VERSION_MINOR, FAULTLESS_VERSION_PATCH);
    return 0;
}
