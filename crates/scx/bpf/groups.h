/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Shares of CPU time by control group: the weights of the groups (cpu.weight) on each level, and of the threads (nice) in a group,
 * as the kernel's fair class gives them.
 *
 * Model. Each group has a virtual clock. The clock of the root advances by the CPU time that all fair threads receive,
 * divided by the sum of the weights of its active members. The clock of a group advances by the progress of the parent's clock, times
 * the weight of the group, divided by the sum of the weights of the active members of the group. So a clock shows how much CPU
 * time a member is due in a fluid system (generalized processor sharing), also while members become active and idle. A
 * thread has a tag in the clock of its group: the time that it has received, divided by its weight. Its lag is (clock − tag) × weight.
 * The clocks are brought up to date when a member of a group needs them.
 *
 * Order. All threads wait in one queue, so the distance of a tag from the clock of its group is converted to the clock of the root: on
 * each level, times the sum of the active weights, divided by the weight. The distance is that of the moment of insertion. A later
 * change of the active members changes only the order of the next turns, because the tags stay right.
 *
 * A member that becomes idle leaves its lag to the other members, and takes it back when it returns. Debts expire when the
 * member would have received nothing up to then. Source: EEVDF, Stoica and Abdel-Wahab 1995, section 4 (join and leave); the limits
 * of the lag as in kernel/sched/fair.c, Linux 7.2 (entity_lag).
 *
 * The fair class places a thread that returns at the mean of the tags in its group (avg_vruntime). If the group has received more
 * than its share, this mean is ahead of the clock, and the thread waits with the others for the next turn of the group. The debt of the
 * group is then that of all its active threads, and the clock moves so that it remains the same in sum.
 *
 * Limits. At most GROUPS_MAX groups and LEVELS − 1 levels below the root; the threads of a further group count as threads of its
 * parent. Each operation takes time in proportion to the level of the group, under one lock for all CPUs. On several CPUs, a share that
 * a member cannot use, because its threads are fewer than the CPUs it is due, goes to all threads, not first to its siblings.
 */
#ifndef TACTUS_GROUPS_H
#define TACTUS_GROUPS_H

#include "kernel.h"

#define GROUPS_MAX 8192
/* Number of levels, with that of the root. A power of two. */
#define LEVELS 8
#define ROOT 0
/* A tag is CPU time in ns × 2^20, divided by a weight. The weight of a thread with nice 0, and of a group with cpu.weight 100, is 1,024. */
#define TAG_SHIFT 20
/* Maximum lag of a member that becomes idle, in ns: a tick of a kernel with 250 Hz. */
#define LAG_IDLE_NS 4000000LL
/* Maximum lag of an active thread, in ns. A thread that cannot use its share, because it is alone on a CPU, is no further behind. */
#define LAG_ACTIVE_NS 100000000LL
/* Maximum distance between clock and tag in a conversion. */
#define DISTANCE_MAX (1LL << 40)

/* The clock of a group, and its limit (limits.h). */
struct group {
	u64 clock;
	/* The clock of the parent up to which `clock` is up to date. */
	u64 seen;
	/* Sum of the weights of the active members, and of those of them that are threads. */
	u64 sum;
	u64 own;
	/* Sum over the active threads: weight × (tag − clock). Threads that run are charged up to the begin of their run. */
	u64 ahead;
	/* Number of these threads that run, and the sum of the times at which they began. */
	u64 running;
	u64 since;
	u32 weight;
	/* The root has level 0. */
	u32 level;
	/* The groups from the root to this group. */
	u32 path[LEVELS];
	/* How many groups have had this slot before. */
	u32 epoch;
	/* The next free slot. */
	u32 next;
	/* Whether the weight of the group is in the sum of its parent. */
	u8 is_counted;
	/* Whether the quota of the present period is used up. */
	u8 is_throttled;
	/* Whether threads wait until the group may run. */
	u8 has_held;
	/* Whether the timer is set for the end of the period. */
	u8 is_timed;
	/* Whether queue and timer of this slot exist. */
	u8 is_prepared;
	/* CPU time in each period, the maximum of what unused time adds, and the length of a period, in ns. Quota 0: no limit. */
	u64 quota;
	u64 burst;
	u64 period;
	/* End of the present period, and the remaining CPU time, without what running threads have reserved. */
	u64 end;
	s64 left;
};

/* A thread as a member of its group. */
struct member {
	/* Virtual time in the clock of the group, while the thread is active. */
	u64 tag;
	/* Lag in ns when the thread became idle. A debt (negative) expires at `due` by the clock of the root, in `term`. */
	s64 lag;
	u64 due;
	u64 term;
	/* Up to when its CPU time is charged, while it runs. */
	u64 since;
	/* When it was enqueued. */
	u64 waits_since;
	/* CPU time that is reserved from the quotas, while it runs. Unit: ns. */
	u64 reserved;
	u32 slot;
	u32 epoch;
	/* Its weight in the sum of the group, while it is active. */
	u32 weight;
	/* The group in whose queue of throttled threads it waits; 0: none. */
	u32 held;
	/* Whether the thread competes: from its first wait or run by weight until it sleeps. */
	u8 is_active;
	/* Whether the thread runs by weight. */
	u8 is_running;
	u8 has_yielded;
};

static struct group groups[GROUPS_MAX];
/* Up to when the clock of the root is up to date, and the number of CPUs that run fair threads. */
static u64 groups_at;
static u64 groups_busy;
/* The slots below are or were in use; the first free one of these. */
static u32 groups_used = 1;
static u32 groups_free;
/* Number of groups with a quota. */
static u32 groups_limited;

struct bpf_spin_lock groups_lock SEC(".data.groups") __hidden __attribute__((aligned(8)));

/* Weights of nice −20 to 19. Source: kernel/sched/core.c (sched_prio_to_weight), Linux 7.2. */
static const u32 weights[40] = {
	88761, 71755, 56483, 46273, 36291, 29154, 23254, 18705, 14949, 11916, 9548, 7620, 6100, 4904, 3906, 3121, 2501, 1991, 1586, 1277,
	1024, 820, 655, 526, 423, 335, 272, 215, 172, 137, 110, 87, 70, 56, 45, 36, 29, 23, 18, 15,
};
/* Weight of a thread with SCHED_IDLE. Source: kernel/sched/sched.h (WEIGHT_IDLEPRIO). */
#define WEIGHT_IDLE 3
#define SCHED_IDLE 5

/* The weight that the kernel counts for groups is rounded (p->scx.weight has 1 for both nice 17 and nice 19). */
static u32 weight_of(struct task_struct *p)
{
	u32 at = p->static_prio - 100;

	if (p->policy == SCHED_IDLE)
		return WEIGHT_IDLE;
	barrier_var(at);
	return at < 40 ? weights[at] : 1024;
}

/* Returns the weight of a group from the scale of cpu.weight, 1 to 10,000. */
static u32 weight_of_group(u32 weight)
{
	u32 scaled = (weight * 1024 + 50) / 100;

	return scaled ?: 1;
}

static __always_inline struct group *group_at(u32 slot)
{
	barrier_var(slot);
	slot &= GROUPS_MAX - 1;
	return &groups[slot];
}

/* Loads the level each time. A level that the verifier remembers from an earlier loop is another case for each of its ends. */
static __always_inline u32 level_of(struct group *group)
{
	return *(volatile u32 *)&group->level;
}

/* In BPF, a division by zero has the result 0. */
#ifdef __bpf__
#define DIVIDED(value, by) ((value) / (by))
#else
#define DIVIDED(value, by) ((by) ? (value) / (by) : 0)
#endif

/* Returns value × by / over; the instructions of BPF (version 3) divide unsigned numbers only. Division by 0 gives 0. */
static __always_inline s64 scaled(s64 value, u64 by, u64 over)
{
	s64 sign = value >> 63;
	u64 size;

	/* The barriers of this file keep the compiler from branches. */
	barrier_var(sign);
	size = DIVIDED(((value ^ sign) - sign) * by, over);
	return ((s64)size ^ sign) - sign;
}

/* Returns the smaller one of two numbers below 2^63. */
static __always_inline u64 smaller(u64 one, u64 other)
{
	s64 distance = one - other, sign = distance >> 63;

	barrier_var(sign);
	return other + (distance & sign);
}

/* Returns 1, or 0 for 0. */
static __always_inline u64 nonzero(u64 value)
{
	u64 negative = -value;

	barrier_var(negative);
	return (value | negative) >> 63;
}

/*
 * ---- Under the lock ----
 *
 * The verifier follows each path through a loop, so the loops have no branches but their ends.
 */

/* Advances the clock of the root by the CPU time of the fair threads up to `now`. */
static __always_inline void groups_advance(u64 now)
{
	struct group *root = group_at(ROOT);
	s64 passed = now - groups_at, sign = passed >> 63;

	/* Another CPU may have read a later time. */
	barrier_var(sign);
	passed &= ~sign;
	groups_at += passed;
	/* The product has 62 bits. */
	root->clock += DIVIDED(smaller(passed, 0xffffffffULL) * groups_busy << TAG_SHIFT, root->sum);
}

/* Advances the clock of a group. */
static __always_inline void groups_move(struct group *group, s64 by)
{
	group->clock += by;
	group->ahead -= group->own * by;
}

/* Brings the clocks from the root to a group up to date. */
static __always_inline void groups_sync(struct group *leaf)
{
	u32 at, level = level_of(leaf);

#pragma clang loop unroll(disable)
	for (at = 1; at < LEVELS; at++) {
		struct group *group, *parent;
		s64 passed;

		if (at > level)
			break;
		group = group_at(leaf->path[at]);
		parent = group_at(leaf->path[at - 1]);
		passed = parent->clock - group->seen;
		group->seen = parent->clock;
		groups_move(group, scaled(passed, (u64)group->is_counted * group->weight, group->sum));
	}
}

/*
 * Counts the groups from a group to the root in the sums of their parents, if they have active members and are not throttled. The clocks
 * must be up to date.
 */
static __always_inline void groups_settle(struct group *leaf)
{
	u32 level = level_of(leaf), i;

#pragma clang loop unroll(disable)
	for (i = 1; i < LEVELS; i++) {
		struct group *group, *parent;
		u64 counts;

		if (!level)
			break;
		group = group_at(leaf->path[level & (LEVELS - 1)]);
		level--;
		parent = group_at(leaf->path[level & (LEVELS - 1)]);
		counts = nonzero(group->sum) & (group->is_throttled ^ 1);
		parent->sum += (counts - group->is_counted) * group->weight;
		group->is_counted = counts;
	}
}

/* Divides a lag (in ns) among the active members of the first group with any, from a group to the root. */
static __always_inline void groups_spread(struct group *leaf, s64 lag)
{
	u32 at, level = level_of(leaf);
	u64 found = ROOT;
	struct group *group;

#pragma clang loop unroll(disable)
	for (at = 1; at < LEVELS; at++) {
		u64 slot, is_end;

		if (at > level)
			break;
		slot = leaf->path[at];
		group = group_at(slot);
		is_end = nonzero(group->sum | group->is_throttled);
		found ^= (found ^ slot) & -is_end;
	}
	/* The members of a throttled group take the lag when they run again. */
	group = group_at(found);
	groups_move(group, scaled(lag, (u64)(group->is_throttled ^ 1) << TAG_SHIFT, group->sum));
}

/*
 * Returns how far the mean of the tags of a group is ahead of its clock. 0 for the root, whose members receive all CPU time, and for a group
 * with groups below, whose tags are not known.
 */
static __always_inline s64 groups_mean(struct group *leaf)
{
	u64 known = nonzero(level_of(leaf)) & (nonzero(leaf->own ^ leaf->sum) ^ 1);
	u64 running = (leaf->running * groups_at - leaf->since) << TAG_SHIFT;
	s64 mean = scaled(leaf->ahead + running, known, leaf->own), sign = mean >> 63;
	u64 size;

	barrier_var(sign);
	size = smaller((mean ^ sign) - sign, DISTANCE_MAX);
	return ((s64)size ^ sign) - sign;
}

/* Returns how far a tag is ahead of the clock of its group, by the clock of the root. */
static __always_inline s64 groups_distance(struct group *leaf, u64 tag)
{
	s64 ahead = tag - leaf->clock, sign = ahead >> 63;
	u32 level = level_of(leaf), i;
	u64 distance;

	barrier_var(sign);
	distance = (ahead ^ sign) - sign;

#pragma clang loop unroll(disable)
	for (i = 1; i < LEVELS; i++) {
		struct group *group;
		u64 ratio;

		if (!level)
			break;
		group = group_at(leaf->path[level & (LEVELS - 1)]);
		level--;
		/* The product has 62 bits. */
		ratio = smaller(DIVIDED(group->sum << 8, group->weight), 1 << 22);
		distance = smaller(distance, DISTANCE_MAX) * ratio >> 8;
	}
	return ((s64)distance ^ sign) - sign;
}

/* Returns a time of all CPUs in ns, by the clock of the root. */
static __always_inline u64 groups_span(u64 time)
{
	return (time << TAG_SHIFT) / (group_at(ROOT)->sum ?: 1024);
}

/* Returns the group of a thread. A thread that exits may be in a group that is gone. */
static __always_inline struct group *group_of(struct member *member)
{
	if (group_at(member->slot)->epoch != member->epoch) {
		member->slot = ROOT;
		member->epoch = group_at(ROOT)->epoch;
		member->is_active = false;
	}
	/* Loaded again, the slot is one case for the verifier. */
	return group_at(*(volatile u32 *)&member->slot);
}

/* Returns the lag with which a thread becomes active, in ns. */
static __always_inline s64 groups_lag_left(struct member *member)
{
	s64 rest = member->due - group_at(ROOT)->clock;

	if (member->lag >= 0)
		return member->lag;
	if (rest <= 0)
		return 0;
	return rest < member->term ? scaled(member->lag, (u64)rest >> 8, (member->term >> 8) ?: 1) : member->lag;
}

/* Returns the lag of an active thread behind a tag in ns, at most `most`. The clocks must be up to date. */
static __always_inline s64 groups_lag(u64 at, struct member *member, s64 most)
{
	s64 behind = at - member->tag, sign = behind >> 63;
	u64 distance, limit = DIVIDED((u64)most << TAG_SHIFT, member->weight);

	barrier_var(sign);
	distance = smaller((behind ^ sign) - sign, limit) * member->weight >> TAG_SHIFT;
	return ((s64)distance ^ sign) - sign;
}

/* Makes a thread idle. */
static __always_inline void groups_leave(struct member *member)
{
	struct group *leaf = group_of(member);
	s64 distance, mean, rest;

	if (!member->is_active)
		return;
	groups_sync(leaf);
	/* The last thread takes the debt of the group along. */
	mean = groups_mean(leaf) * nonzero(leaf->own - member->weight);
	member->lag = groups_lag(leaf->clock + mean, member, LAG_IDLE_NS);
	distance = groups_distance(leaf, member->tag - mean);
	member->term = distance > 0 ? distance : 0;
	member->due = group_at(ROOT)->clock + member->term;
	member->is_active = false;
	leaf->sum -= member->weight;
	leaf->own -= member->weight;
	leaf->ahead -= member->weight * (member->tag - leaf->clock);
	groups_settle(leaf);
	/* The debt of the group remains with the others. */
	rest = scaled(mean, member->weight, 1ULL << TAG_SHIFT);
	groups_spread(leaf, member->lag - rest);
}

/* Makes a thread active, if it is not: from now on, its group owes CPU time to it. Brings the clocks up to date. */
static __always_inline void groups_join(struct group *leaf, struct member *member, u32 weight)
{
	s64 lag, limit, mean, ahead;

	if (!member->is_active) {
		lag = groups_lag_left(member);
		groups_sync(leaf);
		/* The mean before the others give. The kernel increases the lag by what they give, too (place_entity). */
		mean = groups_mean(leaf);
		/* The other members give what they got. */
		groups_spread(leaf, -lag);
		groups_sync(leaf);
		ahead = mean - scaled(lag, 1ULL << TAG_SHIFT, weight);
		member->tag = leaf->clock + ahead;
		member->weight = weight;
		member->is_active = true;
		leaf->sum += weight;
		leaf->own += weight;
		leaf->ahead += weight * ahead;
		groups_settle(leaf);
		/* The thread takes its part of the debt of the group. */
		groups_move(leaf, scaled(mean, weight, leaf->own));
		return;
	}
	groups_sync(leaf);
	limit = DIVIDED((u64)LAG_ACTIVE_NS << TAG_SHIFT, member->weight);
	ahead = leaf->clock - member->tag - limit;
	if (ahead > 0) {
		member->tag += ahead;
		leaf->ahead += member->weight * ahead;
	}
}

/* Returns the place of a thread in the order of all threads, and makes it active. */
static __always_inline u64 groups_place(struct group *leaf, struct member *member, u32 weight)
{
	groups_join(leaf, member, weight);
	return group_at(ROOT)->clock + groups_distance(leaf, member->tag);
}

#endif
