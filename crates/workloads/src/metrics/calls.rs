//! Telephone calls, measured at the receivers of their packets.

use super::gauge::{Fact, Gauge};
use super::reading::Reading;
use super::voip::{Call, Phone};
use sched::Instant;
use std::collections::{BTreeMap, VecDeque};

/// The gauge of calls. Task `call-n` reads the packets of link number n in order of arrival, each packet in one job.
/// From the end of the job on, the packet can be played.
#[derive(Debug)]
pub(super) struct Calls {
    phone: Phone,
    calls: BTreeMap<u32, Packets>,
}

/// The packets of one call.
#[derive(Debug, Default)]
struct Packets {
    /// Sending times of packets that have arrived and are unread.
    unread: VecDeque<Instant>,
    /// Sending time and earliest playing time of each read packet.
    read: Vec<(Instant, Instant)>,
    lost: u64,
}

impl Calls {
    pub(super) fn new(phone: Phone) -> Calls {
        Calls { phone, calls: BTreeMap::new() }
    }
}

impl Gauge for Calls {
    fn note(&mut self, at: Instant, role: &str, fact: Fact) {
        match fact {
            Fact::Arrived { link, took } => {
                let sent = at.saturating_since(Instant::ZERO).saturating_sub(took);
                self.calls.entry(link).or_default().unread.push_back(Instant::ZERO + sent);
            }
            Fact::Lost { link } => self.calls.entry(link).or_default().lost += 1,
            Fact::Done => {
                let call = role.strip_prefix("call-").and_then(|number| number.parse().ok());
                let Some(call) = call.and_then(|call: u32| self.calls.get_mut(&call)) else { return };
                if let Some(sent) = call.unread.pop_front() {
                    call.read.push((sent, at));
                }
            }
            _ => {}
        }
    }

    fn begin(&mut self, _: Instant) {
        // Packets that are unread at the start of counting are played later, and count.
        self.calls.values_mut().for_each(|call| (call.read, call.lost) = (Vec::new(), 0));
    }

    fn read(&mut self, end: Instant) -> Reading {
        let heard: Vec<Reading> = self.calls.values_mut().map(|it| it.hear(self.phone, end)).collect();
        let of = |reading: &Reading, name| reading.get(name).unwrap_or_default();
        let calls = heard.len() as u64;
        let packets: u64 = heard.iter().map(|it| of(it, "packets")).sum();
        let mean = |name| heard.iter().map(|it| of(it, name)).sum::<u64>().checked_div(calls).unwrap_or(0);
        let share = |name| {
            let sum: u128 = heard.iter().map(|it| u128::from(of(it, name)) * u128::from(of(it, "packets"))).sum();
            let share = sum.checked_div(u128::from(packets)).unwrap_or(0);
            u64::try_from(share).unwrap_or(u64::MAX)
        };
        let mut reading = Reading::default();
        reading.add("calls", calls);
        reading.add("mos_milli", mean("mos_milli"));
        reading.add("mos_worst_milli", heard.iter().map(|it| of(it, "mos_milli")).min().unwrap_or(0));
        reading.add("r_milli", mean("r_milli"));
        reading.add("packets", packets);
        reading.add("jitter_mean_ns", mean("jitter_mean_ns"));
        reading.add("lost_ppm", share("lost_ppm"));
        reading.add("discarded_ppm", share("discarded_ppm"));
        reading.add("delay_mean_ns", mean("delay_mean_ns"));
        reading.add("delay_deviation_ns", mean("delay_deviation_ns"));
        reading
    }
}

impl Packets {
    /// Returns the quality of a call. Packets that are unread at `end` can be played at `end` at the earliest.
    fn hear(&mut self, phone: Phone, end: Instant) -> Reading {
        // An unread packet that was sent recently may still be played in time, so it does not count.
        let late = |sent: &Instant| end.saturating_since(*sent) > phone.buffer.saturating_add(phone.packet);
        self.read.extend(self.unread.drain(..).filter(late).map(|sent| (sent, end)));
        self.read.sort_unstable();
        let mut call = Call::new(phone);
        self.read.iter().for_each(|&(sent, played)| call.packet(sent, Some(played)));
        (0..self.lost).for_each(|_| call.packet(end, None));
        call.read()
    }
}
