/* What the kernel says of this process, read without allocating. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define KIB ((size_t)1 << 10)
#define MIB ((size_t)1 << 20)
#define GIB ((size_t)1 << 30)

/* The number behind a name in a file of /proc/self; -1 where there is none. */
static long number_of(const char *path, const char *name) {
    static char text[16384];
    int file = open(path, O_RDONLY);
    if (file < 0) return -1;
    ssize_t len = 0, more;
    while ((more = read(file, text + len, sizeof text - 1 - len)) > 0) len += more;
    close(file);
    text[len] = 0;
    char *found = strstr(text, name);
    return found ? atol(found + strlen(name)) : -1;
}

/* VmRSS, VmHWM and the like, in MiB. */
static long status_mib(const char *name) { return number_of("/proc/self/status", name) / 1024; }

/* As Python reads it after a fork: the 20th word of /proc/self/stat. */
static long threads(void) {
    static char text[2048];
    int file = open("/proc/self/stat", O_RDONLY);
    ssize_t len = file < 0 ? 0 : read(file, text, sizeof text - 1);
    close(file);
    text[len > 0 ? len : 0] = 0;
    char *at = strrchr(text, ')');
    for (int word = 3; at && word <= 20; word++) at = strchr(at + 1, ' ');
    return at ? atol(at) : -1;
}

static long now_ms(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1000 + time.tv_nsec / 1000000;
}

static void sleep_ms(long ms) {
    struct timespec time = {ms / 1000, ms % 1000 * 1000000};
    while (nanosleep(&time, &time) != 0 && errno == EINTR) {}
}

static char *written(size_t len) {
    char *block = malloc(len);
    if (!block) _exit(80);
    for (size_t at = 0; at < len; at += 4096) block[at] = 1;
    block[len - 1] = 1;
    return block;
}
