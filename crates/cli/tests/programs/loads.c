/* Loads a library, and has nothing to complain of before or afterwards. */
#include <dlfcn.h>
#include <stdio.h>
#include <unistd.h>

int main(int count, char **words) {
    alarm(600);
    const char *before = dlerror();
    void *library = dlopen(words[1], RTLD_NOW);
    puts(before ? before : library ? "loaded" : dlerror());
    return 0;
}
