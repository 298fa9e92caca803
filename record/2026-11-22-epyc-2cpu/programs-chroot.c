#include <stdlib.h>
#include <stdio.h>
#include <string.h>
__attribute__((noinline)) long touch(char *p, long n) { long s = 0; for (long i = 0; i < n; i += 4096) { p[i] = 1; s += p[i]; } return s; }
int main(void) { long s = 0; for (int i = 0; i < 200; i++) { char *p = malloc(4 << 20); s += touch(p, 4 << 20); free(p); p = malloc(33 << 20); s += touch(p, 1 << 20); free(p);} printf("%ld\n", s); return 3; }
