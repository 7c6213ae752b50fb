//! The layout of a tracepoint's records, from its file `format` in tracefs.

use std::ops::Range;

/// The place of a number in a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Field(Range<usize>);

impl Field {
    /// Returns the number in `record`, which has the byte order of this machine. `None`: the record is too short.
    pub(super) fn read(&self, record: &[u8]) -> Option<u64> {
        let bytes = record.get(self.0.clone())?;
        let number = match bytes.len() {
            1 => u64::from(bytes[0]),
            2 => u64::from(u16::from_ne_bytes(bytes.try_into().ok()?)),
            4 => u64::from(u32::from_ne_bytes(bytes.try_into().ok()?)),
            _ => u64::from_ne_bytes(bytes.try_into().ok()?),
        };
        Some(number)
    }
}

/// The layout of a tracepoint.
#[derive(Clone, Debug)]
pub(super) struct Layout {
    /// Number of the tracepoint, with which its records begin.
    pub(super) id: u64,
    fields: Vec<(String, Field)>,
}

impl Layout {
    /// Parses a file `format`. `None`: the file is not as the kernel writes it (`__print_event_fields`,
    /// kernel/trace/trace_events.c, v7.2).
    pub(super) fn parse(text: &str) -> Option<Layout> {
        let id = text.lines().find_map(|line| line.strip_prefix("ID:"))?.trim().parse().ok()?;
        let fields = text.lines().filter_map(field).collect();
        Some(Layout { id, fields })
    }

    /// Returns the place of a field with 1, 2, 4 or 8 bytes.
    pub(super) fn field(&self, name: &str) -> Option<Field> {
        let field = self.fields.iter().find(|(known, _)| known == name).map(|(_, field)| field.clone())?;
        matches!(field.0.len(), 1 | 2 | 4 | 8).then_some(field)
    }
}

/// Parses a line such as `field:pid_t prev_pid; offset:24; size:4; signed:1;`, with tabs between the parts.
fn field(line: &str) -> Option<(String, Field)> {
    let mut parts = line.trim().split(';').map(str::trim);
    let declared = parts.next()?.strip_prefix("field:")?;
    let name = declared.rsplit(' ').next()?.trim_start_matches('*');
    let mut number = |key: &str| parts.next()?.strip_prefix(key)?.parse::<usize>().ok();
    let (offset, size) = (number("offset:")?, number("size:")?);
    Some((name.to_string(), Field(offset..offset.checked_add(size)?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const FORMAT: &str = "name: sched_waking
ID: 318
format:
\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;
\tfield:unsigned char common_flags;\toffset:2;\tsize:1;\tsigned:0;
\tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;

\tfield:char comm[16];\toffset:8;\tsize:16;\tsigned:0;
\tfield:pid_t pid;\toffset:24;\tsize:4;\tsigned:1;
\tfield:void * timer;\toffset:32;\tsize:8;\tsigned:0;

print fmt: \"comm=%s pid=%d\", REC->comm, REC->pid
";

    #[test]
    fn the_fields_of_a_tracepoint_are_found_by_name() {
        let layout = Layout::parse(FORMAT).unwrap();
        let field = |name| layout.field(name);
        assert_eq!(layout.id, 318);
        assert_eq!(field("pid"), Some(Field(24..28)));
        assert_eq!(field("common_flags"), Some(Field(2..3)));
        assert_eq!(field("timer"), Some(Field(32..40)));
        assert_eq!((field("comm[16]"), field("prio")), (None, None));
        assert!(Layout::parse("name: sched_waking\nformat:\n").is_none());
    }

    #[test]
    fn numbers_are_read_within_the_record() {
        let mut record = [0; 12];
        record[4..8].copy_from_slice(&77_u32.to_ne_bytes());
        assert_eq!(Field(4..8).read(&record), Some(77));
        assert_eq!(Field(2..4).read(&record), Some(0));
        assert_eq!(Field(8..16).read(&record), None);
    }
}
