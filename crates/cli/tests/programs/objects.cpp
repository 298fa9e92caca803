// C++ new and delete, containers that grow, over-aligned new, threads, and a static object that allocates at exit.
#include <cstdint>
#include <cstdio>
#include <map>
#include <memory>
#include <new>
#include <string>
#include <thread>
#include <vector>

struct alignas(65536) Wide { unsigned char bytes[1 << 20]; };

struct Late {
    std::vector<std::string> lines;
    ~Late() {
        for (int i = 0; i < 100; i++) lines.push_back(std::string(100000 + i, 'x'));
        std::vector<char>(5 << 20, 'y').swap(rest);
    }
    std::vector<char> rest;
} late;

static unsigned long churn(unsigned seed) {
    unsigned long sum = 0;
    std::map<unsigned, std::vector<unsigned>> live;
    for (unsigned i = 0; i < 400; i++) {
        seed = seed * 1103515245 + 12345;
        auto &block = live[seed >> 8 & 31];
        // One in four has up to 4 MiB: filling them takes nearly all of the time.
        block.assign(seed >> 4 & (i % 4 ? 0x3ffff : 0xfffff), i);
        for (auto &entry : live) if (!entry.second.empty()) sum += entry.second.back();
    }
    return sum;
}

int main() {
    unsigned long sum[3] = {};
    std::vector<std::thread> threads;
    for (unsigned i = 0; i < 3; i++) threads.emplace_back([&sum, i] { sum[i] = churn(i + 1); });
    for (auto &thread : threads) thread.join();
    std::unique_ptr<Wide> wide(new Wide());
    if (reinterpret_cast<uintptr_t>(wide.get()) % alignof(Wide)) return 1;
    for (unsigned char byte : wide->bytes) if (byte) return 2;
    std::vector<unsigned> grown;
    for (unsigned i = 0; i < 5000000; i++) grown.push_back(i);
    if (grown[2345678] != 2345678) return 3;
    try {
        std::vector<char> huge(static_cast<size_t>(1) << 60);
        return 4;
    } catch (const std::bad_alloc &) {
    }
    std::printf("%lu %lu %lu\n", sum[0], sum[1], sum[2]);
}
