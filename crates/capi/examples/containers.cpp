/* Standard containers on the pool: an allocator, and a polymorphic memory resource.
 *
 *     c++ -std=c++17 containers.cpp $(pkg-config --cflags --libs faultless) && ./a.out
 */
#include <faultless.hpp>
#include <cstdio>
#include <numeric>
#include <vector>

static double sum_of_temporaries() {
    double sum = 0;
    for (int round = 0; round < 100; round++) {
        std::vector<double, faultless::allocator<double>> numbers(1 << 18, 0.5);
        sum += std::accumulate(numbers.begin(), numbers.end(), 0.0);
    }
    return sum;
}

int main() {
    double sum = sum_of_temporaries();

    faultless::pool pool;
    faultless::memory_resource resource(pool.get());
    for (int round = 0; round < 100; round++) {
        std::pmr::vector<double> numbers(1 << 18, 0.5, &resource);
        sum += numbers.back();
    }
    std::printf("sum %.1f; of 100 blocks %llu were resident already\n", sum,
                static_cast<unsigned long long>(pool.stat("dirty_hits")));
    return sum != 100 * (1 << 17) + 50 || pool.stat("dirty_hits") < 99;
}
