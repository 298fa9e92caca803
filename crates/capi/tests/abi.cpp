/* The C++ interface, from C++11 on: small and large blocks, moves and swaps, many threads. */
#include <faultless.hpp>
#include <cstdio>
#include <cstdlib>
#include <list>
#include <string>
#include <thread>
#include <vector>

#define CHECK(holds) \
    do { if (!(holds)) { std::printf("line %d: %s\n", __LINE__, #holds); std::exit(1); } } while (0)

template <class T> using vector = std::vector<T, faultless::allocator<T>>;

struct alignas(256) wide { char bytes[256]; };

static void containers() {
    vector<int> numbers;
    for (int number = 0; number < 1000000; number++) numbers.push_back(number);
    CHECK(faultless_usable_size(faultless_process_pool(), numbers.data()) > 0);
    vector<int> moved = std::move(numbers);
    CHECK(moved[999999] == 999999);
    vector<wide> few(3), many(3000);
    CHECK(reinterpret_cast<std::uintptr_t>(many.data()) % 256 == 0);
#ifdef __cpp_aligned_new
    CHECK(reinterpret_cast<std::uintptr_t>(few.data()) % 256 == 0);
#endif
    std::list<std::string, faultless::allocator<std::string>> small{"a", "b"};
    CHECK(small.size() == 2 && small.get_allocator() == faultless::allocator<char>());
    bool threw = false;
    try { faultless::allocator<wide>().allocate(SIZE_MAX / 2); } catch (const std::bad_alloc &) { threw = true; }
    CHECK(threw);
}

static void threads() {
    std::vector<std::thread> all;
    for (int thread = 0; thread < 4; thread++) {
        all.emplace_back([thread] {
            for (int round = 0; round < 200; round++) {
                vector<int> numbers(100000 + 1000 * thread, thread);
                CHECK(numbers.back() == thread);
            }
        });
    }
    for (auto &thread : all) thread.join();
}

static void owners() {
    faultless::pool first, second;
    faultless_pool *handle = first.get();
    second = std::move(first);
    faultless::pool third(std::move(second));
    CHECK(third.get() == handle && third.stat("fresh") == 0 && third.stat("nonsense") == 0);
    CHECK(third.prewarm(1 << 20) >= 1 << 20 && third.stat("zeroed_bytes") >= 1 << 20);
    faultless_policy wrong = FAULTLESS_POLICY_INIT;
    wrong.page = 99;
    bool threw = false;
    try { faultless::pool none(&wrong); } catch (const std::runtime_error &) { threw = true; }
    CHECK(threw);
#ifdef FAULTLESS_HAS_MEMORY_RESOURCE
    faultless::memory_resource one(third.get()), same(third.get()), process;
    CHECK(one.is_equal(same) && !one.is_equal(process) && !one.is_equal(*std::pmr::new_delete_resource()));
    std::pmr::vector<std::pmr::string> words(&one);
    for (int word = 0; word < 10000; word++) words.emplace_back("longer than a string keeps inside itself");
    CHECK(third.stat("in_use_bytes") >= 10000 * sizeof(std::pmr::string));
#endif
}

int main() {
    containers();
    threads();
    owners();
    std::puts("ok");
}
