//! Tracepoints of the kernel, as tracefs describes them.
//!
//! In: a name such as `mmap_lock/mmap_lock_start_locking`. Out: its number for [`crate::perf`], and the
//! offsets of its fields in a sample. Only root sees tracefs.
//!
//! It does not open events.

/// A tracepoint.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tracepoint {
    /// Its number.
    pub id: u32,
    /// Name and first byte of each field.
    fields: Vec<(String, usize)>,
}

impl Tracepoint {
    /// Reads its description; `None` if it does not exist, or without the right to see it.
    pub fn find(name: &str) -> Option<Self> {
        const TRACEFS: [&str; 2] = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"];
        let read = |root| std::fs::read_to_string(format!("{root}/events/{name}/format")).ok();
        Self::parse(&TRACEFS.into_iter().find_map(read)?)
    }

    /// The byte offset of the field of that name.
    pub fn offset(&self, field: &str) -> Option<usize> {
        self.fields.iter().find(|(name, _)| name == field).map(|&(_, offset)| offset)
    }

    /// Lines `ID: 7` and `field:bool write; offset:24; size:1; signed:0;`.
    fn parse(text: &str) -> Option<Self> {
        let id = text.lines().find_map(|line| line.strip_prefix("ID: "))?.trim().parse().ok()?;
        let field = |line: &str| {
            let mut parts = line.trim().strip_prefix("field:")?.split(';');
            let name = parts.next()?.split([' ', '*']).next_back()?.to_owned();
            Some((name, parts.next()?.trim().strip_prefix("offset:")?.parse().ok()?))
        };
        Some(Self { id, fields: text.lines().filter_map(field).collect() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_description_gives_number_and_places() {
        let text = "name: x\nID: 677\nformat:\n\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\n\
                    \tfield:struct mm_struct * mm;\toffset:8;\tsize:8;\tsigned:0;\n\tfield:bool write;\toffset:24;\tsize:1;\n";
        let found = Tracepoint::parse(text).unwrap();
        assert_eq!((found.id, found.offset("write"), found.offset("mm")), (677, Some(24), Some(8)));
        assert_eq!(found.offset("read"), None);
        assert_eq!(Tracepoint::parse("rubbish"), None);
    }
}
