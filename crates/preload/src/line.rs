//! Text on the stack, written with one raw write(2): no allocation, no locks, no formatting machinery.

/// Longer texts are cut.
const LINE_BYTES: usize = 8 << 10;

/// One or more lines being put together.
pub(crate) struct Line {
    bytes: [u8; LINE_BYTES],
    len: usize,
}

impl Line {
    pub(crate) const fn new() -> Self {
        Self { bytes: [0; LINE_BYTES], len: 0 }
    }

    pub(crate) fn text(&mut self, text: &[u8]) -> &mut Self {
        let room = LINE_BYTES - 1 - self.len.min(LINE_BYTES - 1);
        let free = self.bytes.iter_mut().skip(self.len);
        for (to, from) in free.zip(text.iter().take(room)) {
            *to = *from;
        }
        self.len += text.len().min(room);
        self
    }

    pub(crate) fn number(&mut self, mut value: u64) -> &mut Self {
        let mut digits = [0_u8; 20];
        let mut used = 0;
        for digit in digits.iter_mut().rev() {
            *digit = b'0' + (value % 10) as u8;
            value /= 10;
            used += 1;
            if value == 0 {
                break;
            }
        }
        let text = digits.get(digits.len().saturating_sub(used)..).unwrap_or(&[]);
        self.text(text)
    }

    /// A length in MiB with one decimal.
    pub(crate) fn mib(&mut self, bytes: u64) -> &mut Self {
        let tenths = bytes.saturating_mul(10) >> 20;
        self.number(tenths / 10).text(b".").number(tenths % 10).text(b" MiB")
    }

    /// A name between quotes, as JSON and OpenMetrics want it; what is not printable ASCII becomes a question mark.
    pub(crate) fn quoted(&mut self, name: &[u8]) -> &mut Self {
        self.text(b"\"");
        for &byte in name {
            match byte {
                b'"' | b'\\' => self.text(b"\\").text(&[byte]),
                b' '..=b'~' => self.text(&[byte]),
                _ => self.text(b"?"),
            };
        }
        self.text(b"\"")
    }

    /// Writes the text and the end of its last line to a descriptor; errors are ignored, there is nobody to tell.
    pub(crate) fn write_to(&mut self, descriptor: i32) {
        if let Some(end) = self.bytes.get_mut(self.len) {
            *end = b'\n';
        }
        // SAFETY: the first `len + 1` bytes of the buffer are initialised, and `len` is below its length.
        unsafe { libc::write(descriptor, self.bytes.as_ptr().cast(), self.len + 1) };
    }
}
