/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The operations of sched_ext for control groups. A kernel without CONFIG_EXT_GROUP_SCHED has none of them, and all threads are then
 * members of the root.
 */
#ifndef TACTUS_CGROUPS_H
#define TACTUS_CGROUPS_H

#include "fair.h"

/* The slot of a control group, or that of its parent: see the limits in groups.h. */
struct slot {
	u32 slot;
	u32 is_own;
};

/* The slots, by the number of the control group. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 65536);
	__type(key, u64);
	__type(value, struct slot);
} slots SEC(".maps");

static struct slot *slot_of(struct cgroup *cgroup)
{
	u64 id = cgroup->kn->id;

	return bpf_map_lookup_elem(&slots, &id);
}

/* Makes an idle thread a member of a group. It becomes active with its next wait or run. */
static void fair_assign(struct member *member, struct cgroup *cgroup)
{
	struct slot *found = cgroup ? slot_of(cgroup) : 0;
	u32 slot = found ? found->slot : ROOT;

	bpf_spin_lock(&groups_lock);
	member->slot = slot;
	member->epoch = group_at(slot)->epoch;
	bpf_spin_unlock(&groups_lock);
}

/* Begins the record of a thread. */
static void fair_init_task(struct member *member, struct scx_init_task_args *args)
{
	struct cgroup *cgroup = 0;

	if (bpf_core_field_exists(args->cgroup))
		cgroup = args->cgroup;
	fair_assign(member, cgroup);
}

/* Sets the limit of a group, under the lock. Times are in us. */
static __always_inline void fair_set_limit(struct group *group, u64 now, u64 period, u64 quota, u64 burst)
{
	bool has_limit = period && quota && quota < QUOTA_NONE_US;

	groups_limited += has_limit - (group->quota != 0);
	group->quota = has_limit ? quota * 1000 : 0;
	group->burst = burst < QUOTA_NONE_US ? burst * 1000 : 0;
	group->period = period * 1000;
	group->left = group->quota;
	group->end = now + group->period;
}

/* Returns a free slot with its queue and timer; 0: there is none. */
static u32 take_slot(void)
{
	struct refill *refill;
	bool is_prepared;
	u32 slot;

	bpf_spin_lock(&groups_lock);
	slot = groups_free;
	if (slot)
		groups_free = group_at(slot)->next;
	else if (groups_used < GROUPS_MAX)
		slot = groups_used++;
	is_prepared = group_at(slot)->is_prepared;
	bpf_spin_unlock(&groups_lock);
	refill = bpf_map_lookup_elem(&refills, &slot);
	if (!slot || !refill || is_prepared)
		return slot;
	/* A slot that cannot be prepared is lost. */
	if (scx_bpf_create_dsq(THROTTLED + slot, -1) || bpf_timer_init(&refill->timer, &refills, CLOCK_MONOTONIC))
		return ROOT;
	bpf_timer_set_callback(&refill->timer, fair_refill);
	group_at(slot)->is_prepared = true;
	return slot;
}

SEC("struct_ops.s/cgroup_init")
s32 BPF_PROG(fair_cgroup_init, struct cgroup *cgrp, struct scx_cgroup_init_args *args)
{
	struct cgroup_subsys_state *css = cgrp->self.parent;
	u64 id = cgrp->kn->id, now = bpf_ktime_get_ns(), period = 0, quota = 0, burst = 0;
	struct slot *found, own = {};
	struct group *group, *parent;
	u32 above, level, at;

	found = css ? slot_of(css->cgroup) : 0;
	above = found ? found->slot : ROOT;
	if (bpf_core_field_exists(args->bw_quota_us)) {
		period = args->bw_period_us;
		quota = args->bw_quota_us;
		burst = args->bw_burst_us;
	}
	own.slot = css && group_at(above)->level + 1 < LEVELS ? take_slot() : ROOT;
	own.is_own = own.slot != ROOT;
	if (!own.is_own)
		own.slot = above;
	if (bpf_map_update_elem(&slots, &id, &own, 0)) {
		/* The threads of a group without an entry are members of the root. */
		own.is_own = false;
	}
	if (!own.is_own)
		return 0;
	bpf_spin_lock(&groups_lock);
	group = group_at(own.slot);
	parent = group_at(above);
	level = parent->level + 1;
	group->level = level;
#pragma clang loop unroll(disable)
	for (at = 0; at < LEVELS; at++)
		group->path[at] = at < level ? parent->path[at] : own.slot;
	group->weight = weight_of_group(args->weight);
	group->sum = 0;
	group->own = 0;
	group->ahead = 0;
	group->running = 0;
	group->since = 0;
	group->seen = parent->clock;
	group->is_counted = false;
	group->is_throttled = false;
	group->has_held = false;
	fair_set_limit(group, now, period, quota, burst);
	bpf_spin_unlock(&groups_lock);
	return 0;
}

SEC("struct_ops.s/cgroup_exit")
void BPF_PROG(fair_cgroup_exit, struct cgroup *cgrp)
{
	struct slot *found = slot_of(cgrp);
	u64 id = cgrp->kn->id, now = bpf_ktime_get_ns();
	struct group *group;
	struct slot slot;

	if (!found)
		return;
	slot = *found;
	bpf_map_delete_elem(&slots, &id);
	if (!slot.is_own)
		return;
	bpf_spin_lock(&groups_lock);
	groups_advance(now);
	group = group_at(slot.slot);
	groups_sync(group);
	group->sum = 0;
	group->own = 0;
	groups_settle(group);
	fair_set_limit(group, now, 0, 0, 0);
	/* A thread that exits may still have this slot. */
	group->epoch++;
	group->next = groups_free;
	groups_free = slot.slot;
	bpf_spin_unlock(&groups_lock);
}

/* The kernel takes a thread from its queue and its CPU before the move, so quiescent() has made it idle. */
SEC("struct_ops/cgroup_move")
void BPF_PROG(fair_cgroup_move, struct task_struct *p, struct cgroup *from, struct cgroup *to)
{
	struct member *member = member_of(p);

	if (!member)
		return;
	fair_quiescent(member, bpf_ktime_get_ns());
	fair_assign(member, to);
}

SEC("struct_ops/cgroup_set_weight")
void BPF_PROG(fair_cgroup_set_weight, struct cgroup *cgrp, u32 weight)
{
	struct slot *slot = slot_of(cgrp);
	u64 now = bpf_ktime_get_ns();
	struct group *group, *parent;
	u32 new = weight_of_group(weight);

	if (!slot || !slot->is_own)
		return;
	bpf_spin_lock(&groups_lock);
	groups_advance(now);
	group = group_at(slot->slot);
	groups_sync(group);
	parent = group_at(group->path[(group->level - 1) & (LEVELS - 1)]);
	if (group->is_counted)
		parent->sum += (s64)new - (s64)group->weight;
	group->weight = new;
	bpf_spin_unlock(&groups_lock);
}

SEC("struct_ops/cgroup_set_bandwidth")
void BPF_PROG(fair_cgroup_set_bandwidth, struct cgroup *cgrp, u64 period_us, u64 quota_us, u64 burst_us)
{
	struct slot *slot = slot_of(cgrp);
	u64 now = bpf_ktime_get_ns();
	u32 at;

	if (!slot || !slot->is_own)
		return;
	at = slot->slot;
	bpf_spin_lock(&groups_lock);
	fair_set_limit(group_at(at), now, period_us, quota_us, burst_us);
	group_at(at)->is_timed = true;
	bpf_spin_unlock(&groups_lock);
	/* The threads that wait for the group may run by the new limit. */
	fair_set_timer(at, true);
}

/* The part of the operations that a scheduler adds to its own. */
#define FAIR_CGROUP_OPERATIONS                                                                                                   \
	.cgroup_init = (void *)fair_cgroup_init, .cgroup_exit = (void *)fair_cgroup_exit,                                       \
	.cgroup_move = (void *)fair_cgroup_move, .cgroup_set_weight = (void *)fair_cgroup_set_weight,                           \
	.cgroup_set_bandwidth = (void *)fair_cgroup_set_bandwidth

#endif
