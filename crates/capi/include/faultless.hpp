/* faultless.hpp: the pool of faultless.h for C++: a memory resource, an allocator for containers, and an owner of a pool.
 *
 *     #include <faultless.hpp>
 *     #include <vector>
 *
 *     std::vector<double, faultless::allocator<double>> a(1 << 20);   // C++11: from the pool of the process
 *
 *     faultless::pool pool;                                            // C++17: from a pool of its own
 *     faultless::memory_resource resource(pool.get());
 *     std::pmr::vector<double> b(1 << 20, &resource);
 *
 * Both take blocks of at least faultless::threshold bytes from the pool. Smaller blocks, and those that the pool refuses, come from
 * the usual allocator. Any thread may use both at any time. They throw std::bad_alloc if there is no memory, and nothing else.
 *
 * Header only, over the C ABI: link with -lfaultless.
 */
#ifndef FAULTLESS_HPP
#define FAULTLESS_HPP

#include "faultless.h"

#include <cstddef>
#include <cstdint>
#include <limits>
#include <new>
#include <stdexcept>
#include <type_traits>
#include <utility>

#if defined(__has_include)
#if __cplusplus >= 201703L && __has_include(<memory_resource>)
#include <memory_resource>
#define FAULTLESS_HAS_MEMORY_RESOURCE 1
#endif
#endif

namespace faultless {

/* Bytes from which a block comes from the pool. For smaller ones the rounding to granules would waste more than 20 %. */
constexpr std::size_t threshold = std::size_t(64) << 10;

/* A pool with an owner. Destroying it frees all its blocks. */
class pool {
  public:
    /* Throws std::runtime_error with the reason. */
    explicit pool(const faultless_policy *policy = nullptr) {
        if (int error = faultless_pool_create(policy, &handle_)) {
            throw std::runtime_error(faultless_error_text(error));
        }
    }
    pool(pool &&other) noexcept : handle_(other.handle_) { other.handle_ = nullptr; }
    pool &operator=(pool &&other) noexcept {
        std::swap(handle_, other.handle_);
        return *this;
    }
    pool(const pool &) = delete;
    pool &operator=(const pool &) = delete;
    ~pool() { faultless_pool_destroy(handle_); }

    /* For the functions of faultless.h. */
    faultless_pool *get() const noexcept { return handle_; }

    /* Makes free memory resident ahead of need. Returns the bytes that are resident. */
    std::size_t prewarm(std::size_t bytes) noexcept {
        std::size_t resident = 0;
        faultless_prewarm(handle_, bytes, &resident);
        return resident;
    }

    /* A counter by its name; 0 if the name is unknown. */
    std::uint64_t stat(const char *name) const noexcept {
        std::uint64_t value = 0;
        faultless_stat_value(handle_, name, &value);
        return value;
    }

  private:
    faultless_pool *handle_ = nullptr;
};

namespace detail {

/* A large block or nullptr. */
inline void *take(faultless_pool *pool, std::size_t bytes, std::size_t alignment) noexcept {
    return bytes >= threshold ? faultless_aligned_alloc(pool, alignment, bytes) : nullptr;
}

/* Whether the block was the pool's. */
inline bool give(faultless_pool *pool, void *block, std::size_t bytes) noexcept {
    return bytes >= threshold && faultless_usable_size(pool, block) > 0 && faultless_free(pool, block) == FAULTLESS_OK;
}

} // namespace detail

/* An allocator for standard containers. All instances are equal and share the pool of the process. */
template <class T> class allocator {
  public:
    using value_type = T;
    using is_always_equal = std::true_type;

    allocator() noexcept = default;
    template <class U> allocator(const allocator<U> &) noexcept {}

    T *allocate(std::size_t count) {
        if (count > std::numeric_limits<std::size_t>::max() / sizeof(T)) {
            throw std::bad_alloc();
        }
        if (void *block = detail::take(faultless_process_pool(), count * sizeof(T), alignof(T))) {
            return static_cast<T *>(block);
        }
#ifdef __cpp_aligned_new
        if (alignof(T) > __STDCPP_DEFAULT_NEW_ALIGNMENT__) {
            return static_cast<T *>(::operator new(count * sizeof(T), std::align_val_t(alignof(T))));
        }
#endif
        return static_cast<T *>(::operator new(count * sizeof(T)));
    }

    void deallocate(T *block, std::size_t count) noexcept {
        if (detail::give(faultless_process_pool(), block, count * sizeof(T))) {
            return;
        }
#ifdef __cpp_aligned_new
        if (alignof(T) > __STDCPP_DEFAULT_NEW_ALIGNMENT__) {
            ::operator delete(block, std::align_val_t(alignof(T)));
            return;
        }
#endif
        ::operator delete(block);
    }
};

template <class T, class U> bool operator==(const allocator<T> &, const allocator<U> &) noexcept { return true; }
template <class T, class U> bool operator!=(const allocator<T> &, const allocator<U> &) noexcept { return false; }

#ifdef FAULTLESS_HAS_MEMORY_RESOURCE

/* A resource for polymorphic allocators. The pool and the upstream resource must outlive it. */
class memory_resource : public std::pmr::memory_resource {
  public:
    /* nullptr: the pool of the process. */
    explicit memory_resource(faultless_pool *pool = nullptr,
                             std::pmr::memory_resource *upstream = std::pmr::new_delete_resource())
        : pool_(pool), upstream_(upstream) {}

  private:
    /* Looked up each time: while a thread opens the pool of the process, there is none. */
    faultless_pool *source() const noexcept { return pool_ ? pool_ : faultless_process_pool(); }

    void *do_allocate(std::size_t bytes, std::size_t alignment) override {
        void *block = detail::take(source(), bytes, alignment);
        return block ? block : upstream_->allocate(bytes, alignment);
    }
    void do_deallocate(void *block, std::size_t bytes, std::size_t alignment) override {
        if (!detail::give(source(), block, bytes)) {
            upstream_->deallocate(block, bytes, alignment);
        }
    }
    bool do_is_equal(const std::pmr::memory_resource &other) const noexcept override {
        auto same = dynamic_cast<const memory_resource *>(&other);
        return same && same->pool_ == pool_ && same->upstream_->is_equal(*upstream_);
    }

    faultless_pool *pool_;
    std::pmr::memory_resource *upstream_;
};

#endif

} // namespace faultless

#endif
