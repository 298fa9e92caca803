/* A program that does nothing but fault: it touches every page of 64 MiB, gives them back, and begins again, as often as its
 * argument says; 16384 faults each time. */
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

__attribute__((noinline)) static void touch(char *at, size_t len, size_t page) {
    for (size_t i = 0; i < len; i += page) ((volatile char *)at)[i] = 1;
}

int main(int argc, char **argv) {
    size_t len = 64 << 20, page = sysconf(_SC_PAGESIZE);
    prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0);
    for (int rounds = argc > 1 ? atoi(argv[1]) : 1; rounds > 0; rounds--) {
        char *at = mmap(0, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (at == MAP_FAILED) return 2;
        touch(at, len, page);
        munmap(at, len);
    }
    return 0;
}
