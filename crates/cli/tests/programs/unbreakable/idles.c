/* Frees 1 GiB and then only reads its own state. Usage: idles MILLISECONDS: prints a line per reading, at least 20 in the decay
 * time: milliseconds since the free, resident MiB, threads. Ends when one thread and little memory are left, or after three times
 * the decay time; then prints what a plain unshare(2) returns. With "little": allocates and frees 8 MiB repeatedly; prints the
 * largest number of threads. */
#include "proc.h"
#include <sched.h>
#include <sys/syscall.h>

enum { BLOCKS = 128 };
static char *blocks[BLOCKS];

static void use(int count, size_t len) {
    for (int at = 0; at < count; at++) blocks[at] = written(len);
    for (int at = 0; at < count; at++) free(blocks[at]);
}

static int little(void) {
    long most = 0;
    for (int round = 0; round < 100; round++) {
        use(4, 2 * MIB);
        for (int reading = 0; reading < 3; reading++) {
            long count = threads();
            if (count > most) most = count;
            sleep_ms(1);
        }
    }
    printf("%ld\n", most);
    return 0;
}

int main(int count, char **words) {
    if (count < 2) return 2;
    if (strcmp(words[1], "little") == 0) return little();
    long decay_ms = atol(words[1]), begin, ms = 0, resident, number;
    use(BLOCKS, 8 * MIB);
    begin = now_ms();
    do {
        resident = status_mib("VmRSS:");
        number = threads();
        printf("%ld %ld %ld\n", ms, resident, number);
        sleep_ms(decay_ms / 40 < 50 ? decay_ms / 40 : 50);
        ms = now_ms() - begin;
    } while ((resident > 102 || number > 1 || ms < 200) && ms < 3 * decay_ms);
    printf("unshare %d\n", syscall(SYS_unshare, CLONE_NEWUSER) == 0 ? 0 : errno);
    return 0;
}
