//! Records of system calls that change the address space, from their begin and their end.
//!
//! In: the tracepoints of all system calls (root only), filtered by number; a stack for each begin. Out:
//! [`What::Call`] with the time that the call took, waits included.
//!
//! It sees no call of a 32-bit program.

use std::ffi::CString;

use faultless_os::filter::Filter;
use faultless_os::syscall;
use faultless_os::tracepoint::Tracepoint;
use faultless_trace::observation::{Call, Record, What};
use rustc_hash::FxHashMap;

/// The tracepoints of system calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Points {
    pub(crate) begin: u32,
    pub(crate) end: u32,
    /// Byte offsets in their fields: of the number and the arguments, and of the result.
    pub(crate) fields: Fields,
}

/// Where the fields of the two tracepoints begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fields {
    number_at: usize,
    args_at: usize,
    result_at: usize,
}

/// The numbers of the recorded calls here.
fn numbers() -> impl Iterator<Item = i64> {
    Call::NAMES.iter().filter_map(|(name, _)| syscall::number(name))
}

/// Stops a program at them.
pub(crate) fn filter() -> Filter {
    Filter::new(numbers())
}

impl Points {
    /// Finds them (CONFIG_FTRACE_SYSCALLS, root).
    pub(crate) fn find() -> Option<Self> {
        let begin = Tracepoint::find("raw_syscalls/sys_enter")?;
        let end = Tracepoint::find("raw_syscalls/sys_exit")?;
        let fields = Fields {
            number_at: begin.offset("id")?,
            args_at: begin.offset("args[6]")?,
            result_at: end.offset("ret")?,
        };
        Some(Self { begin: begin.id, end: end.id, fields })
    }

    /// The expression that lets only recorded calls pass.
    pub(crate) fn filter() -> CString {
        let terms: Vec<String> = numbers().map(|number| format!("id=={number}")).collect();
        CString::new(terms.join("||")).unwrap_or_default()
    }
}

impl Fields {
    /// The call that begins.
    pub(crate) fn begin(self, fields: &[u8]) -> Option<What> {
        let word = |at: usize| Some(u64::from_ne_bytes(fields.get(at..at + 8)?.try_into().ok()?));
        let call = Call::of(syscall::name(word(self.number_at)? as i64)?)?;
        let arg = |index: usize| word(self.args_at + 8 * index);
        let args = [arg(0)?, arg(1)?, arg(2)?, arg(3)?];
        Some(What::Call { call, args, result: None, ns: None, off_ns: 0, stack: None })
    }

    /// The end of a call: only its result is known. [`Begun::end`] knows the rest.
    pub(crate) fn end(self, fields: &[u8]) -> Option<What> {
        let result = i64::from_ne_bytes(fields.get(self.result_at..self.result_at + 8)?.try_into().ok()?);
        let (call, args) = (Call::ExitGroup, [0; 4]);
        Some(What::Call { call, args, result: Some(result), ns: None, off_ns: 0, stack: None })
    }
}

/// Calls that have begun, by thread.
#[derive(Debug, Default)]
pub(crate) struct Begun(FxHashMap<u32, Open>);

#[derive(Debug)]
struct Open {
    record: Record,
    /// Since when the thread is off its processor.
    off_since_ns: Option<u64>,
    off_ns: u64,
}

impl Begun {
    /// A call begins. One that never ended is given back: its end was lost.
    pub(crate) fn begin(&mut self, record: Record) -> Option<Record> {
        let open = Open { record, off_since_ns: None, off_ns: 0 };
        self.0.insert(open.record.tid, open).map(|open| open.record)
    }

    /// The thread gives its processor up, or gets one.
    pub(crate) fn switch(&mut self, tid: u32, time_ns: u64, out: bool) {
        let Some(open) = self.0.get_mut(&tid) else { return };
        match open.off_since_ns.take() {
            _ if out => open.off_since_ns = Some(time_ns),
            Some(since_ns) => open.off_ns += time_ns.saturating_sub(since_ns),
            None => {}
        }
    }

    /// The thread's call ends, or the thread does.
    pub(crate) fn end(&mut self, end: Record) -> Option<Record> {
        let Open { mut record, off_ns: was_off_ns, .. } = self.0.remove(&end.tid)?;
        let took_ns = end.time_ns.checked_sub(record.time_ns);
        if let What::Call { result, ns, off_ns, .. } = &mut record.what {
            (*ns, *off_ns) = (took_ns, was_off_ns);
            if let What::Call { result: returned, .. } = end.what {
                *result = returned;
            }
        }
        Some(record)
    }

    /// Those that have not ended.
    pub(crate) fn into_open(self) -> impl Iterator<Item = Record> {
        self.0.into_values().map(|open| open.record)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIELDS: Fields = Fields { number_at: 8, args_at: 16, result_at: 16 };

    fn fields(words: &[i64]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_ne_bytes()).collect()
    }

    #[test]
    fn a_call_has_its_arguments_its_result_and_its_time() {
        let number = syscall::number("munmap").unwrap();
        let what = FIELDS.begin(&fields(&[0, number, 4096, 8192, 3, 4, 5, 6])).unwrap();
        let call = |result, ns, off_ns| What::Call {
            call: Call::Munmap,
            args: [4096, 8192, 3, 4],
            result,
            ns,
            off_ns,
            stack: None,
        };
        assert_eq!(what, call(None, None, 0));
        let mut begun = Begun::default();
        assert_eq!(begun.begin(Record { time_ns: 10, pid: 1, tid: 2, what }), None);
        [(12, true), (20, false)].into_iter().for_each(|(time_ns, out)| begun.switch(2, time_ns, out));
        let end =
            Record { time_ns: 35, pid: 1, tid: 2, what: FIELDS.end(&fields(&[0, number, -22])).unwrap() };
        let record = begun.end(end.clone()).unwrap();
        assert_eq!((record.time_ns, record.what), (10, call(Some(-22), Some(25), 8)));
        assert_eq!(begun.end(end), None);
    }

    #[test]
    fn only_recorded_calls_pass_the_filter() {
        let filter = Points::filter().into_string().unwrap();
        assert!(filter.contains(&format!("id=={}||", syscall::number("mmap").unwrap())), "{filter}");
        assert_eq!(FIELDS.begin(&fields(&[0, syscall::number("read").unwrap(), 0, 0, 0, 0, 0, 0])), None);
        assert_eq!(FIELDS.begin(&[0; 16]), None, "cut");
    }
}
