/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Limits of control groups (cpu.max): a group receives at most its quota of CPU time in each period. What a run uses beyond the quota
 * is a debt, which the next periods pay. Unused time is kept up to the burst (cpu.max.burst). Each limit from the group of a thread up to
 * the root counts.
 *
 * A run reserves CPU time from the quotas when it begins, and returns what is left when it ends, so runs on several CPUs do not use the
 * same time twice. A group without CPU time is throttled: its weight does not count, and its threads wait in a queue of
 * the group. A timer moves them back at the begin of a period.
 *
 * Only fair runs count. CPU time of a promise is neither limited nor charged, as that of SCHED_DEADLINE: a promise is a limit of its own.
 */
#ifndef TACTUS_LIMITS_H
#define TACTUS_LIMITS_H

#include "groups.h"

/* CPU time that no quota limits. */
#define UNLIMITED (1ULL << 40)
/* A quota of the kernel that means none, in us: the kernel's own is U64_MAX. */
#define QUOTA_NONE_US (1ULL << 44)
/* Number of periods that a refill counts. */
#define PERIODS_MAX 1000

/* ---- Under the lock ---- */

/* Begins the present period of a group. */
static __always_inline void limit_refill(struct group *group, u64 now)
{
	u64 most = group->quota + group->burst, periods;

	if ((s64)(now - group->end) < 0)
		return;
	periods = (now - group->end) / (group->period ?: 1) + 1;
	group->end += periods * group->period;
	group->left += (periods < PERIODS_MAX ? periods : PERIODS_MAX) * group->quota;
	if (group->left > (s64)most)
		group->left = most;
}

/* Returns the CPU time that the quotas leave to a thread of this group. 0: the thread must wait for *slot. */
static __always_inline u64 limits_room(struct group *leaf, u64 now, u32 *slot)
{
	u32 at, level = level_of(leaf);
	u64 room = UNLIMITED;

	*slot = ROOT;
#pragma clang loop unroll(disable)
	for (at = 1; at < LEVELS; at++) {
		struct group *group;

		if (at > level)
			break;
		group = group_at(leaf->path[at]);
		if (!group->quota)
			continue;
		limit_refill(group, now);
		if (group->is_throttled || group->left <= 0) {
			*slot = leaf->path[at];
			room = 0;
			break;
		}
		room = smaller(room, group->left);
	}
	return room;
}

/* Takes reserved time from the quotas, or returns what is left of it (negative). */
static __always_inline void limits_take(struct group *leaf, s64 time)
{
	u32 at, level = level_of(leaf);

#pragma clang loop unroll(disable)
	for (at = 1; at < LEVELS; at++) {
		struct group *group;

		if (at > level)
			break;
		group = group_at(leaf->path[at]);
		/* Without a quota, the number has no meaning. */
		group->left -= time;
	}
}

/*
 * Charges a run: `time` is the difference from what it reserved. Throttles a group without CPU time. Returns the group whose timer is to
 * be set; 0: none. With `*at_once`, a group has got time back for which threads wait. If several groups are concerned, the others follow
 * when the next thread of theirs looks for room.
 */
static __always_inline u32 limits_charge(struct group *leaf, s64 time, bool *at_once)
{
	u32 at, level = level_of(leaf), used = ROOT, waited = ROOT;
	struct group *group;

#pragma clang loop unroll(disable)
	for (at = 1; at < LEVELS; at++) {
		u32 slot;

		if (at > level)
			break;
		slot = leaf->path[at];
		group = group_at(slot);
		group->left -= time;
		if (!group->quota || group->is_throttled)
			continue;
		if (group->left <= 0)
			used = slot;
		else if (group->has_held)
			waited = slot;
	}
	*at_once = used == ROOT;
	if (used == ROOT)
		return waited;
	groups_sync(leaf);
	group = group_at(used);
	group->is_throttled = true;
	groups_settle(leaf);
	if (group->is_timed)
		return ROOT;
	group->is_timed = true;
	return used;
}

#endif
