//! [`Domains`]: the sets of entities that earn credits together, their weights and caps, and the lists of active
//! entities.
//!
//! A group is a domain; an entity in no group is a domain of its own. One list contains the active domains, and a list
//! per domain contains its active members. The head of each member list is stored in the record of its domain, because
//! the number of domains is not known in advance.

use sched::{EntityId, GroupId, GroupParams, Params};

/// The null link.
const NONE: u32 = u32::MAX;

/// The identity of a domain: the index of its record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct DomainId(u32);

impl DomainId {
    /// Returns the domain of an entity with these parameters: its group, or the entity itself if the entity has no
    /// group.
    pub(crate) fn of(e: EntityId, params: &Params) -> DomainId {
        match params.group {
            GroupId::ROOT => DomainId(2 * number(e.index()) + 1),
            group => DomainId::of_group(group),
        }
    }

    /// Returns the domain of a group.
    pub(crate) fn of_group(group: GroupId) -> DomainId {
        DomainId(2 * number(group.index()))
    }

    /// Returns the index of the domain's record.
    pub(crate) const fn index(self) -> usize {
        self.0 as usize
    }
}

fn number(index: usize) -> u32 {
    u32::try_from(index).expect("an index is 32 bits")
}

/// The record of a domain.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Domain {
    /// Weight of the domain in Xen's scale, 256 = normal.
    pub(crate) weight: u64,
    /// Cap of the domain in percent of one CPU; `None`: no cap.
    pub(crate) cap: Option<u32>,
    /// Number of active members of the domain.
    pub(crate) active: u64,
    /// Weight with which the domain competes: its own weight, or its own weight times the number of active members. The
    /// value is 0 if no member is active.
    pub(crate) counted: u64,
    first: u32,
}

/// The neighbours of an entry in a list.
#[derive(Clone, Copy, Debug)]
struct Link {
    next: u32,
    prev: u32,
    listed: bool,
}

const UNLISTED: Link = Link { next: NONE, prev: NONE, listed: false };

fn push_front(links: &mut [Link], head: &mut u32, n: u32) {
    assert!(!links[n as usize].listed, "it is in one list at a time");
    if *head != NONE {
        links[*head as usize].prev = n;
    }
    links[n as usize] = Link { next: *head, prev: NONE, listed: true };
    *head = n;
}

fn remove(links: &mut [Link], head: &mut u32, n: u32) {
    let Link { next, prev, listed } = core::mem::replace(&mut links[n as usize], UNLISTED);
    assert!(listed, "it is in the list");
    if next != NONE {
        links[next as usize].prev = prev;
    }
    match prev {
        NONE => *head = next,
        prev => links[prev as usize].next = next,
    }
}

/// The domains; see the module documentation.
#[derive(Debug)]
pub(crate) struct Domains {
    domains: Vec<Domain>,
    /// Links of the list of active domains, by domain.
    domain_links: Vec<Link>,
    first: u32,
    /// Links of the lists of active members, by entity.
    member_links: Vec<Link>,
    members: Vec<EntityId>,
    /// Total weight of all active domains.
    weight: u64,
    /// Whether the weight of a domain is multiplied by the number of its active members.
    per_member: bool,
}

impl Domains {
    /// Creates an empty set. `per_member`: the weight of a domain is multiplied by the number of its active members.
    pub(crate) fn new(per_member: bool) -> Domains {
        Domains {
            per_member,
            domains: Vec::new(),
            domain_links: Vec::new(),
            first: NONE,
            member_links: Vec::new(),
            members: Vec::new(),
            weight: 0,
        }
    }

    /// Reserves memory for `e` and for its own domain. Call this method when `e` is attached.
    pub(crate) fn reserve(&mut self, e: EntityId, params: &Params) {
        if self.members.len() <= e.index() {
            self.members.resize(e.index() + 1, e);
            self.member_links.resize(e.index() + 1, UNLISTED);
        }
        assert!(!self.is_active(e), "{e} is new");
        self.members[e.index()] = e;
        self.make(DomainId(2 * number(e.index()) + 1));
        self.update_solo(e, params);
    }

    /// Updates the domain of `e` if `e` is a domain of its own.
    pub(crate) fn update_solo(&mut self, e: EntityId, params: &Params) {
        if params.group == GroupId::ROOT {
            self.update(DomainId::of(e, params), u64::from(params.weight.as_xen()), None);
        }
    }

    /// Creates or updates the domain of a group.
    pub(crate) fn update_group(&mut self, group: GroupId, params: &GroupParams) {
        let domain = DomainId::of_group(group);
        self.make(domain);
        self.update(domain, u64::from(params.weight.as_xen()), params.cap_percent);
    }

    fn make(&mut self, domain: DomainId) {
        if self.domains.len() <= domain.index() {
            let empty = Domain { weight: 0, cap: None, active: 0, counted: 0, first: NONE };
            self.domains.resize(domain.index() + 1, empty);
            self.domain_links.resize(domain.index() + 1, UNLISTED);
        }
    }

    fn update(&mut self, domain: DomainId, weight: u64, cap: Option<u32>) {
        let record = &mut self.domains[domain.index()];
        record.weight = weight;
        record.cap = cap;
        self.count(domain);
    }

    /// Recomputes the weight with which `domain` competes.
    fn count(&mut self, domain: DomainId) {
        let record = &mut self.domains[domain.index()];
        let times = if self.per_member { record.active } else { record.active.min(1) };
        self.weight -= record.counted;
        record.counted = record.weight * times;
        self.weight += record.counted;
    }

    /// Returns a domain's record.
    pub(crate) fn get(&self, domain: DomainId) -> &Domain {
        &self.domains[domain.index()]
    }

    /// Returns the total weight of all active domains.
    pub(crate) fn active_weight(&self) -> u64 {
        self.weight
    }

    /// Returns whether `e` is on its domain's active list.
    pub(crate) fn is_active(&self, e: EntityId) -> bool {
        self.member_links[e.index()].listed
    }

    /// Puts `e` at the head of the active list of `domain`. If `domain` was not active, puts `domain` at the head of
    /// the active domains.
    pub(crate) fn activate(&mut self, e: EntityId, domain: DomainId) {
        let record = &mut self.domains[domain.index()];
        push_front(&mut self.member_links, &mut record.first, number(e.index()));
        record.active += 1;
        if record.active == 1 {
            push_front(&mut self.domain_links, &mut self.first, domain.0);
        }
        self.count(domain);
    }

    /// Removes `e`, if it is active, from the active list of `domain`. If `e` was the last active member, removes
    /// `domain` from the active domains. Returns whether `e` was active.
    pub(crate) fn deactivate(&mut self, e: EntityId, domain: DomainId) -> bool {
        if !self.is_active(e) {
            return false;
        }
        let record = &mut self.domains[domain.index()];
        remove(&mut self.member_links, &mut record.first, number(e.index()));
        record.active -= 1;
        if record.active == 0 {
            remove(&mut self.domain_links, &mut self.first, domain.0);
        }
        self.count(domain);
        true
    }

    /// Moves an active domain to the head of the list of active domains.
    pub(crate) fn move_to_head(&mut self, domain: DomainId) {
        remove(&mut self.domain_links, &mut self.first, domain.0);
        push_front(&mut self.domain_links, &mut self.first, domain.0);
    }

    /// Returns the first active domain.
    pub(crate) fn first(&self) -> Option<DomainId> {
        (self.first != NONE).then_some(DomainId(self.first))
    }

    /// Returns the active domain after `domain`, which is active.
    pub(crate) fn next(&self, domain: DomainId) -> Option<DomainId> {
        let next = self.domain_links[domain.index()].next;
        (next != NONE).then_some(DomainId(next))
    }

    /// Returns the first active member of `domain`.
    pub(crate) fn first_member(&self, domain: DomainId) -> Option<EntityId> {
        let first = self.domains[domain.index()].first;
        (first != NONE).then(|| self.members[first as usize])
    }

    /// Returns the active member after `e`, which is active.
    pub(crate) fn next_member(&self, e: EntityId) -> Option<EntityId> {
        let next = self.member_links[e.index()].next;
        (next != NONE).then(|| self.members[next as usize])
    }
}
