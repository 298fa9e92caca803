//! No thread makes a system call under the pool's lock: while one is in the kernel, another is served.
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use faultless_pool::tuning::{SLAB_BYTES, STEP_SLABS};
use faultless_pool::{
    Backend, Kernel, Memory, Moved, Page, Policy, Pool, Prefault, Reserved, Residency, Result, Retain, Slab,
    Span, Table,
};

use crate::all_are;

const BLOCK: usize = 640 << 10;
/// The longest that any thread should have to wait.
const LONG: Duration = Duration::from_secs(300);

/// A gate at which a call waits until another thread has used the pool.
struct Gate {
    armed: AtomicBool,
    asks: mpsc::SyncSender<&'static str>,
    answers: Mutex<mpsc::Receiver<()>>,
}

/// The kernel, except that the first call after the gate was armed waits at the gate.
struct Slow {
    kernel: Kernel,
    gate: Arc<Gate>,
}

impl Slow {
    fn wait(&self, call: &'static str) {
        if self.gate.armed.swap(false, SeqCst) {
            self.gate.asks.send(call).unwrap();
            let answered = self.gate.answers.lock().unwrap().recv_timeout(LONG);
            assert!(answered.is_ok(), "another thread waited for {call}");
        }
    }
}

impl Backend for Slow {
    type Slabs = Table<Slab>;
    type Words = Table<u64>;
    type Blocks = Table<AtomicU32>;
    type Slots = Table<AtomicU64>;

    fn reserve(&self, page: Page) -> Result<Reserved<Self>> {
        let Reserved { len, base, slabs, words, blocks, slots } = self.kernel.reserve(page)?;
        Ok(Reserved { len, base, slabs, words, blocks, slots })
    }

    fn addresses_are_free(&self) -> bool {
        self.kernel.addresses_are_free()
    }

    fn extend(&self, from: usize, to: usize) -> Result<()> {
        self.wait("extend");
        self.kernel.extend(from, to)
    }

    fn populate(&self, span: Span) -> Result<()> {
        self.wait("populate");
        self.kernel.populate(span)
    }

    fn resident_bytes(&self, span: Span) -> usize {
        self.kernel.resident_bytes(span)
    }

    fn residency(&self, span: Span) -> Residency {
        self.kernel.residency(span)
    }

    fn zero(&self, span: Span) {
        self.wait("zero");
        self.kernel.zero(span);
    }

    fn relocate(&self, from: Span, to: usize, by_pages: bool) -> Moved {
        self.wait("relocate");
        self.kernel.relocate(from, to, by_pages)
    }

    fn purge(&self, span: Span) -> Result<()> {
        self.wait("purge");
        self.kernel.purge(span)
    }

    fn withhold(&self, span: Span) -> Result<()> {
        self.kernel.withhold(span)
    }

    fn share(&self, span: Span) -> Result<()> {
        self.kernel.share(span)
    }

    fn renew(&self, span: Span) -> Result<()> {
        self.kernel.renew(span)
    }

    fn cut(&self, slabs: usize) {
        self.wait("cut");
        self.kernel.cut(slabs);
    }

    fn release(&self) {
        self.kernel.release();
    }

    fn now(&self) -> u64 {
        self.kernel.now()
    }
}

// SAFETY: every call is the kernel's.
unsafe impl Memory for Slow {
    fn pointer(&self, offset: usize) -> NonNull<u8> {
        self.kernel.pointer(offset)
    }
}

/// Runs `work` in a thread, and uses the pool from this one while that thread is in the backend. Returns the waiting
/// call.
fn interrupted(policy: Policy, work: impl FnOnce(&Pool<Slow>) + Send) -> &'static str {
    let (asks, asked) = mpsc::sync_channel(1);
    let (answer, answers) = mpsc::channel();
    let gate = Arc::new(Gate { armed: false.into(), asks, answers: Mutex::new(answers) });
    let pool = Pool::open(Slow { kernel: Kernel::default(), gate: gate.clone() }, policy).unwrap();
    let _first = pool.alloc(BLOCK).unwrap();
    gate.armed.store(true, SeqCst);
    std::thread::scope(|scope| {
        scope.spawn(|| work(&pool));
        let call = asked.recv_timeout(LONG).expect("the backend is called");
        drop(pool.alloc(BLOCK).unwrap());
        answer.send(()).unwrap();
        call
    })
}

#[test]
fn nobody_waits_while_pages_are_given_back() {
    let policy = Policy { retain: Retain { bytes: 0, ..Retain::default() }, ..Policy::default() };
    assert_eq!(interrupted(policy, |pool| drop(pool.alloc(BLOCK).unwrap())), "purge");
}

#[test]
fn nobody_waits_while_the_range_is_extended() {
    let call = interrupted(Policy::default(), |pool| drop(pool.alloc(STEP_SLABS * SLAB_BYTES).unwrap()));
    assert_eq!(call, "extend");
}

#[test]
fn nobody_waits_while_a_block_is_populated() {
    let policy = Policy { prefault: Prefault::Populate, ..Policy::default() };
    assert_eq!(interrupted(policy, |pool| drop(pool.alloc(BLOCK).unwrap())), "populate");
}

#[test]
fn nobody_waits_while_a_block_is_zeroed() {
    let call = interrupted(Policy::default(), |pool| {
        pool.alloc(BLOCK).unwrap().fill(7);
        let zeroed = pool.alloc_zeroed(BLOCK).unwrap();
        assert!(all_are(&zeroed, 0));
    });
    assert_eq!(call, "zero");
}

#[test]
fn nobody_waits_while_a_block_moves() {
    let call = interrupted(Policy::default(), |pool| {
        let mut block = pool.alloc(BLOCK).unwrap();
        block[BLOCK - 1] = 7;
        let _behind = pool.alloc(BLOCK).unwrap();
        assert!(block.resize(4 * BLOCK));
        assert_eq!(block[BLOCK - 1], 7);
    });
    assert_eq!(call, "relocate");
}
