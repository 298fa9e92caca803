//! Engines that overwrite memory with zeroes, and the fastest of them for work ahead of need.
//!
//! In: a range. Out: zeroes. Two uses want two engines:
//! * for a caller about to use the block, [`CACHED`]: it leaves the block in the cache, where reading it is
//!   3x faster;
//! * ahead of need, [`ahead`]: stores that bypass the cache evict nothing of the program's. They are 1.8x
//!   faster on cold memory (640 KiB blocks on a Zen 5: 83 to 48 GB/s), except on emulators.
//!
//! An engine is a trait, so a device that zeroes memory could be added. No allocation anywhere.
//!
//! References: AMD64 APM volume 3 (CLZERO, MOVNTDQ), Arm ARM (DC ZVA, DCZID_EL0).

mod choice;

pub use choice::{TRIAL_BYTES, ahead};

/// A way to zero memory.
pub trait Engine: Sync {
    /// Its name, for reports.
    fn name(&self) -> &'static str;

    /// Whether this processor has it.
    fn is_present(&self) -> bool;

    /// Whether the zeroes go into the cache, where they evict the program's data.
    fn evicts(&self) -> bool {
        false
    }

    /// Zeroes `start .. start + len`. The zeroes are visible to threads synchronised by an atomic or a lock.
    ///
    /// # Safety
    /// The range must be valid for writes and nothing else may use it meanwhile. The engine must be present.
    unsafe fn zero(&self, start: *mut u8, len: usize);
}

/// Ordinary stores, as the compiler and the C library implement them.
pub static CACHED: &dyn Engine = &Cached;

/// Every engine of this architecture, including those that this processor lacks.
pub fn engines() -> &'static [&'static dyn Engine] {
    ENGINES
}

/// An engine that this processor has, for callers that own the memory anyway.
///
/// ```
/// use faultless_os::zero::Present;
/// let mut bytes = [7_u8; 100];
/// Present::named("cached").ok_or("every processor has it")?.zero(&mut bytes[1..]);
/// assert_eq!((bytes[0], bytes[1], bytes[99]), (7, 0, 0));
/// # Ok::<(), &str>(())
/// ```
#[derive(Clone, Copy)]
pub struct Present(&'static dyn Engine);

impl Present {
    /// The engine of that name; `None` if this architecture or this processor lacks it.
    pub fn named(name: &str) -> Option<Self> {
        let found = engines().iter().find(|engine| engine.name() == name && engine.is_present());
        found.map(|engine| Self(*engine))
    }

    /// Overwrites the whole slice.
    pub fn zero(self, bytes: &mut [u8]) {
        // SAFETY: an exclusive slice, and `named` has asked whether the engine is present.
        unsafe { self.0.zero(bytes.as_mut_ptr(), bytes.len()) };
    }
}

#[cfg(target_arch = "x86_64")]
static ENGINES: &[&dyn Engine] = &[CACHED, &x86::Streaming, &x86::Clzero, &x86::Repeated];
#[cfg(target_arch = "aarch64")]
static ENGINES: &[&dyn Engine] = &[CACHED, &arm::DcZva];

struct Cached;

impl Engine for Cached {
    fn name(&self) -> &'static str {
        "cached"
    }

    fn is_present(&self) -> bool {
        true
    }

    fn evicts(&self) -> bool {
        true
    }

    unsafe fn zero(&self, start: *mut u8, len: usize) {
        // SAFETY: the caller's promise.
        unsafe { start.write_bytes(0, len) };
    }
}

/// Zeroes the bytes before the first and after the last whole line with ordinary stores. Returns the lines
/// between as (start, number).
///
/// # Safety
/// As [`Engine::zero`]; `line` is a power of two.
unsafe fn edges(start: *mut u8, len: usize, line: usize) -> (*mut u8, usize) {
    let before = (start.addr().wrapping_neg() & (line - 1)).min(len);
    let lines = (len - before) / line;
    let behind = before + lines * line;
    // SAFETY: `before <= len`.
    unsafe { start.write_bytes(0, before) };
    // SAFETY: `behind <= len`.
    let rest = unsafe { start.add(behind) };
    // SAFETY: the rest of the caller's range.
    unsafe { rest.write_bytes(0, len - behind) };
    // SAFETY: `before <= len`.
    (unsafe { start.add(before) }, lines)
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::asm;
    use std::arch::x86_64::{__m128i, __m256i, _mm_setzero_si128, _mm_sfence, _mm_stream_si128};
    use std::arch::x86_64::{_mm256_setzero_si256, _mm256_stream_si256};
    use std::sync::atomic::{AtomicU8, Ordering::Relaxed};

    use super::{Engine, edges};

    /// Bytes of a cache line on every x86-64 processor so far; CLZERO zeroes one.
    const LINE: usize = 64;

    /// Non-temporal stores: of 32 bytes with AVX, else of 16 (SSE2, which every x86-64 processor has).
    pub(super) struct Streaming;

    impl Engine for Streaming {
        fn name(&self) -> &'static str {
            "non-temporal"
        }

        fn is_present(&self) -> bool {
            true
        }

        unsafe fn zero(&self, start: *mut u8, len: usize) {
            // SAFETY: forwarded.
            let (first, lines) = unsafe { edges(start, len, LINE) };
            if std::arch::is_x86_feature_detected!("avx") {
                // SAFETY: AVX is there, and the lines lie in the caller's range.
                unsafe { stream_avx(first, lines) };
            } else {
                // SAFETY: the lines lie in the caller's range.
                unsafe { stream_sse2(first, lines) };
            }
            fence();
        }
    }

    /// Non-temporal stores are unordered. Without the fence, another thread could hear of the zeroes before
    /// it sees them.
    fn fence() {
        // SAFETY: SFENCE is part of SSE, which every x86-64 processor has.
        unsafe { _mm_sfence() };
    }

    #[target_feature(enable = "avx")]
    unsafe fn stream_avx(first: *mut u8, lines: usize) {
        let zero = _mm256_setzero_si256();
        for at in 0..lines * LINE / size_of::<__m256i>() {
            // SAFETY: inside the lines, which are aligned to 64 bytes.
            let to = unsafe { first.cast::<__m256i>().add(at) };
            // SAFETY: as above; the caller allows the write.
            unsafe { _mm256_stream_si256(to, zero) };
        }
    }

    #[target_feature(enable = "sse2")]
    unsafe fn stream_sse2(first: *mut u8, lines: usize) {
        let zero = _mm_setzero_si128();
        for at in 0..lines * LINE / size_of::<__m128i>() {
            // SAFETY: inside the lines, which are aligned to 64 bytes.
            let to = unsafe { first.cast::<__m128i>().add(at) };
            // SAFETY: as above; the caller allows the write.
            unsafe { _mm_stream_si128(to, zero) };
        }
    }

    /// AMD's CLZERO (Zen and later): a line of zeroes without reading the old one.
    pub(super) struct Clzero;

    impl Engine for Clzero {
        fn name(&self) -> &'static str {
            "clzero"
        }

        fn is_present(&self) -> bool {
            static ANSWER: AtomicU8 = AtomicU8::new(0);
            if ANSWER.load(Relaxed) == 0 {
                ANSWER.store(1 + has_clzero() as u8, Relaxed);
            }
            ANSWER.load(Relaxed) == 2
        }

        unsafe fn zero(&self, start: *mut u8, len: usize) {
            // SAFETY: forwarded.
            let (first, lines) = unsafe { edges(start, len, LINE) };
            for at in 0..lines {
                // SAFETY: inside the lines.
                let line = unsafe { first.add(at * LINE) };
                // SAFETY: the processor has it (`is_present`), and the line is the caller's, who allows the write.
                unsafe { asm!("clzero", in("rax") line, options(nostack, preserves_flags)) };
            }
            fence();
        }
    }

    /// REP STOSB, with which the kernel clears a page where it is fast (ERMS, Ivy Bridge and Zen 3 on). Slow
    /// elsewhere.
    pub(super) struct Repeated;

    impl Engine for Repeated {
        fn name(&self) -> &'static str {
            "rep stosb"
        }

        fn is_present(&self) -> bool {
            true
        }

        fn evicts(&self) -> bool {
            true
        }

        unsafe fn zero(&self, start: *mut u8, len: usize) {
            // SAFETY: every x86-64 processor has it; the direction flag is clear by the ABI, and the caller allows the
            // writes.
            unsafe {
                asm!("rep stosb", inout("rdi") start => _, inout("rcx") len => _, in("al") 0_u8,
                    options(nostack, preserves_flags))
            };
        }
    }

    #[allow(unused_unsafe, reason = "__cpuid became safe after Rust 1.88")]
    fn has_clzero() -> bool {
        /// AMD64 APM volume 3, appendix E: extended feature leaf, EBX bit 0.
        const LEAF: u32 = 0x8000_0008;
        // SAFETY: every x86-64 processor has CPUID.
        let largest = unsafe { std::arch::x86_64::__cpuid(0x8000_0000) }.eax;
        // SAFETY: as above.
        largest >= LEAF && unsafe { std::arch::x86_64::__cpuid(LEAF) }.ebx & 1 != 0
    }
}

#[cfg(target_arch = "aarch64")]
mod arm {
    use std::arch::asm;

    use super::{Engine, edges};

    /// DC ZVA: a block, mostly of 64 bytes, zeroed without reading the old one.
    pub(super) struct DcZva;

    impl Engine for DcZva {
        fn name(&self) -> &'static str {
            "dc zva"
        }

        fn is_present(&self) -> bool {
            block_bytes().is_some()
        }

        unsafe fn zero(&self, start: *mut u8, len: usize) {
            let Some(block) = block_bytes() else { return };
            // SAFETY: forwarded.
            let (first, blocks) = unsafe { edges(start, len, block) };
            for at in 0..blocks {
                // SAFETY: inside the blocks.
                let line = unsafe { first.add(at * block) };
                // SAFETY: allowed here (`is_present`), and the block is the caller's, who allows the write.
                unsafe { asm!("dc zva, {}", in(reg) line, options(nostack, preserves_flags)) };
            }
        }
    }

    /// The block size of DC ZVA; `None` if it is prohibited.
    fn block_bytes() -> Option<usize> {
        const PROHIBITED: u64 = 1 << 4;
        let id: u64;
        // SAFETY: DCZID_EL0 may be read in user mode and touches no memory.
        unsafe { asm!("mrs {}, dczid_el0", out(reg) id, options(nomem, nostack, preserves_flags)) };
        (id & PROHIBITED == 0).then(|| 4 << (id & 0xf))
    }
}

#[cfg(all(test, not(miri)))]
mod tests {
    use super::*;

    #[test]
    fn every_engine_zeroes_its_range_and_nothing_else() {
        const LEN: usize = 1024;
        for engine in engines() {
            if !engine.is_present() {
                faultless_wants::missing_feature("instructions that zero", engine.name());
                continue;
            }
            for (start, len) in (0..70).flat_map(|start| [0, 1, 63, 64, 65, 200, 900].map(|len| (start, len)))
            {
                let mut bytes = [7_u8; LEN];
                // SAFETY: `start + len` is below LEN.
                let first = unsafe { bytes.as_mut_ptr().add(start) };
                // SAFETY: inside the array, which nothing else uses.
                unsafe { engine.zero(first, len) };
                let right = |at: usize| if (start..start + len).contains(&at) { 0 } else { 7 };
                assert!((0..LEN).all(|at| bytes[at] == right(at)), "{} {start} {len}", engine.name());
            }
        }
    }

    #[test]
    fn only_engines_that_are_there_are_found_by_name() {
        for engine in engines() {
            assert_eq!(Present::named(engine.name()).is_some(), engine.is_present(), "{}", engine.name());
        }
        assert!(Present::named("by hand").is_none());
    }
}
