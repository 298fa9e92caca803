//! The rest of a stack that was copied only in part, as the process has it now.
//!
//! In: the copy, and the stack pointer in the last caller found. Out: the memory above the copy, if this caller
//! is still in the same call. Then all its callers are the same too.
//!
//! The call counts as the same if all that was copied of its frame is unchanged. Less is no proof: the frames
//! in which an interpreter runs two functions differ in a few words.
//!
//! It does not restore what has changed, or read a process that is gone or denies access.

use std::sync::Arc;

use faultless_os::process_memory;

use super::UserStack;
use crate::tuning as t;

/// Stacks as they are now, cached for one poll of the rings.
#[derive(Debug, Default)]
pub(super) struct StackReader {
    pieces: Vec<Piece>,
    /// What a piece is read into.
    buffer: Vec<u8>,
}

#[derive(Debug)]
struct Piece {
    pid: u32,
    begin: u64,
    bytes: Arc<[u8]>,
}

impl Piece {
    fn get(&self, address: u64, len: usize) -> Option<&[u8]> {
        let offset = usize::try_from(address.checked_sub(self.begin)?).ok()?;
        self.bytes.get(offset..offset.checked_add(len)?)
    }
}

/// A stack: the copy and what was read above it.
pub(super) struct Memory<'a> {
    pub(super) stack: &'a UserStack<'a>,
    /// Its rest: memory, and where in it the copy begins.
    pub(super) rest: Option<(Arc<[u8]>, usize)>,
    /// An unknown word was asked for.
    pub(super) missed: bool,
}

impl Memory<'_> {
    /// A word of it.
    pub(super) fn word(&mut self, address: u64) -> Option<u64> {
        let word = self.find(address);
        self.missed |= word.is_none();
        word
    }

    fn find(&self, address: u64) -> Option<u64> {
        let dump = self.stack.dump;
        let offset = usize::try_from(address.checked_sub(self.stack.sp)?).ok()?;
        let rest = || {
            let (bytes, begin) = self.rest.as_ref()?;
            bytes.get(begin.checked_add(offset)?..)?.first_chunk()
        };
        let bytes = dump.get(offset..).and_then(<[u8]>::first_chunk).or_else(rest)?;
        Some(u64::from_ne_bytes(*bytes))
    }
}

impl StackReader {
    /// Forgets everything: time has passed.
    pub(super) fn forget(&mut self) {
        self.pieces.clear();
    }

    /// Memory that reaches beyond the copy, and where in it the copy begins. `known`: the stack pointer in the last
    /// caller found.
    pub(super) fn rest(&mut self, pid: u32, stack: &UserStack<'_>, known: u64) -> Option<(Arc<[u8]>, usize)> {
        let len = stack.dump.len();
        let frame = usize::try_from(known.checked_sub(stack.sp)?).ok()?;
        // With the return address into it, and at least so many bytes. The walk reads whole words.
        let copied = stack.dump.get(frame.checked_sub(8)?.min(len.checked_sub(t::STACK_SAME_BYTES)?)..)?;
        let end = stack.sp.checked_add(len as u64).filter(|_| len.is_multiple_of(8))?;
        let piece = self.piece(pid, stack.sp, end)?;
        let is_same = piece.get(end - copied.len() as u64, copied.len()) == Some(copied);
        let begin = usize::try_from(stack.sp.checked_sub(piece.begin)?).ok()?;
        is_same.then(|| (piece.bytes.clone(), begin))
    }

    fn piece(&mut self, pid: u32, sp: u64, end: u64) -> Option<&Piece> {
        let holds = |piece: &Piece| {
            piece.pid == pid
                && piece.begin <= sp
                && end < piece.begin.saturating_add(piece.bytes.len() as u64)
        };
        if let Some(at) = self.pieces.iter().position(holds) {
            return self.pieces.get(at);
        }
        if self.pieces.len() >= t::STACK_RESTS_MAX {
            return None;
        }
        // A failed read is cached as well, so that it is not repeated for each sample.
        self.buffer.resize(t::STACK_REST_BYTES, 0);
        let len = process_memory::read(pid as i32, sp, &mut self.buffer).unwrap_or(0);
        self.pieces.push(Piece { pid, begin: sp, bytes: self.buffer[..len].into() });
        self.pieces.last().filter(|piece| holds(piece))
    }
}
