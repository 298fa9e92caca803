/* Runs a command while this user may map only so many KiB of perf rings more: what is left of a small `perf_event_mlock_kb`. */
#include <linux/perf_event.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static long limit_kib(void) {
    long kib = 0;
    FILE *file = fopen("/proc/sys/kernel/perf_event_mlock_kb", "r");
    if (file == NULL || fscanf(file, "%ld", &kib) != 1) exit(126);
    fclose(file);
    return kib * sysconf(_SC_NPROCESSORS_ONLN);
}

static int has_mapped(size_t pages) {
    struct perf_event_attr attr = {.type = PERF_TYPE_SOFTWARE, .config = PERF_COUNT_SW_DUMMY, .size = sizeof attr};
    attr.exclude_kernel = 1;
    int fd = syscall(SYS_perf_event_open, &attr, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);
    if (fd < 0) exit(126);
    return mmap(NULL, pages * sysconf(_SC_PAGESIZE), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) != MAP_FAILED;
}

int main(int count, char **words) {
    if (count < 3) return 125;
    struct rlimit none = {0, 0};
    setrlimit(RLIMIT_MEMLOCK, &none);
    long page_kib = sysconf(_SC_PAGESIZE) / 1024, left = (limit_kib() - atol(words[1])) / page_kib;
    for (long data = 1024; data >= 1; data /= 2) while (left > data && has_mapped(data + 1)) left -= data + 1;
    if (left > 1) return 126;
    pid_t pid = fork();
    if (pid == 0) { execvp(words[2], words + 2); _exit(127); }
    int status;
    if (waitpid(pid, &status, 0) != pid) return 126;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}
