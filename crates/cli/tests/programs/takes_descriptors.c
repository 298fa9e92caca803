// A program that closes every descriptor but the first three, as a daemon does, and then has its own file under all numbers.
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int main(int argc, char **argv) {
    char *block = malloc(1 << 20);
    memset(block, 1, 1 << 20);
    for (int number = 3; number < 1024; number++) close(number);
    int file = open(argv[1], O_WRONLY | O_CREAT | O_TRUNC, 0600);
    for (int number = 4; number < 1024; number++) dup2(file, number);
    if (file < 0 || write(file, "of the program\n", 15) != 15) return 1;
    free(block);
    return argc != 2;
}
