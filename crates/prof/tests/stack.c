// Prints its own registers, stack and mappings, three calls below main and in an inlined function.
// With an argument: first calls itself that many times, so that the root lies far from the leaf.
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static volatile int sink;

static uint64_t stack_end(void) {
    FILE *maps = fopen("/proc/self/maps", "r");
    char line[512];
    uint64_t begin = 0, end = 0;
    while (fgets(line, sizeof line, maps)) {
        if (strstr(line, "[stack]")) sscanf(line, "%lx-%lx", &begin, &end);
    }
    fclose(maps);
    return end;
}

static void print_maps(void) {
    FILE *maps = fopen("/proc/self/maps", "r");
    char line[512];
    while (fgets(line, sizeof line, maps)) fputs(line, stdout);
    fclose(maps);
}

__attribute__((noinline)) static void capture(uint64_t end) {
    uint64_t ip, sp, bp, lr = 0;
#if defined(__x86_64__)
    __asm__ volatile("lea 0(%%rip), %0\n\tmov %%rsp, %1\n\tmov %%rbp, %2" : "=r"(ip), "=r"(sp), "=r"(bp));
#elif defined(__aarch64__)
    __asm__ volatile("adr %0, .\n\tmov %1, sp\n\tmov %2, x29\n\tmov %3, x30"
                     : "=r"(ip), "=r"(sp), "=r"(bp), "=r"(lr));
#endif
    printf("%lx %lx %lx %lx\n", ip, sp, bp, lr);
    for (const unsigned char *at = (const unsigned char *)sp; (uint64_t)at < end; at++) printf("%02x", *at);
    putchar('\n');
    print_maps();
    sink++;
}

static inline __attribute__((always_inline)) void inlined(uint64_t end) {
    capture(end); // in inlined
    sink++;
}

__attribute__((noinline)) void a(uint64_t end) {
    inlined(end); // in a
    sink++;
}

__attribute__((noinline)) void b(uint64_t end) {
    a(end); // in b
    sink++;
}

__attribute__((noinline)) void deep(uint64_t end, int more) {
    volatile char filler[1024];
    filler[0] = (char)more;
    if (more > 0) {
        deep(end, more - 1); // in deep
    } else {
        b(end);
    }
    sink += filler[0];
}

__attribute__((noinline)) void c(uint64_t end, int more) {
    if (more > 0) {
        deep(end, more);
    } else {
        b(end); // in c
    }
    sink++;
}

int main(int argc, char **argv) {
    c(stack_end(), argc > 1 ? atoi(argv[1]) : 0); // in main
    return sink == 0;
}
