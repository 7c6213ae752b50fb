//! [`Outbox`]: the messages of a machine to the rest of its world. The receivers are its host or its guests, the
//! network, and the coordination of a guest with its host.

use crate::network::Packet;
use crate::program::ObjectId;
use coordination::Note;
use sched::{Action, CpuId, EntityId, Input, Nanos, Wake};
use trace::Event;

/// A message of a guest to its host, or of a host to its guests.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Message {
    /// Work of a guest is due on `cpu`, which is absent.
    WakeUp { cpu: CpuId, why: Wake },
    /// A guest's task waited `waited` for a spin lock or spinning barrier. The task last ran on `cpu`.
    SpinReport { cpu: CpuId, waited: Nanos },
    /// A guest's task on `cpu` has spun for its limit. `halts`: the task halts its vCPU instead of yielding.
    Spin { cpu: CpuId, halts: bool },
    /// A task of a guest stopped on `cpu`, or `cpu` thawed, so `cpu` may be idle.
    Idle { cpu: CpuId },
    /// A host's vCPU has lost or given up its CPU, or leaves its guest for an interrupt.
    Leave { vcpu: EntityId },
    /// A host's vCPU has a CPU, and the costs of the dispatch are paid.
    Enter { vcpu: EntityId },
    /// An interrupt on `cpu` causes an exit of the vCPU from its guest. Sent only by guests and hosts that coordinate.
    Exit { cpu: CpuId },
}

impl Message {
    pub(crate) fn wake_up(&self) -> Option<(CpuId, Wake)> {
        if let Message::WakeUp { cpu, why } = *self { Some((cpu, why)) } else { None }
    }

    pub(crate) fn spin_report(&self) -> Option<(CpuId, Nanos)> {
        if let Message::SpinReport { cpu, waited } = *self { Some((cpu, waited)) } else { None }
    }

    pub(crate) fn spin(&self) -> Option<(CpuId, bool)> {
        if let Message::Spin { cpu, halts } = *self { Some((cpu, halts)) } else { None }
    }

    pub(crate) fn idle(&self) -> Option<CpuId> {
        if let Message::Idle { cpu } = *self { Some(cpu) } else { None }
    }

    /// Returns a vCPU, and whether the vCPU enters (true) or leaves (false) its guest.
    pub(crate) fn switch(&self) -> Option<(EntityId, bool)> {
        match *self {
            Message::Enter { vcpu } => Some((vcpu, true)),
            Message::Leave { vcpu } => Some((vcpu, false)),
            _ => None,
        }
    }

    pub(crate) fn exit(&self) -> Option<CpuId> {
        if let Message::Exit { cpu } = *self { Some(cpu) } else { None }
    }
}

/// A message of a machine to the network.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Traffic {
    /// `entity` sent `bytes` through a port.
    Sent { port: ObjectId, entity: EntityId, bytes: u64 },
    /// `entity` has handled a packet, which continues to its next hop. `later`: receivers are notified at the end of
    /// the pass.
    Onward { entity: EntityId, packet: Packet, later: bool },
    /// A pass of `entity` ends.
    Pass { entity: EntityId },
    /// `entity` has read `bytes` of a flow.
    Read { entity: EntityId, flow: u32, bytes: u64 },
}

/// The messages of a machine that its world has not taken yet.
#[derive(Debug, Default)]
pub(crate) struct Outbox {
    messages: Vec<Message>,
    /// Number of messages at the front that have been taken.
    taken: usize,
    traffic: Vec<Traffic>,
    /// Notes of the machine's events, kept only if the machine coordinates.
    notes: Vec<Note>,
    /// Whether the machine coordinates. Otherwise the outbox keeps neither exits nor notes.
    pub(crate) coordinates: bool,
}

impl Outbox {
    #[inline]
    pub(crate) fn send(&mut self, message: Message) {
        self.messages.push(message);
    }

    pub(crate) fn send_exit(&mut self, cpu: CpuId) {
        if self.coordinates {
            self.send(Message::Exit { cpu });
        }
    }

    pub(crate) fn ship(&mut self, traffic: Traffic) {
        self.traffic.push(traffic);
    }

    /// Keeps the note of `event`, if there is one.
    #[inline]
    pub(crate) fn note(&mut self, event: &Event) {
        if self.coordinates {
            self.notes.extend(note_of(event));
        }
    }

    /// Returns whether no message is left. Traffic and notes do not count.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.messages.is_empty()
    }

    pub(crate) fn has_traffic(&self) -> bool {
        !self.traffic.is_empty()
    }

    /// Returns the traffic that has not left the machine.
    pub(crate) fn traffic(&self) -> &[Traffic] {
        &self.traffic
    }

    /// Takes the oldest message that `select` accepts.
    #[inline]
    pub(crate) fn take<T>(&mut self, select: impl Fn(&Message) -> Option<T>) -> Option<T> {
        let mut left = self.messages[self.taken..].iter().enumerate();
        let (at, found) = left.find_map(|(at, message)| Some((at, select(message)?)))?;
        if at > 0 {
            self.messages.remove(self.taken + at);
            return Some(found);
        }
        self.taken += 1;
        if self.taken == self.messages.len() {
            self.messages.clear();
            self.taken = 0;
        }
        Some(found)
    }

    /// Takes all traffic. The caller returns the buffer with [`reuse`](Outbox::reuse).
    pub(crate) fn take_traffic(&mut self) -> Vec<Traffic> {
        std::mem::take(&mut self.traffic)
    }

    /// Takes back the empty buffer of [`take_traffic`](Outbox::take_traffic) to reuse its capacity.
    pub(crate) fn reuse(&mut self, mut buffer: Vec<Traffic>) {
        buffer.append(&mut self.traffic);
        self.traffic = buffer;
    }

    /// Takes all notes. The caller returns the buffer with [`reuse_notes`](Outbox::reuse_notes).
    pub(crate) fn take_notes(&mut self) -> Vec<Note> {
        std::mem::take(&mut self.notes)
    }

    /// Takes back the empty buffer of [`take_notes`](Outbox::take_notes) to reuse its capacity.
    pub(crate) fn reuse_notes(&mut self, mut buffer: Vec<Note>) {
        buffer.append(&mut self.notes);
        self.notes = buffer;
    }
}

/// Returns the note of `event` for the coordination. `None`: the coordination ignores the event.
fn note_of(event: &Event) -> Option<Note> {
    match *event {
        Event::Input(Input::Wake { entity, why }) => Some(Note::Woke(entity, why)),
        Event::Action(Action::Run { cpu, entity, .. }) => Some(Note::Runs(entity, cpu)),
        Event::Action(Action::Stop { entity, .. }) => Some(Note::Stopped(entity)),
        Event::Adjust { entity, .. } => Some(Note::Adjusted(entity)),
        Event::Detach { entity } => Some(Note::Left(entity)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_taken_by_kind_and_in_the_order_in_which_they_were_sent() {
        let [first, second] = [0, 1].map(CpuId::new);
        let mut outbox = Outbox::default();
        outbox.send(Message::Idle { cpu: second });
        outbox.send(Message::WakeUp { cpu: second, why: Wake::Timer });
        outbox.send(Message::WakeUp { cpu: first, why: Wake::Interrupt });
        outbox.send(Message::Spin { cpu: first, halts: true });
        assert_eq!(outbox.take(Message::wake_up), Some((second, Wake::Timer)));
        assert_eq!(outbox.take(Message::wake_up), Some((first, Wake::Interrupt)));
        assert_eq!(outbox.take(Message::wake_up), None);
        assert_eq!(outbox.take(Message::switch), None);
        assert_eq!(outbox.take(Message::spin), Some((first, true)));
        assert!(!outbox.is_empty());
        assert_eq!(outbox.take(Message::idle), Some(second));
        assert!(outbox.is_empty());
    }

    #[test]
    fn exits_and_notes_are_kept_only_where_a_guest_coordinates_with_its_host() {
        let mut outbox = Outbox::default();
        let event = Event::Detach { entity: EntityId::new(0, 0) };
        outbox.send_exit(CpuId::new(0));
        outbox.note(&event);
        assert!(outbox.is_empty() && outbox.take_notes().is_empty());
        outbox.coordinates = true;
        outbox.send_exit(CpuId::new(0));
        outbox.note(&event);
        assert_eq!(outbox.take(Message::exit), Some(CpuId::new(0)));
        assert_eq!(outbox.take_notes().len(), 1);
    }

    #[test]
    fn traffic_that_comes_while_the_rest_is_taken_waits_for_the_next_turn() {
        let pass = |index| Traffic::Pass { entity: EntityId::new(index, 0) };
        let mut outbox = Outbox::default();
        outbox.ship(pass(0));
        let mut taken = outbox.take_traffic();
        outbox.ship(pass(1));
        taken.clear();
        outbox.reuse(taken);
        assert!(outbox.has_traffic());
        assert!(matches!(outbox.traffic(), [Traffic::Pass { entity }] if entity.index() == 1));
    }
}
