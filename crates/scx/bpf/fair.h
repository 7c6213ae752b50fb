/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Threads that no decision of a policy concerns. They run by the weights of their control groups and by nice (groups.h), within the
 * limits of the groups (limits.h), from one queue. A thread in this queue has its place from its insertion. A place that is far away is
 * put down as near, and computed again when the thread is the first one, because groups may have become idle meanwhile.
 *
 * The thread that runs is in no queue. At the end of its slice, it continues if its place is before the first one of the queue.
 */
#ifndef TACTUS_FAIR_H
#define TACTUS_FAIR_H

#include "interface.h"
#include "limits.h"

/* The queue of these threads, and their slice. */
#define FAIR 2
#define FAIR_SLICE_NS 2000000ULL
/* The threads that wait for CPU time of the group in slot s are in the queue THROTTLED + s. */
#define THROTTLED 0x100000
/* Maximum distance of a place from the clock, as CPU time of all fair threads. */
#define FAR_NS 500000000ULL
/* Time after the insertion of a far thread in which places are computed again. */
#define FAR_LASTS_NS 10000000000ULL
/* Tolerance of the order: a tick of a kernel with 250 Hz. */
#define NEAR_NS 4000000ULL
/*
 * A thread that has waited for this time runs for a moment, whatever its place and the limits of its groups. After 20 s, the kernel would
 * remove the scheduler.
 */
#define WAIT_MAX_NS 10000000000ULL
/* Number of threads that a dispatch looks at, and that a timer moves at once. */
#define LOOKS 64
#define MOVES 64
/* Time until a timer goes on to move threads. */
#define AGAIN_TO_MOVE_NS 20000ULL
/* A slice ends at a tick, which may be 10 ms late. If a run is to end within this time, a timer ends it. */
#define RUN_SHORT_NS 16000000ULL
/*
 * If others wait when a run begins, it ends after this time, times 1 + log2 of the number of CPUs, of which at most 8 count. Source: the
 * base slice of the fair class, kernel/sched/fair.c (sysctl_sched_base_slice, get_update_sysctl_factor), Linux 7.2. The kernel ends it
 * with HRTICK.
 */
#define FAIR_TURN_NS 700000ULL
#define FAIR_TURN_CPUS_MAX 8

/* The timer of a group, for the begin of a period. */
struct refill {
	struct bpf_timer timer;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, GROUPS_MAX);
	__type(key, u32);
	__type(value, struct refill);
} refills SEC(".maps");

/* The timer of a CPU, for the end of a run. */
struct run_end {
	struct bpf_timer timer;
	/* Whether the run for which the timer is set goes on. */
	u32 is_due;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, CPUS_MAX);
	__type(key, u32);
	__type(value, struct run_end);
} run_ends SEC(".maps");

/* When a far thread was inserted last. */
static u64 fair_far_at;
/* How long a thread runs if others wait. */
static volatile u64 fair_turn_ns = FAIR_TURN_NS;

/* The record of a thread in the program; 0: none. */
static struct member *member_of(struct task_struct *p);

static void set_slice(struct task_struct *p, u64 slice)
{
	/* Before Linux 6.19, a scheduler writes the field. */
	if (bpf_ksym_exists(scx_bpf_task_set_slice))
		scx_bpf_task_set_slice(p, slice);
	else
		p->scx.slice = slice;
}

/* Kernel threads of one CPU serve this CPU, so they run there at once. */
static bool serves_cpu(struct task_struct *p)
{
	return p->flags & PF_KTHREAD && p->nr_cpus_allowed == 1 && scx_bpf_nr_cpu_ids() > 1;
}

/* These threads come without a decision, and must run. */
static bool must_run(struct task_struct *p)
{
	return p->migration_disabled || p->flags & PF_EXITING || serves_cpu(p);
}

/* Returns the queue in which a thread waits. */
static u64 fair_queue(struct member *member)
{
	return member->held ? THROTTLED + member->held : FAIR;
}

static void fair_kick_idle(struct task_struct *p)
{
	s32 idle = scx_bpf_pick_idle_cpu(p->cpus_ptr, 0);

	if (idle >= 0)
		scx_bpf_kick_cpu(idle, SCX_KICK_IDLE);
}

/* Sets the timer of a group to the end of its period, or to now. */
static void fair_set_timer(u32 slot, bool at_once)
{
	struct refill *refill = bpf_map_lookup_elem(&refills, &slot);

	if (refill)
		bpf_timer_start(&refill->timer, at_once ? 0 : group_at(slot)->end, BPF_F_TIMER_ABS);
}

/* ---- Places ---- */

/*
 * The functions with a lock are global (__noinline): the verifier checks each of them once, not at each call.
 */

/* What a thread may do. */
struct place {
	/* By the clock of the root. */
	u64 at;
	/* The group for whose CPU time the thread waits; 0: none. */
	u32 held;
	/* Whether the place is put down as nearer than it is. */
	bool is_far;
};

/* Computes the place of a thread with this weight, and makes it active. */
__noinline int fair_compute(struct member *member, u32 weight, u64 now, struct place *place)
{
	u64 at, clock, far;

	if (!member || !place)
		return 0;
	bpf_spin_lock(&groups_lock);
	groups_advance(now);
	at = groups_place(group_of(member), member, weight);
	clock = group_at(ROOT)->clock;
	far = groups_span(FAR_NS);
	bpf_spin_unlock(&groups_lock);
	place->is_far = (s64)(at - clock) > (s64)far;
	place->at = place->is_far ? clock + far : at;
	return 0;
}

/* Returns the group for whose CPU time a thread must wait; 0: none. */
__noinline u32 fair_held(struct member *member, u64 now)
{
	struct group *group;
	bool is_timed;
	u32 held;

	if (!member)
		return 0;
	bpf_spin_lock(&groups_lock);
	limits_room(group_of(member), now, &held);
	group = group_at(held);
	is_timed = group->is_timed;
	group->has_held = true;
	group->is_timed = true;
	bpf_spin_unlock(&groups_lock);
	if (held && !is_timed)
		fair_set_timer(held, false);
	return held;
}

static void fair_place(struct task_struct *p, struct member *member, u64 now, struct place *place)
{
	fair_compute(member, weight_of(p), now, place);
	place->held = groups_limited ? fair_held(member, now) : 0;
	if (place->is_far)
		fair_far_at = now;
}

/* Enqueues a thread, and wakes an idle CPU for it. */
static void fair_enqueue(struct task_struct *p, struct member *member, u64 flags)
{
	struct place place = {};

	member->waits_since = bpf_ktime_get_ns();
	member->has_yielded = false;
	member->held = 0;
	/* A kernel thread that has used up its slice waits as the others do. */
	if (serves_cpu(p) && flags & SCX_ENQ_WAKEUP) {
		scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL, FAIR_SLICE_NS, flags | SCX_ENQ_PREEMPT);
		return;
	}
	fair_place(p, member, member->waits_since, &place);
	if (place.held) {
		member->held = place.held;
		scx_bpf_dsq_insert_vtime(p, THROTTLED + place.held, FAIR_SLICE_NS, member->tag, flags);
		return;
	}
	/* The only thread of its CPU continues there. The CPU would not look into the queue again. */
	if (flags & SCX_ENQ_LAST) {
		scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL, FAIR_SLICE_NS, flags);
		return;
	}
	scx_bpf_dsq_insert_vtime(p, FAIR, FAIR_SLICE_NS, place.at, flags);
	fair_kick_idle(p);
}

/* Returns the CPU on which a thread that wakes runs, and dispatches the thread if this CPU is idle. */
static s32 fair_select_cpu(struct task_struct *p, struct member *member, s32 prev_cpu, u64 flags)
{
	bool is_idle = false;
	s32 cpu = scx_bpf_select_cpu_dfl(p, prev_cpu, flags, &is_idle);

	if (is_idle && member && !(groups_limited && fair_held(member, bpf_ktime_get_ns())))
		scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL, FAIR_SLICE_NS, 0);
	return cpu;
}

/* ---- Runs ---- */

/*
 * Begins to charge a thread. `is_first`: it comes as the first one of the order. A thread that resumes its run after one of a higher class
 * may be far ahead of others, which wait.
 */
__noinline int fair_begin(struct member *member, u32 weight, u64 now, bool is_first)
{
	struct group *leaf;
	s64 ahead, near;

	if (!member)
		return 0;
	bpf_spin_lock(&groups_lock);
	groups_advance(now);
	leaf = group_of(member);
	ahead = groups_place(leaf, member, weight) - group_at(ROOT)->clock;
	/* The CPUs have more time than the threads before this one can use. */
	near = groups_span(NEAR_NS);
	if (is_first && ahead > near)
		group_at(ROOT)->clock += ahead - near;
	groups_busy++;
	leaf->running++;
	leaf->since += now;
	bpf_spin_unlock(&groups_lock);
	member->since = now;
	member->is_running = true;
	member->reserved = 0;
	return 0;
}

/* Reserves CPU time from the quotas. Returns the time that they leave. */
__noinline u64 fair_reserve(struct member *member, u64 now)
{
	struct group *leaf;
	u64 room;
	u32 held;

	if (!member)
		return 0;
	bpf_spin_lock(&groups_lock);
	leaf = group_of(member);
	room = limits_room(leaf, now, &held);
	member->reserved = smaller(room, FAIR_SLICE_NS);
	limits_take(leaf, member->reserved);
	bpf_spin_unlock(&groups_lock);
	return room;
}

/* Ends to charge a thread. */
__noinline int fair_end(struct member *member, u64 now)
{
	struct group *leaf;
	u64 ran, ahead;

	if (!member)
		return 0;
	ran = (s64)(now - member->since) > 0 ? now - member->since : 0;
	bpf_spin_lock(&groups_lock);
	groups_advance(now);
	groups_busy--;
	leaf = group_of(member);
	leaf->running--;
	leaf->since -= member->since;
	ahead = DIVIDED(ran << TAG_SHIFT, member->weight);
	member->tag += ahead;
	if (member->is_active)
		leaf->ahead += member->weight * ahead;
	bpf_spin_unlock(&groups_lock);
	member->is_running = false;
	member->reserved = ran - member->reserved;
	return 0;
}

/* Charges a run to the quotas. */
__noinline int fair_charge(struct member *member)
{
	bool at_once;
	u32 slot;

	if (!member)
		return 0;
	bpf_spin_lock(&groups_lock);
	slot = limits_charge(group_of(member), member->reserved, &at_once);
	bpf_spin_unlock(&groups_lock);
	if (slot)
		fair_set_timer(slot, at_once);
	return 0;
}

/* Ends the run on a CPU after this time. */
static void fair_end_after(s32 cpu, u64 time)
{
	u32 at = cpu;
	struct run_end *end = bpf_map_lookup_elem(&run_ends, &at);

	if (!end)
		return;
	end->is_due = true;
	bpf_timer_start(&end->timer, time, BPF_F_TIMER_CPU_PIN);
}

/* A thread begins to run by weight on this CPU. Its slice is at most FAIR_SLICE_NS. */
static void fair_running(struct task_struct *p, struct member *member, s32 cpu, u64 now)
{
	u64 room = UNLIMITED;

	fair_begin(member, weight_of(p), now, p->scx.slice == FAIR_SLICE_NS);
	if (groups_limited)
		room = fair_reserve(member, now);
	/* The kernel gives some threads without a decision a long slice. */
	if (p->scx.slice > FAIR_SLICE_NS)
		set_slice(p, FAIR_SLICE_NS);
	if (!room && !must_run(p)) {
		set_slice(p, 0);
		scx_bpf_kick_cpu(cpu, SCX_KICK_PREEMPT);
		return;
	}
	if (room > fair_turn_ns && scx_bpf_dsq_nr_queued(FAIR) > 0)
		room = fair_turn_ns;
	if (room && room < RUN_SHORT_NS)
		fair_end_after(cpu, room);
}

/* A thread ceases to run by weight on this CPU, which may be another than the present one. */
static void fair_stopping(struct member *member, s32 cpu, u64 now)
{
	u32 at = cpu;
	struct run_end *end;

	if (!member->is_running)
		return;
	fair_end(member, now);
	if (groups_limited)
		fair_charge(member);
	end = bpf_map_lookup_elem(&run_ends, &at);
	if (end)
		end->is_due = false;
}

/* A thread sleeps. */
__noinline int fair_leave(struct member *member, u64 now)
{
	if (!member)
		return 0;
	bpf_spin_lock(&groups_lock);
	groups_advance(now);
	groups_leave(member);
	bpf_spin_unlock(&groups_lock);
	return 0;
}

static void fair_quiescent(struct member *member, u64 now)
{
	if (member->is_active)
		fair_leave(member, now);
}

/* ---- Dispatch ---- */

/* What to do with a thread that waits. */
enum verdict {
	VERDICT_RUN,
	/* Its place is later than in the queue. */
	VERDICT_LATER,
	VERDICT_HELD,
};

static enum verdict fair_judge(struct task_struct *p, struct member *member, u64 stored, u64 now, struct place *place)
{
	if (now - member->waits_since > WAIT_MAX_NS)
		return VERDICT_RUN;
	fair_place(p, member, now, place);
	if (place->held)
		return VERDICT_HELD;
	return (s64)(place->at - stored) > (s64)groups_span(NEAR_NS) ? VERDICT_LATER : VERDICT_RUN;
}

/* Moves the first thread of the queue that may run on a CPU there, if its place is before `limit`. Returns whether there is one. */
static bool fair_take(s32 cpu, bool is_limited, u64 limit, u64 now)
{
	bool looks = groups_limited || now - fair_far_at < FAR_LASTS_NS;
	struct bpf_iter_scx_dsq it;
	bool done = false;
	u32 i;

	if (!looks && !is_limited)
		return scx_bpf_dsq_move_to_local(FAIR);
	if (bpf_iter_scx_dsq_new(&it, FAIR, 0))
		goto out;
	bpf_for(i, 0, LOOKS) {
		struct task_struct *first = bpf_iter_scx_dsq_next(&it), *p;
		enum verdict verdict = VERDICT_RUN;
		struct place place = {};
		struct member *member;
		u64 stored;

		if (!first)
			break;
		stored = first->scx.dsq_vtime;
		if (is_limited && (s64)(stored - limit) >= 0)
			break;
		/* The kernel trusts only the pointer of a look-up. */
		p = bpf_task_from_pid(first->pid);
		if (!p)
			continue;
		member = member_of(p);
		if (!member || !bpf_cpumask_test_cpu(cpu, p->cpus_ptr) || p->migration_disabled) {
			bpf_task_release(p);
			continue;
		}
		if (looks)
			verdict = fair_judge(p, member, stored, now, &place);
		if (verdict == VERDICT_RUN) {
			done = scx_bpf_dsq_move(&it, p, SCX_DSQ_LOCAL, 0);
		} else if (verdict == VERDICT_LATER) {
			scx_bpf_dsq_move_set_vtime(&it, place.at);
			scx_bpf_dsq_move_vtime(&it, p, FAIR, 0);
		} else {
			member->held = place.held;
			scx_bpf_dsq_move_set_vtime(&it, member->tag);
			scx_bpf_dsq_move_vtime(&it, p, THROTTLED + place.held, 0);
		}
		bpf_task_release(p);
		if (done)
			break;
	}
out:
	bpf_iter_scx_dsq_destroy(&it);
	return done;
}

/* Dispatches a fair thread. `prev` is the thread that ran on the CPU; its record is 0 if it is not to continue. */
static void fair_dispatch(s32 cpu, struct task_struct *prev, struct member *member)
{
	u64 now = bpf_ktime_get_ns();
	struct place place = {};
	bool continues = false;

	if (prev && member && prev->scx.flags & SCX_TASK_QUEUED && member->is_running && !member->has_yielded &&
	    bpf_cpumask_test_cpu(cpu, prev->cpus_ptr)) {
		fair_stopping(member, cpu, now);
		fair_place(prev, member, now, &place);
		continues = !place.held;
	}
	if (fair_take(cpu, continues, place.at, now))
		return;
	if (continues) {
		set_slice(prev, FAIR_SLICE_NS);
		fair_running(prev, member, cpu, now);
		return;
	}
	/* The first threads must not run here, or their places are all later, or there is none. */
	scx_bpf_dsq_move_to_local(FAIR);
}

/* ---- Timers ---- */

static int fair_end_run(void *map, u32 *cpu, struct run_end *end)
{
	if (end->is_due)
		scx_bpf_kick_cpu(*cpu, SCX_KICK_PREEMPT);
	return 0;
}

/* Moves threads that waited for a group to the queue of all. Returns whether there were any. */
static bool fair_release(u32 slot, u64 now)
{
	struct bpf_iter_scx_dsq it;
	bool moved = false;
	u32 i;

	bpf_rcu_read_lock();
	if (bpf_iter_scx_dsq_new(&it, THROTTLED + slot, 0))
		goto out;
	bpf_for(i, 0, MOVES) {
		struct task_struct *first = bpf_iter_scx_dsq_next(&it), *p;
		struct place place = {};
		struct member *member;

		if (!first)
			break;
		p = bpf_task_from_pid(first->pid);
		if (!p)
			continue;
		member = member_of(p);
		if (member) {
			fair_place(p, member, now, &place);
			member->held = 0;
			scx_bpf_dsq_move_set_vtime(&it, place.at);
			scx_bpf_dsq_move_vtime(&it, p, FAIR, 0);
			fair_kick_idle(p);
		}
		bpf_task_release(p);
		moved = true;
	}
out:
	bpf_iter_scx_dsq_destroy(&it);
	bpf_rcu_read_unlock();
	return moved;
}

/* Begins a period of a group. */
static int fair_refill(void *map, u32 *key, struct refill *refill)
{
	u64 now = bpf_ktime_get_ns(), end;
	bool is_open, was_throttled, moved = false;
	struct group *group;
	u32 slot = *key;

	bpf_spin_lock(&groups_lock);
	groups_advance(now);
	group = group_at(slot);
	if (group->quota)
		limit_refill(group, now);
	is_open = !group->quota || group->left > 0;
	was_throttled = group->is_throttled;
	if (is_open && was_throttled) {
		groups_sync(group);
		group->is_throttled = false;
		groups_settle(group);
	}
	if (is_open)
		group->has_held = false;
	end = group->quota ? group->end : now + AGAIN_TO_MOVE_NS * 1000;
	bpf_spin_unlock(&groups_lock);
	if (is_open)
		moved = fair_release(slot, now);
	if (moved && scx_bpf_dsq_nr_queued(THROTTLED + slot) > 0)
		end = now + AGAIN_TO_MOVE_NS;
	/*
	 * A thread may still be on its way to the queue, so the timer ends only after a period without any. A thread that is held from now
	 * on sets it again.
	 */
	bpf_spin_lock(&groups_lock);
	group = group_at(slot);
	if (is_open && !was_throttled && !moved && !group->has_held && !group->is_throttled)
		end = 0;
	group->is_timed = end != 0;
	bpf_spin_unlock(&groups_lock);
	if (end)
		bpf_timer_start(&refill->timer, end, BPF_F_TIMER_ABS);
	return 0;
}

/* Creates the queue, and prepares the timers of the CPUs. */
static s32 fair_init(void)
{
	u32 count = scx_bpf_nr_cpu_ids(), at;
	u64 turn = FAIR_TURN_NS;

	bpf_for(at, 0, count) {
		u32 cpu = at;
		struct run_end *end = bpf_map_lookup_elem(&run_ends, &cpu);

		if (!end)
			break;
		/* The number of CPUs up to here is a power of two. */
		if (at && at < FAIR_TURN_CPUS_MAX && !(at & (at + 1)))
			turn += FAIR_TURN_NS;
		bpf_timer_init(&end->timer, &run_ends, CLOCK_MONOTONIC);
		bpf_timer_set_callback(&end->timer, fair_end_run);
	}
	fair_turn_ns = turn;
	return scx_bpf_create_dsq(FAIR, -1);
}

#endif
