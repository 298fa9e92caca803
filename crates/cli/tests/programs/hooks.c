/* A preloaded library that defines functions of the C library, as faketime and torsocks do: each uses a thread-local
 * variable and calls the next definition. On a second thread named "faultless" it names the function and ends the program.
 * The macro HOOKS lists them: HOOK(open) HOOK(close). */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stddef.h>

static __thread int depth;

static long call(long number, long first, long second, long third) {
    long answer;
    __asm__ volatile("syscall" : "=a"(answer) : "a"(number), "D"(first), "S"(second), "d"(third) : "rcx", "r11", "memory");
    return answer;
}

static __attribute__((used)) void *hooked(const char *name, void **next) {
    enum { WRITE = 1, GETPID = 39, GETTID = 186, PRCTL = 157, EXIT_GROUP = 231, GET_NAME = 16 };
    char thread[16] = "";
    call(PRCTL, GET_NAME, (long)thread, 0);
    const char *ours = "faultless";
    int at = 0;
    while (ours[at] && ours[at] == thread[at]) at++;
    if (!ours[at] && call(GETPID, 0, 0, 0) != call(GETTID, 0, 0, 0)) {
        size_t len = 0;
        while (name[len]) len++;
        call(WRITE, 1, (long)name, len);
        call(WRITE, 1, (long)" on our thread\n", 15);
        call(EXIT_GROUP, 9, 0, 0);
    }
    depth++;
    if (!*next) *next = dlsym(RTLD_NEXT, name);
    depth--;
    return *next;
}

#define HOOK(name)                                                                                                     \
    __asm__(".data\nnext_" #name ": .quad 0\n.section .rodata\nname_" #name ": .string \"" #name "\"\n"                \
            ".text\n.globl " #name "\n.type " #name ", @function\n" #name ":\n"                                        \
            "push %rbp\nmov %rsp, %rbp\npush %rdi\npush %rsi\npush %rdx\npush %rcx\npush %r8\npush %r9\npush %rax\n"   \
            "and $-16, %rsp\nlea name_" #name "(%rip), %rdi\nlea next_" #name "(%rip), %rsi\ncall hooked\n"            \
            "mov %rax, %r11\nlea -56(%rbp), %rsp\npop %rax\npop %r9\npop %r8\npop %rcx\npop %rdx\npop %rsi\npop %rdi\n" \
            "pop %rbp\njmp *%r11\n.size " #name ", . - " #name "\n");
HOOKS
