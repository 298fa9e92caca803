// Executes its arguments with an environment that no shell makes: unsorted, with duplicates, with entries that have no
// name or no value.
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int main(int argc, char **argv) {
    static char path[1 << 16] = "PATH=", home[1 << 16] = "HOME=";
    strncat(path, getenv("PATH"), sizeof path - 6);
    strncat(home, getenv("HOME") ? getenv("HOME") : "/", sizeof home - 6);
    char *block[] = {"ZED=1", "no equals sign", "TWICE=first", path, "LD_PRELOAD=", "=no name", "TWICE=second", home,
                     "FAULTLESS_POLICY=base", "", "LD_PRELOAD=", "LD_PRELOADED=no", "LD_PRELOAD", "A=", NULL};
    if (argc < 2) return 2;
    execve(argv[1], argv + 1, block);
    return 127;
}
