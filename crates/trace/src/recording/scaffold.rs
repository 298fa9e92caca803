//! Stacks -> the frames that say something about the program.
//!
//! Folded away: how the C library, Rust and C++ start a program or a thread; their standard libraries; how
//! interpreters call one function from another and import modules; wrappers of malloc. Their faults stay with the frames that
//! remain, so every total is the same with and without them. A stack of nothing else keeps its leaf.

use super::touching::{is_allocator, is_import, is_of_library, is_runtime};
use super::{Frame, Name, Stacks};

/// Whole names: how the C library and C++ start a program and a thread.
const STARTS: [&str; 12] = [
    "_start",
    "__libc_start_main",
    "__libc_start_main_impl",
    "__libc_start_call_main",
    "__libc_init_first",
    "_dl_start_user",
    "start_thread",
    "clone",
    "clone3",
    "__clone",
    "__clone3",
    "execute_native_thread_routine",
];
/// Beginnings of names: how interpreters call.
const INTERPRETERS: [&str; 46] = [
    // CPython.
    "_PyEval_",
    "PyEval_",
    "_PyFunction_",
    "_PyObject_Call",
    "_PyObject_FastCall",
    "_PyObject_MakeTpCall",
    "_PyObject_Vectorcall",
    "PyObject_Call",
    "PyObject_Vectorcall",
    "_PyVectorcall_",
    "PyVectorcall_",
    "_PyCFunction_",
    "cfunction_",
    "method_vectorcall",
    "builtin_exec",
    "function_code_fastcall",
    "call_function",
    "object_vacall",
    "vectorcall_",
    "slot_tp_call",
    "py_trampoline_evaluator",
    "PyImport_Import",
    "import_name",
    "import_find_and_load",
    "_PyRun_",
    "PyRun_",
    "run_mod",
    "run_eval_code_obj",
    "pyrun_",
    "pymain_",
    "Py_RunMain",
    "Py_BytesMain",
    "Py_Main",
    // V8 and Node.
    "Builtins_JSEntry",
    "Builtins_InterpreterEntryTrampoline",
    "v8::internal::Execution::",
    "v8::internal::(anonymous namespace)::Invoke",
    "v8::Function::Call",
    "node::Start",
    "node::LoadEnvironment",
    // HotSpot.
    "JavaCalls::",
    "JavaMain",
    "JavaThread::",
    "Thread::call_run",
    "ThreadJavaMain",
    "thread_native_entry",
];

/// A frame, or an inlined function of one.
pub type Shown<'a> = (&'a Frame, Option<&'a Name>);

impl Stacks {
    /// The functions of a stack, leaf first; a frame without any stands for itself. `whole`: all of them.
    pub fn shown(&self, stack: u32, whole: bool) -> Vec<Shown<'_>> {
        let mut all: Vec<Shown<'_>> = Vec::new();
        for frame in self.frames_of(stack) {
            all.extend(frame.names.iter().map(|name| (frame, Some(name))));
            if frame.names.is_empty() {
                all.push((frame, None));
            }
        }
        if whole {
            return all;
        }
        let mut kept: Vec<Shown<'_>> =
            all.iter().copied().filter(|(_, name)| !name.is_some_and(is_scaffold)).collect();
        // Unnamed code of the C library at the root is how it starts the program.
        let is_start = |shown: &Shown<'_>| {
            shown.1.is_none() && self.module(shown.0).is_some_and(|module| is_runtime(module.short_name()))
        };
        while kept.last().is_some_and(is_start) {
            kept.pop();
        }
        if kept.is_empty() { all.into_iter().take(1).collect() } else { kept }
    }

    /// The label of a function, or of a frame without one, for a reader.
    pub fn label(&self, (frame, name): Shown<'_>) -> String {
        name.map_or_else(|| self.place(frame), |name| name.function.clone())
    }
}

/// Whether a function only starts or calls others, is of a standard library, or wraps malloc.
fn is_scaffold(name: &Name) -> bool {
    let function = name.function.as_str();
    let bare = function.split('@').next().unwrap_or(function);
    let path = function.trim_start_matches('<');
    STARTS.contains(&bare)
        || function.starts_with("__rust_")
        || INTERPRETERS.iter().any(|begin| path.starts_with(begin))
        || is_import(name)
        || is_of_library(name)
        || is_allocator(function)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recording::Module;

    fn labels(frames: &[(u32, &[&str])], whole: bool) -> Vec<String> {
        let module = |path: &str| Module { path: path.to_owned(), ..Module::default() };
        let name = |function: &&str| Name { function: (*function).to_owned(), ..Name::default() };
        let stacks = Stacks {
            modules: ["/usr/bin/program", "/lib/libc.so.6"].map(module).to_vec(),
            frames: frames
                .iter()
                .map(|(module, names)| Frame {
                    module: Some(*module),
                    address: 0x10,
                    names: names.iter().map(name).collect(),
                })
                .collect(),
            stacks: vec![(0..frames.len() as u32).collect()],
        };
        stacks.shown(0, whole).into_iter().map(|shown| stacks.label(shown)).collect()
    }

    #[test]
    fn how_a_runtime_starts_and_calls_is_folded_away() {
        let rust: &[(u32, &[&str])] = &[
            (0, &["fill", "work::main"]),
            (
                0,
                &[
                    "alloc::vec::Vec<T>::push",
                    "<fn() as core::ops::function::FnOnce<()>>::call_once",
                    "std::rt::lang_start::{closure#0}",
                ],
            ),
            (0, &["core::ops::function::FnOnce::call_once", "std::panic::catch_unwind::<i32, ()>"]),
            (0, &["main"]),
            (1, &[]),
            (1, &["__libc_start_main@@GLIBC_2.34"]),
            (0, &["_start"]),
        ];
        assert_eq!(labels(rust, false)[..2], ["fill", "work::main"]);
        assert!(labels(rust, false).iter().all(|label| !label.contains("catch_unwind")));
        assert_eq!(labels(rust, true).len(), 11);
        assert_eq!(labels(&[(0, &["fill"]), (0, &["main"]), (1, &[]), (1, &[])], false), ["fill", "main"]);
    }

    #[test]
    fn interpreters_and_wrappers_of_malloc_are_folded_away_and_functions_stay() {
        let python: &[(u32, &[&str])] = &[
            (0, &["_PyObject_Malloc"]),
            (0, &["PyList_Append"]),
            (0, &["_PyEval_EvalFrameDefault"]),
            (0, &["py::rows:/srv/a.py"]),
            (0, &["py_trampoline_evaluator"]),
            (0, &["pymain_run_python.constprop.0"]),
        ];
        assert_eq!(labels(python, false), ["PyList_Append", "py::rows:/srv/a.py"]);
    }

    #[test]
    fn a_stack_of_nothing_else_keeps_its_leaf() {
        assert_eq!(labels(&[(1, &["start_thread"]), (1, &["clone3"])], false), ["start_thread"]);
        assert_eq!(labels(&[(1, &[]), (1, &[])], false), ["libc.so.6+0x10"]);
    }
}
