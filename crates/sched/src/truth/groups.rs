//! Groups and their members.

use super::Truth;
use super::slots::{Group, NO_ENTITY, Slot};
use crate::id::{EntityId, GroupId};
use crate::params::GroupParams;

impl Truth {
    #[inline]
    pub(crate) fn group(&self, g: GroupId) -> &Group {
        let group = &self.groups[g.index()];
        assert!(group.generation == g.generation() && group.attached, "law 8: {g} is removed");
        group
    }

    pub(crate) fn is_group(&self, g: GroupId) -> bool {
        self.groups.get(g.index()).is_some_and(|group| group.attached && group.generation == g.generation())
    }

    pub(crate) fn group_params_mut(&mut self, g: GroupId) -> &mut GroupParams {
        &mut self.groups[g.index()].params
    }

    pub(crate) fn group_in_use(&self, g: GroupId) -> bool {
        let group = self.group(g);
        group.children > 0 || group.first_member != NO_ENTITY
    }

    pub(crate) fn add_group(&mut self, params: GroupParams, parent: GroupId) -> GroupId {
        let mut group =
            Group { generation: 0, attached: true, params, parent: Some(parent), children: 0, first_member: NO_ENTITY };
        self.groups[parent.index()].children += 1;
        let index = match self.free_groups.pop() {
            Some(index) => {
                group.generation = self.groups[index as usize].generation + 1;
                self.groups[index as usize] = group;
                index
            }
            None => {
                self.groups.push(group);
                u32::try_from(self.groups.len() - 1).expect("a group index is 32 bits")
            }
        };
        self.reserve();
        GroupId::new(index, self.groups[index as usize].generation)
    }

    pub(crate) fn remove_group(&mut self, g: GroupId) {
        let parent = self.group(g).parent.expect("the root stays");
        self.groups[parent.index()].children -= 1;
        self.groups[g.index()].attached = false;
        self.alarms.drop_group(g);
        self.free_groups.push(u32::try_from(g.index()).expect("a group index is 32 bits"));
    }

    pub(super) fn join_group(&mut self, e: EntityId, g: GroupId) {
        #[expect(clippy::cast_possible_truncation, reason = "an index is 32 bits")]
        let index = e.index() as u32;
        let first = core::mem::replace(&mut self.groups[g.index()].first_member, index);
        self.slots[e.index()].next_member = first;
        self.slots[e.index()].prev_member = NO_ENTITY;
        if first != NO_ENTITY {
            self.slots[first as usize].prev_member = index;
        }
    }

    pub(super) fn leave_group(&mut self, e: EntityId, g: GroupId) {
        let Slot { next_member, prev_member, .. } = self.slots[e.index()];
        if next_member != NO_ENTITY {
            self.slots[next_member as usize].prev_member = prev_member;
        }
        match prev_member {
            NO_ENTITY => self.groups[g.index()].first_member = next_member,
            prev => self.slots[prev as usize].next_member = next_member,
        }
    }

    pub(crate) fn members(&self, g: GroupId) -> impl Iterator<Item = EntityId> + '_ {
        let mut next = self.group(g).first_member;
        core::iter::from_fn(move || {
            let index = (next != NO_ENTITY).then_some(next)?;
            next = self.slots[index as usize].next_member;
            Some(self.id(index))
        })
    }
}
