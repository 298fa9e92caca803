/* Memory locked into RAM. Usage: locks all MILLISECONDS MIB | fresh | used | freed
 * `all`: everything from now on is locked, 400 MiB are used and freed; prints the resident MiB at once, and once they are
 * at most MIB or the time is over. The others: a user who may lock 64 MiB locks what there is; prints the errno. */
#include "proc.h"
#include <sys/mman.h>
#include <sys/resource.h>

static int lock_all(long ms, long most_mib) {
    if (mlockall(MCL_CURRENT | MCL_FUTURE) != 0) return printf("refused\n"), 0;
    free(written(400 * MIB));
    long at_once = status_mib("VmRSS:"), begin = now_ms();
    while (status_mib("VmRSS:") > most_mib && now_ms() - begin < ms) sleep_ms(20);
    printf("%ld %ld\n", at_once, status_mib("VmRSS:"));
    return 0;
}

static int lock_as_user(const char *way) {
    struct rlimit limit;
    getrlimit(RLIMIT_MEMLOCK, &limit);
    limit.rlim_cur = limit.rlim_max < 64 * MIB ? limit.rlim_max : 64 * MIB;
    limit.rlim_max = limit.rlim_cur;
    if (setrlimit(RLIMIT_MEMLOCK, &limit) != 0) return 82;
    if (geteuid() == 0 && setresuid(65534, 65534, 65534) != 0) return 83;
    char *block = strcmp(way, "used") == 0 ? written(MIB) : NULL;
    if (strcmp(way, "freed") == 0) free(written(200 * MIB));
    printf("%d\n", mlockall(MCL_CURRENT) == 0 ? 0 : errno);
    free(block);
    return 0;
}

int main(int count, char **words) {
    if (count < 2 || (strcmp(words[1], "all") == 0 && count < 4)) return 2;
    return strcmp(words[1], "all") == 0 ? lock_all(atol(words[2]), atol(words[3])) : lock_as_user(words[1]);
}
