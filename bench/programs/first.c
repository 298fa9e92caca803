/* Writes one fresh block once, from begin to end: first malloc|calloc MIB. What a first pass costs, and nothing else. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int main(int argc, char **argv) {
    if (argc != 3) return 2;
    size_t bytes = (size_t)atol(argv[2]) << 20;
    unsigned char *block = argv[1][0] == 'c' ? calloc(1, bytes) : malloc(bytes);
    if (!block) return 1;
    /* Piece by piece, as programs do. */
    for (size_t at = 0; at < bytes; at += 4096) memset(block + at, (int)(at >> 12), 4096);
    printf("%d\n", block[bytes / 2]);
    free(block);
    return 0;
}
