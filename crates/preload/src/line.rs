//! Text on the stack, written with one raw write(2): no allocation, no locks.

/// Longer texts are cut.
const LINE_BYTES: usize = 16 << 10;

/// One or more lines being put together.
pub(crate) struct Line {
    bytes: [u8; LINE_BYTES],
    len: usize,
}

impl Line {
    pub(crate) const fn new() -> Self {
        Self { bytes: [0; LINE_BYTES], len: 0 }
    }

    #[inline(never)]
    pub(crate) fn text(&mut self, text: &[u8]) -> &mut Self {
        let room = LINE_BYTES - 1 - self.len.min(LINE_BYTES - 1);
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

    /// Writes the text, and the end of its last line if it has none, to a descriptor; errors are ignored, there is nobody to tell.
    #[inline(never)]
    pub(crate) fn write_to(&mut self, descriptor: i32) {
        let last = self.len.checked_sub(1).and_then(|last| self.bytes.get(last));
        let is_ended = last == Some(&b'\n');
        if let Some(end) = self.bytes.get_mut(self.len) {
            *end = b'\n';
        }
        let len = self.len + !is_ended as usize;
        // SAFETY: the first `len` bytes of the buffer are initialised, and `self.len` is below its length.
        unsafe { libc::write(descriptor, self.bytes.as_ptr().cast(), len) };
    }
}

impl std::fmt::Write for Line {
    fn write_str(&mut self, text: &str) -> std::fmt::Result {
        self.text(text.as_bytes());
        Ok(())
    }
}
