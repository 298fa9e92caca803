/* The ways into the kernel for a call that changes pages: the C function, syscall(2), process_madvise(2) on the program itself,
 * and an instruction of the program's own. An operation takes one of them for all its calls. */
#include <fcntl.h>
#include <sys/syscall.h>
#include <sys/uio.h>

#ifndef SYS_pidfd_open
#define SYS_pidfd_open 434
#endif
#ifndef SYS_process_madvise
#define SYS_process_madvise 440
#endif

enum route { BY_FUNCTION, BY_SYSCALL, BY_PROCESS, BY_PROCESS_SYSCALL, BY_INSTRUCTION, ROUTES };

static __thread enum route route;

ssize_t process_madvise(int, const struct iovec *, size_t, int, unsigned) __attribute__((weak));

static void some_route(struct worker *w) { route = is_without("route") ? BY_FUNCTION : pick(w, ROUTES); }

/* As syscall(2). */
static long instruction(long number, long a, long b, long c, long d, long e, long f) {
#if defined __x86_64__
    register long fourth __asm__("r10") = d, fifth __asm__("r8") = e, sixth __asm__("r9") = f;
    __asm__ volatile("syscall" : "+a"(number) : "D"(a), "S"(b), "d"(c), "r"(fourth), "r"(fifth), "r"(sixth) : "rcx", "r11", "memory");
    long result = number;
#elif defined __aarch64__
    register long x8 __asm__("x8") = number, result __asm__("x0") = a, x1 __asm__("x1") = b, x2 __asm__("x2") = c;
    register long x3 __asm__("x3") = d, x4 __asm__("x4") = e, x5 __asm__("x5") = f;
    __asm__ volatile("svc 0" : "+r"(result) : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5) : "memory");
#else
    return syscall(number, a, b, c, d, e, f);
#endif
    if (result < 0 && result >= -4095) return errno = -result, -1;
    return result;
}

/* A call without a C function of its own here. */
static long call(long number, long a, long b, long c, long d, long e) {
    return route == BY_INSTRUCTION ? instruction(number, a, b, c, d, e, 0) : syscall(number, a, b, c, d, e);
}

static int is_direct(void) { return route == BY_SYSCALL || route == BY_INSTRUCTION; }

/* 0, or the errno of a call that failed. */
static int outcome(int result) { return result == 0 ? 0 : errno; }

/* process_madvise(2) on the program itself. */
static long advise_parts(const struct iovec *parts, size_t count, int advice) {
    int self = syscall(SYS_pidfd_open, getpid(), 0);
    long done = route == BY_PROCESS && process_madvise ? process_madvise(self, parts, count, advice, 0)
                                                      : call(SYS_process_madvise, self, (long)parts, count, advice, 0);
    int error = errno;
    if (self >= 0) close(self);
    errno = error;
    if (done >= 0 || error != ESRCH) return done;
    /* The first thread has ended, or is about to: the kernel takes the memory of a process from it. */
    done = 0;
    for (size_t at = 0; at < count && !madvise(parts[at].iov_base, parts[at].iov_len, advice); at++) done += parts[at].iov_len;
    return done;
}

/* Where process_madvise(2) refuses an advice, as before Linux 6.13, madvise(2) gives it. */
static int advise(struct slot *s, size_t from, size_t to, int advice) {
    unsigned char *p = s->p + from;
    size_t len = to - from, half = len / 2 & -world.page;
    struct iovec parts[2] = {{p, half}, {p + half, len - half}};
    int is_by_process = route == BY_PROCESS || route == BY_PROCESS_SYSCALL;
    if (is_by_process && advise_parts(parts + (half == 0), 2 - (half == 0), advice) == (long)len) return 0;
    return outcome(is_direct() ? call(SYS_madvise, (long)p, len, advice, 0, 0) : madvise(p, len, advice));
}

static int protect(void *p, size_t len, int rights) {
    return outcome(is_direct() ? call(SYS_mprotect, (long)p, len, rights, 0, 0) : mprotect(p, len, rights));
}

/* By mlock2(2) the pages become resident when they are touched. */
static int lock(void *p, size_t len, int is_on_fault) {
#ifdef SYS_mlock2
    if (is_on_fault) return outcome(call(SYS_mlock2, (long)p, len, 1 /* MLOCK_ONFAULT */, 0, 0));
#endif
    return outcome(is_direct() ? call(SYS_mlock, (long)p, len, 0, 0, 0) : mlock(p, len));
}

static int unlock(struct slot *s, size_t from, size_t to) {
    void *p = s->p + from;
    return outcome(is_direct() ? call(SYS_munlock, (long)p, to - from, 0, 0, 0) : munlock(p, to - from));
}

static int unmap(void *p, size_t len) {
    return outcome(is_direct() ? call(SYS_munmap, (long)p, len, 0, 0, 0) : munmap(p, len));
}

/* All of a mapping. By the program's own instruction that would go unseen, which the help of `run` excludes. */
static int unmap_whole(void *p, size_t len) {
    return route == BY_SYSCALL ? (int)syscall(SYS_munmap, p, len) : munmap(p, len);
}

static void *map(void *p, size_t len, int flags, int file) {
    int rights = PROT_READ | PROT_WRITE;
    if (file < 0) flags |= MAP_ANONYMOUS;
    if (route == BY_INSTRUCTION) return (void *)instruction(SYS_mmap, (long)p, len, rights, flags, file, 0);
    if (route == BY_SYSCALL) return (void *)syscall(SYS_mmap, p, len, rights, flags, file, 0L);
    return mmap(p, len, rights, flags, file, 0);
}

/* Moves pages to where a mapping may be already. */
static int move(void *p, size_t len, void *to) {
    int flags = MREMAP_MAYMOVE | MREMAP_FIXED;
    void *q = is_direct() ? (void *)call(SYS_mremap, (long)p, len, len, flags, (long)to) : mremap(p, len, len, flags, to);
    return q == MAP_FAILED ? errno : 0;
}
