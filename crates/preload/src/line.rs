//! Text in a fixed buffer, written with one raw write(2): no allocation, no locks.

use std::ffi::CStr;

/// A buffer for a few lines.
pub(crate) type Line = Text<{ 16 << 10 }>;

/// A text of limited length. Longer ones are cut.
pub(crate) struct Text<const BYTES: usize> {
    bytes: [u8; BYTES],
    len: usize,
}

impl<const BYTES: usize> Text<BYTES> {
    pub(crate) const fn new() -> Self {
        Self { bytes: [0; BYTES], len: 0 }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }

    #[inline(never)]
    pub(crate) fn text(&mut self, text: &[u8]) -> &mut Self {
        let room = BYTES - 1 - self.len.min(BYTES - 1);
        let free = self.bytes.iter_mut().skip(self.len);
        for (to, from) in free.zip(text.iter().take(room)) {
            *to = *from;
        }
        self.len += text.len().min(room);
        self
    }

    #[inline(never)]
    pub(crate) fn number(&mut self, value: u64) -> &mut Self {
        self.text(faultless_os::text::decimal(value, &mut [0; 20]))
    }

    /// A length in MiB with one decimal.
    #[inline(never)]
    pub(crate) fn mib(&mut self, bytes: u64) -> &mut Self {
        let tenths = bytes.saturating_mul(10) >> 20;
        self.number(tenths / 10).text(b".").number(tenths % 10).text(b" MiB")
    }

    /// The text for a system call; `None` if it may have been cut.
    pub(crate) fn c_str(&self) -> Option<&CStr> {
        // Nothing was ever written behind `len`, so a zero ends the text.
        let text = (self.len < BYTES - 1).then_some(&self.bytes)?;
        CStr::from_bytes_until_nul(text).ok()
    }

    /// Writes the text to a descriptor, with a newline at its end. Returns whether the whole text was written. Only
    /// files need the answer: a failure to write to a terminal cannot be reported anywhere else.
    #[inline(never)]
    pub(crate) fn write_to(&mut self, descriptor: i32) -> bool {
        let last = self.len.checked_sub(1).and_then(|last| self.bytes.get(last));
        let is_ended = last == Some(&b'\n');
        if let Some(end) = self.bytes.get_mut(self.len) {
            *end = b'\n';
        }
        let len = self.len + !is_ended as usize;
        // SAFETY: the first `len` bytes of the buffer are initialised, and `self.len` is below its length.
        let written = unsafe { libc::write(descriptor, self.bytes.as_ptr().cast(), len) };
        usize::try_from(written) == Ok(len)
    }
}

impl<const BYTES: usize> std::fmt::Write for Text<BYTES> {
    fn write_str(&mut self, text: &str) -> std::fmt::Result {
        self.text(text.as_bytes());
        Ok(())
    }
}
