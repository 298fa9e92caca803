#include <stddef.h>
#include <sys/mman.h>
/* Five callers of one helper that maps, touches and unmaps: 20 000 faults. With ADDED a sixth one brings 2 000 more. */
static volatile char sink;
static unsigned seed = 1;
static unsigned upto(unsigned n) { seed = seed * 1103515245u + 12345u; return (seed >> 16) % n; }
__attribute__((noinline)) void grab(size_t pages) {
  char *p = mmap(0, pages << 12, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  for (size_t i = 0; i < pages; i++) p[i << 12] = 1;
  sink = p[0];
  munmap(p, pages << 12);
}
__attribute__((noinline)) void parse(void) { grab(40 + upto(81)); sink = 1; }
__attribute__((noinline)) void decode(void) { grab(30 + upto(61)); sink = 2; }
__attribute__((noinline)) void index_(void) { grab(15 + upto(31)); sink = 3; }
__attribute__((noinline)) void report(void) { grab(10 + upto(21)); sink = 4; }
__attribute__((noinline)) void store(void) { grab(5 + upto(11)); sink = 5; }
#ifdef ADDED
__attribute__((noinline)) void added(void) { grab(20); sink = 6; }
#endif
static void work(void) { volatile long x = 0; for (long i = 0; i < 60000; i++) x += i; }
int main(void) {
  for (int i = 0; i < 100; i++) {
    parse(); decode(); work(); index_(); report(); store();
#ifdef ADDED
    added();
#endif
  }
}
