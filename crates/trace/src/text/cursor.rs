//! [`Cursor`]: reads one line, field by field, from left to right.

use crate::{MACHINES_MAX, MachineId};
use sched::id::{CPUS_MAX, ENTITIES_MAX};
use sched::{
    Alarm, AlarmOwner, Class, CpuId, CpuSet, EntityId, GroupId, GroupParams, Held, Instant, Limit, Nanos, Params,
    Quota, Reservation, RtPriority, Wake, Warp, Weight,
};

/// An error in a line.
#[derive(Debug)]
pub(super) struct Wrong {
    /// Byte offset of the error.
    pub(super) at: usize,
    pub(super) reason: String,
    /// Remedy, as an imperative.
    pub(super) help: String,
}

/// A position in a line.
#[derive(Debug)]
pub(super) struct Cursor<'a> {
    line: &'a str,
    at: usize,
}

/// A word of a line.
#[derive(Clone, Copy, Debug)]
struct Word<'a> {
    text: &'a str,
    at: usize,
}

impl Word<'_> {
    fn wrong(&self, reason: &str, help: impl Into<String>) -> Wrong {
        Wrong { at: self.at, reason: format!("{} {reason}", quote(self.text)), help: help.into() }
    }

    fn number<T: TryFrom<u64>>(&self, most: u64) -> Result<T, Wrong> {
        let help = || format!("use a whole number from 0 to {most}");
        if self.text.is_empty() || !self.text.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(self.wrong("is not a number", help()));
        }
        let number = self.text.parse().ok().filter(|&number: &u64| number <= most);
        number.and_then(|number| T::try_from(number).ok()).ok_or_else(|| self.wrong("is too large", help()))
    }

    fn instant(&self) -> Result<Instant, Wrong> {
        if self.text == "never" { Ok(Instant::NEVER) } else { self.number(u64::MAX).map(Instant::at_ns) }
    }

    /// Reads a value, or `none`.
    fn or_none<T>(self, read: impl FnOnce(Self) -> Result<T, Wrong>) -> Result<Option<T>, Wrong> {
        if self.text == "none" { Ok(None) } else { read(self).map(Some) }
    }

    /// Reads two durations, joined by a slash.
    fn spans(&self, example: &str) -> Result<(Nanos, Nanos), Wrong> {
        let Some((left, right)) = self.text.split_once('/') else {
            return Err(self.wrong("is not two spans in nanoseconds", format!("use `{example}` or `none`")));
        };
        let span = |text, at| Word { text, at }.number(u64::MAX).map(Nanos::ns);
        Ok((span(left, self.at)?, span(right, self.at + left.len() + 1)?))
    }

    fn span(&self) -> Result<Nanos, Wrong> {
        self.number(u64::MAX).map(Nanos::ns)
    }

    /// Reads three durations, joined by slashes.
    fn warp(&self) -> Result<Warp, Wrong> {
        let wrong = || self.wrong("is not three spans in nanoseconds", "use `20000000/0/0` or `none`");
        let (by, rest) = self.text.split_once('/').ok_or_else(wrong)?;
        let behind = Word { text: rest, at: self.at + by.len() + 1 };
        let (limit, rest) = behind.spans("20000000/0/0")?;
        Ok(Warp { by: Word { text: by, at: self.at }.span()?, limit, rest })
    }

    /// Reads an id: `letter`, an index, and an optional generation after a dot.
    fn id(&self, letter: char) -> Result<(u32, u32), Wrong> {
        let Some(rest) = self.text.strip_prefix(letter) else {
            return Err(
                self.wrong("is not such an id", format!("use `{letter}0`, or `{letter}0.1` for its second user"))
            );
        };
        let (index, generation) = rest.split_once('.').unwrap_or((rest, "0"));
        let after_letter = self.at + letter.len_utf8();
        let index: u32 = Word { text: index, at: after_letter }.number(INDEX_MOST)?;
        let after_dot = after_letter + rest.len() - generation.len().min(rest.len());
        Ok((index, Word { text: generation, at: after_dot }.number(GENERATION_MOST)?))
    }

    fn entity(&self) -> Result<EntityId, Wrong> {
        self.id('e').map(|(index, generation)| EntityId::new(index, generation))
    }

    fn group(&self) -> Result<GroupId, Wrong> {
        self.id('g').map(|(index, generation)| GroupId::new(index, generation))
    }

    fn machine(&self) -> Result<MachineId, Wrong> {
        let Some(rest) = self.text.strip_prefix('m') else {
            return Err(self.wrong("is not a machine", "use an id like `m0`"));
        };
        Word { text: rest, at: self.at + 1 }.number(MACHINES_MAX as u64 - 1).map(MachineId)
    }

    fn cpu(&self) -> Result<CpuId, Wrong> {
        self.number(CPUS_MAX as u64 - 1).map(CpuId::new)
    }
}

/// Maximum index of an id. Machines assign no larger index. A table with an entry per index fits in memory.
const INDEX_MOST: u64 = ENTITIES_MAX as u64 - 1;
/// Maximum generation of an id.
const GENERATION_MOST: u64 = u32::MAX as u64 - 1;

/// Returns the first characters of `text` in backticks, for an error message.
pub(super) fn quote(text: &str) -> String {
    const MOST: usize = 40;
    match text.char_indices().nth(MOST) {
        Some((cut, _)) => format!("`{}…`", text[..cut].escape_debug()),
        None => format!("`{}`", text.escape_debug()),
    }
}

impl<'a> Cursor<'a> {
    pub(super) fn new(line: &'a str) -> Cursor<'a> {
        Cursor { line, at: 0 }
    }

    fn skip_spaces(&mut self) {
        let rest = &self.line[self.at..];
        self.at += rest.len() - rest.trim_start_matches(' ').len();
    }

    /// Reads the next word, which is empty at the end of the line.
    fn word(&mut self) -> Word<'a> {
        self.skip_spaces();
        let rest = &self.line[self.at..];
        let text = &rest[..rest.find(' ').unwrap_or(rest.len())];
        let word = Word { text, at: self.at };
        self.at += text.len();
        word
    }

    /// Reads the value of the next word, which must begin with `key` and `=`.
    fn field(&mut self, key: &str) -> Result<Word<'a>, Wrong> {
        let word = self.word();
        match word.text.strip_prefix(key).and_then(|rest| rest.strip_prefix('=')) {
            Some(text) => Ok(Word { text, at: word.at + key.len() + 1 }),
            None => Err(word.missing(&format!("add the field `{key}=`"))),
        }
    }

    pub(super) fn number<T: TryFrom<u64>>(&mut self, key: &str, most: u64) -> Result<T, Wrong> {
        self.field(key)?.number(most)
    }

    pub(super) fn bare_number<T: TryFrom<u64>>(&mut self, most: u64) -> Result<T, Wrong> {
        self.word().number(most)
    }

    pub(super) fn bare_instant(&mut self) -> Result<Instant, Wrong> {
        self.word().instant()
    }

    /// Reads the next word. Returns the word and its byte offset.
    pub(super) fn verb(&mut self) -> (&'a str, usize) {
        let word = self.word();
        (word.text, word.at)
    }

    pub(super) fn instant(&mut self, key: &str) -> Result<Instant, Wrong> {
        self.field(key)?.instant()
    }

    pub(super) fn entity(&mut self) -> Result<EntityId, Wrong> {
        self.word().entity()
    }

    pub(super) fn group(&mut self) -> Result<GroupId, Wrong> {
        self.word().group()
    }

    pub(super) fn machine(&mut self) -> Result<MachineId, Wrong> {
        self.word().machine()
    }

    pub(super) fn machine_in(&mut self, key: &str) -> Result<MachineId, Wrong> {
        self.field(key)?.machine()
    }

    pub(super) fn flow(&mut self) -> Result<u32, Wrong> {
        self.number("flow", u64::from(u32::MAX))
    }

    pub(super) fn bytes(&mut self) -> Result<u64, Wrong> {
        self.number("bytes", u64::MAX)
    }

    pub(super) fn machine_or_none(&mut self, key: &str) -> Result<Option<MachineId>, Wrong> {
        self.field(key)?.or_none(|word| word.machine())
    }

    /// Returns the byte offset of the next word.
    pub(super) fn place(&mut self) -> usize {
        self.skip_spaces();
        self.at
    }

    pub(super) fn cpu(&mut self) -> Result<CpuId, Wrong> {
        self.field("cpu")?.cpu()
    }

    pub(super) fn entity_in(&mut self, key: &str) -> Result<EntityId, Wrong> {
        self.field(key)?.entity()
    }

    pub(super) fn span_in(&mut self, key: &str) -> Result<Nanos, Wrong> {
        self.field(key)?.span()
    }

    pub(super) fn group_in(&mut self, key: &str) -> Result<GroupId, Wrong> {
        self.field(key)?.group()
    }

    /// Returns an error if another field follows.
    pub(super) fn end(&mut self) -> Result<(), Wrong> {
        let word = self.word();
        if word.text.is_empty() { Ok(()) } else { Err(word.wrong("is one field too many", "end the line before it")) }
    }

    /// Reads a string in double quotes.
    pub(super) fn text(&mut self, key: &str) -> Result<String, Wrong> {
        let open = self.field(key)?;
        let start = open.at + 1;
        let Some(body) = open.text.starts_with('"').then(|| &self.line[start..]) else {
            return Err(open.wrong("is not in double quotes", format!("write `{key}=\"…\"`")));
        };
        let mut text = String::new();
        let mut chars = body.char_indices();
        while let Some((at, c)) = chars.next() {
            match c {
                '"' => {
                    self.at = start + at + 1;
                    return Ok(text);
                }
                '\\' => text.push(escape(&mut chars).ok_or_else(|| Wrong {
                    at: start + at,
                    reason: "an unknown escape".into(),
                    help: r#"use `\"`, `\\`, `\n`, `\r`, `\t` or `\u{1f}`"#.into(),
                })?),
                c => text.push(c),
            }
        }
        Err(Wrong { at: open.at, reason: "a string without a closing quote".into(), help: "add a double quote".into() })
    }

    /// Reads the parameters of an entity.
    pub(super) fn params(&mut self) -> Result<Params, Wrong> {
        let weight = self.weight()?;
        let class = self.class()?;
        let cpus = self.field("cpus")?;
        let affinity: CpuSet =
            cpus.text.parse().map_err(|_| cpus.wrong("is not a list of CPUs", "use `all`, `none`, `2` or `0-3,8`"))?;
        let group = self.group_in("group")?;
        let latency = self.field("latency")?.or_none(|word| word.span())?;
        let warp = self.field("warp")?.or_none(|word| word.warp())?;
        let params = Params { weight, reservation: None, class, latency, warp, affinity, group };
        let reservation = self.field("reservation")?.or_none(|word| word.spans("20000000/50000000"))?;
        let Some((slice, period)) = reservation else { return Ok(params) };
        let deadline = self.field("deadline")?.or_none(|word| word.span())?;
        let start = self.field("start")?.or_none(|word| word.instant())?;
        let limit = self.choice("limit", &[("soft", Limit::Soft), ("hard", Limit::Hard)])?;
        Ok(Params { reservation: Some(Reservation { slice, period, deadline, start, limit }), ..params })
    }

    /// Reads the parameters of a group.
    pub(super) fn group_params(&mut self) -> Result<GroupParams, Wrong> {
        let weight = self.weight()?;
        let quota = self.field("quota")?.or_none(|word| word.spans("50000000/100000000"))?;
        let quota = quota.map(|(quota, period)| Quota { quota, period });
        let cap_percent = self.field("cap")?.or_none(|word| word.number(u64::from(u32::MAX)))?;
        let gang = self.yes_no("gang")?;
        Ok(GroupParams { weight, quota, cap_percent, gang })
    }

    /// Reads a weight in Xen's scale, in steps of 0.25.
    fn weight(&mut self) -> Result<Weight, Wrong> {
        let word = self.field("weight")?;
        let (whole, part) = word.text.split_once('.').unwrap_or((word.text, "0"));
        let quarters = match part {
            "0" => Some(0),
            "25" => Some(1),
            "5" => Some(2),
            "75" => Some(3),
            _ => None,
        };
        let whole: u32 = Word { text: whole, at: word.at }.number(u64::from(Weight::MAX.as_linux() / 4))?;
        quarters.and_then(|quarters| Weight::linux(whole * 4 + quarters)).ok_or_else(|| {
            word.wrong("is not a weight", format!("use a number from 0.25 to {} in steps of 0.25", Weight::MAX))
        })
    }

    fn class(&mut self) -> Result<Class, Wrong> {
        let word = self.field("class")?;
        let priority = |text, at| Word { text, at }.number(99).ok().and_then(RtPriority::new);
        let class = match word.text {
            "normal" => Some(Class::Normal),
            "batch" => Some(Class::Batch),
            "idle" => Some(Class::Idle),
            "iso" => Some(Class::Isochronous),
            "stop" => Some(Class::Stop),
            text => match text.split_once(':') {
                Some(("fifo", number)) => priority(number, word.at).map(Class::Fifo),
                Some(("rr", number)) => priority(number, word.at).map(Class::RoundRobin),
                _ => None,
            },
        };
        let help = "use `normal`, `batch`, `idle`, `iso`, `stop`, `fifo:1` to `fifo:99` or `rr:1` to `rr:99`";
        class.ok_or_else(|| word.wrong("is not a class", help))
    }

    /// Reads `yes` or `no`.
    pub(super) fn yes_no(&mut self, key: &str) -> Result<bool, Wrong> {
        self.choice(key, &[("yes", true), ("no", false)])
    }

    /// Reads one of the words of `choices`.
    fn choice<T: Copy>(&mut self, key: &str, choices: &[(&str, T)]) -> Result<T, Wrong> {
        let word = self.field(key)?;
        let chosen = choices.iter().find(|(name, _)| *name == word.text);
        chosen.map(|&(_, value)| value).ok_or_else(|| {
            let names: Vec<String> = choices.iter().map(|(name, _)| format!("`{key}={name}`")).collect();
            word.missing_value(&names.join(" or "))
        })
    }

    /// Reads the cause of a wake-up.
    pub(super) fn why(&mut self) -> Result<Wake, Wrong> {
        let word = self.field("why")?;
        Ok(match word.text {
            "new" => Wake::New { parent: self.field("parent")?.or_none(|word| word.entity())? },
            "by" => {
                let waker = self.entity_in("waker")?;
                Wake::By { waker, sync: self.yes_no("sync")? }
            }
            "interrupt" => Wake::Interrupt,
            "timer" => Wake::Timer,
            "resumed" => Wake::Resumed,
            _ => return Err(word.missing_value("`new`, `by`, `interrupt`, `timer` or `resumed`")),
        })
    }

    /// Reads the owner and the slot of an alarm.
    pub(super) fn alarm(&mut self) -> Result<Alarm, Wrong> {
        let word = self.field("of")?;
        let of = match word.text.as_bytes().first() {
            Some(b'p') if word.text == "policy" => AlarmOwner::Policy,
            Some(b'c') if word.text.starts_with("cpu") => {
                AlarmOwner::Cpu(Word { text: &word.text[3..], at: word.at + 3 }.cpu()?)
            }
            Some(b'e') => AlarmOwner::Entity(word.entity()?),
            Some(b'g') => AlarmOwner::Group(word.group()?),
            _ => return Err(word.missing_value("`policy`, `cpu0`, `e0` or `g0`")),
        };
        Ok(Alarm { owner: of, slot: self.number("slot", u64::from(u8::MAX))? })
    }

    /// Reads [`Held`] bits.
    pub(super) fn reasons(&mut self) -> Result<u8, Wrong> {
        let word = self.field("reasons")?;
        if word.text == "none" {
            return Ok(0);
        }
        let mut reasons = 0;
        let mut at = word.at;
        for text in word.text.split('+') {
            let part = Word { text, at };
            let bits = match Held::ALL.into_iter().find(|held| held.name() == text) {
                Some(held) => held as u8,
                None => part.number(u64::from(u8::MAX)).map_err(|_| {
                    let names = Held::ALL.map(Held::name).join(", ");
                    part.missing_value(&format!("`none`, or some of {names} joined by `+`"))
                })?,
            };
            reasons |= bits;
            at += text.len() + 1;
        }
        Ok(reasons)
    }
}

impl Word<'_> {
    /// Returns the error of a missing field: the line has ended, or another word is in the field's place.
    fn missing(&self, help: &str) -> Wrong {
        match self.text {
            "" => Wrong { at: self.at, reason: "the line ends too early".into(), help: help.into() },
            _ => self.wrong("does not belong here", help),
        }
    }

    /// Returns the error of a value that is not among the `known` values.
    fn missing_value(&self, known: &str) -> Wrong {
        self.wrong("is not known here", format!("use {known}"))
    }
}

/// Returns the character of an escape sequence, whose backslash has already been read.
fn escape(chars: &mut std::str::CharIndices<'_>) -> Option<char> {
    match chars.next()?.1 {
        'n' => Some('\n'),
        'r' => Some('\r'),
        't' => Some('\t'),
        c @ ('"' | '\\') => Some(c),
        'u' => {
            let digits = chars.as_str().strip_prefix('{')?;
            let digits = &digits[..digits.find('}').filter(|&length| (1..=6).contains(&length))?];
            if !digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
                return None;
            }
            let code = u32::from_str_radix(digits, 16).ok()?;
            chars.nth(digits.len() + 1);
            char::from_u32(code)
        }
        _ => None,
    }
}
