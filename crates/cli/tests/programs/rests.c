// Frees all that it took, and rests. Its malloc decides what stays resident: glibc nothing, for no block as long as this
// lies on its heap (M_MMAP_THRESHOLD, mallopt(3)).
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int main(void) {
    for (int round = 0; round < 20; round++) {
        size_t len = 33 << 20;
        char *block = malloc(len);
        memset(block, 1, len);
        free(block);
    }
    usleep(500000);
    return 0;
}
