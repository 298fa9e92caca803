// Mixes of large blocks. Prints resident memory in MiB: "peak P rest R", the peak and what is left SECONDS after the
// last free. memory_mixes MIX SECONDS
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

static char *filled(size_t len) {
  char *block = malloc(len);
  memset(block, 1, len);
  return block;
}

// Nine of ten blocks are freed, and each of the others lies between freed ones.
static void beside(size_t count, size_t len) {
  char **blocks = malloc(count * sizeof *blocks);
  for (size_t at = 0; at < count; at++) blocks[at] = filled(len);
  for (size_t at = 0; at < count; at++)
    if (at % 10) free(blocks[at]);
}

// Ten vectors that double up to 16 MiB, again and again.
static void doubling(void) {
  for (int round = 0; round < 8; round++) {
    char *vectors[10] = {0};
    for (size_t len = 1 << 16; len <= 16u << 20; len *= 2)
      for (int at = 0; at < 10; at++) {
        vectors[at] = realloc(vectors[at], len);
        memset(vectors[at] + len / 2, 1, len / 2);
      }
    for (int at = 0; at < 10; at++) free(vectors[at]);
  }
}

// A vector that doubles as std::vector does: by a new block, half of which is filled from the old one.
static void copying(void) {
  char *old = filled(1 << 16);
  for (size_t len = 1 << 17; len <= 64u << 20; len *= 2) {
    char *grown = malloc(len);
    memcpy(grown, old, len / 2);
    free(old);
    memset(grown + len / 2, 1, len / 2);
    old = grown;
  }
  free(old);
}

// Ten vectors that are filled in turn and grow by half, by a new block and a copy.
static void in_turn(void) {
  char *vectors[10] = {0};
  size_t room[10] = {0};
  for (size_t len = 0, step = 1 << 20; len < 40u << 20; len += step)
    for (int at = 0; at < 10; at++) {
      if (len + step > room[at]) {
        room[at] = room[at] ? room[at] + room[at] / 2 : 2 << 20;
        char *grown = malloc(room[at]);
        if (len) memcpy(grown, vectors[at], len);
        free(vectors[at]);
        vectors[at] = grown;
      }
      memset(vectors[at] + len, 1, step);
    }
  for (int at = 0; at < 10; at++) free(vectors[at]);
}

// Each block is a little larger than the one freed before it.
static void growing(void) {
  char *old = NULL;
  for (size_t len = 1 << 16; len < 64u << 20; len = len * 1.02 + 4096) {
    char *block = filled(len);
    free(old);
    old = block;
  }
  free(old);
}

// Blocks of half their alignment.
static void aligned(void) {
  void *blocks[150];
  for (int round = 0; round < 3; round++) {
    for (int at = 0; at < 150; at++) {
      if (posix_memalign(&blocks[at], 2 << 20, 1 << 20)) exit(1);
      memset(blocks[at], 1, 1 << 20);
    }
    for (int at = 0; at < 150; at++) free(blocks[at]);
  }
}

// A page in each 2 MiB of blocks of 256 MiB.
static void sparse(int zeroed) {
  for (int round = 0; round < 4; round++) {
    size_t len = 256u << 20;
    char *block = zeroed ? calloc(1, len) : malloc(len);
    for (size_t at = 0; at < len; at += 2 << 20) block[at + 5000] = 1;
    free(block);
  }
}

static long resident_mib(void) {
  long all, resident;
  FILE *file = fopen("/proc/self/statm", "r");
  if (fscanf(file, "%ld %ld", &all, &resident) != 2) exit(1);
  fclose(file);
  return resident * (sysconf(_SC_PAGESIZE) / 1024) / 1024;
}

int main(int count, char **words) {
  const char *mix = count > 2 ? words[1] : "";
  if (!strcmp(mix, "beside")) beside(2000, 200 << 10);
  else if (!strcmp(mix, "beside-large")) beside(500, 800 << 10);
  else if (!strcmp(mix, "doubling")) doubling();
  else if (!strcmp(mix, "copying")) copying();
  else if (!strcmp(mix, "in-turn")) in_turn();
  else if (!strcmp(mix, "growing")) growing();
  else if (!strcmp(mix, "aligned")) aligned();
  else if (!strcmp(mix, "sparse")) sparse(0);
  else if (!strcmp(mix, "sparse-zeroed")) sparse(1);
  else if (!strcmp(mix, "dense-sparse")) {
    // Only the later blocks count: what was dense goes back while the program is idle.
    free(filled(256u << 20));
    sleep(atoi(words[2]));
    char *block = malloc(256u << 20);
    for (size_t at = 0; at < 256u << 20; at += 2 << 20) block[at + 5000] = 1;
    printf("peak %ld rest %ld\n", resident_mib(), resident_mib());
    free(block);
    return 0;
  } else if (!strcmp(mix, "then-mapped")) {
    // Freed by malloc, and at once mapped by the program itself: it fits where nothing else is kept.
    for (int round = 0; round < 3; round++) {
      char *blocks[40];
      for (int at = 0; at < 40; at++) blocks[at] = filled(5 << 20);
      for (int at = 0; at < 40; at++) free(blocks[at]);
      char *mapped = mmap(NULL, 225u << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
      if (mapped == MAP_FAILED) return 1;
      memset(mapped, 1, 225u << 20);
      munmap(mapped, 225u << 20);
    }
  } else return 2;
  struct rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  sleep(atoi(words[2]));
  printf("peak %ld rest %ld\n", usage.ru_maxrss / 1024, resident_mib());
  return 0;
}
