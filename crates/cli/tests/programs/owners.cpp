// Uses every kind of operator new and the malloc family, and asks for the usable sizes of the blocks of both.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <malloc.h>
#include <new>
#include <string>
#include <thread>
#include <vector>

struct alignas(64) Line { char bytes[100]; };
struct alignas(4096) Page { char bytes[100000]; };

static int failures;
#define CHECK(what) do { if (!(what)) { std::printf("line %d: %s\n", __LINE__, #what); failures++; } } while (0)

template <typename T> static void over_aligned() {
    for (int round = 0; round < 200; round++) {
        T *one = new T, *many = new T[3];
        CHECK((uintptr_t)one % alignof(T) == 0 && (uintptr_t)many % alignof(T) == 0);
        std::memset(one, 1, sizeof *one);
        std::memset(many, 2, 3 * sizeof *many);
        CHECK(malloc_usable_size(one) >= sizeof *one);
        delete one;
        delete[] many;
    }
}

static void plain() {
    for (size_t len = 1; len < 3000000; len = len * 5 / 3 + 1) {
        char *block = new char[len], *other = (char *)malloc(len);
        std::memset(block, 3, len);
        std::memset(other, 4, len);
        CHECK(malloc_usable_size(block) >= len && malloc_usable_size(other) >= len);
        other = (char *)realloc(other, len * 3);
        CHECK(other && other[len - 1] == 4);
        free(other);
        delete[] block;
        char *nothing = new (std::nothrow) char[len];
        ::operator delete[](nothing, std::nothrow);
        void *sized = ::operator new(len);
        ::operator delete(sized, len);
    }
}

static void rest_of_the_family() {
    char *block = (char *)reallocarray(nullptr, 10, 10);
    std::memset(block, 5, 100);
    block = (char *)reallocarray(block, 100000, 10);
    CHECK(block && block[99] == 5);
    block = (char *)reallocarray(block, 5, 10);
    CHECK(block && block[49] == 5);
    free(block);
    void *aligned = nullptr;
    CHECK(posix_memalign(&aligned, 256, 1000) == 0 && (uintptr_t)aligned % 256 == 0);
    free(aligned);
    for (size_t len : {10, 1000, 200000}) {
        void *blocks[] = {valloc(len), memalign(128, len), aligned_alloc(64, len), calloc(len, 3)};
        for (void *each : blocks) {
            CHECK(each && malloc_usable_size(each) >= len);
            each = realloc(each, len * 2);
            CHECK(each);
            free(each);
        }
    }
    char *copy = strdup("a block of the C library's");
    CHECK(malloc_usable_size(copy) > 20);
    free(copy);
}

int main() {
    over_aligned<Line>();
    over_aligned<Page>();
    std::vector<std::thread> threads;
    for (int at = 0; at < 3; at++) threads.emplace_back(plain);
    for (auto &thread : threads) thread.join();
    rest_of_the_family();
    std::vector<std::string> strings;
    for (int at = 0; at < 20000; at++) strings.push_back(std::string(at % 300, 'x'));
    std::puts(failures ? "failed" : "ok");
    return failures != 0;
}
