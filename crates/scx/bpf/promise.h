/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Promises: a reservation on a CPU, and the threads that share it, its members. The rules of the reservation are in edf.h.
 *
 * A promise has a remaining slice for its members together. At most one of them runs on the CPU of the promise, and its CPU time
 * is charged. The promise is runnable while a member is.
 */
#ifndef TACTUS_PROMISE_H
#define TACTUS_PROMISE_H

#include "kernel.h"
#include "cgroups.h"
#include "edf.h"
#include "events.h"
#include "interface.h"
#include "record.h"

struct promise {
	struct edf_account account;
	struct bpf_spin_lock lock;
	s32 cpu;
	/* The member whose CPU time is charged; 0: none. */
	s32 runner;
	/* Number of runnable members, and number of members. */
	s32 runnable;
	u32 count;
	/* Whether the promise was runnable since its period began. */
	u32 throughout;
	/* The next promise of its gang, which is a ring; its own number: the only one of a gang; 0: it is in no gang. */
	s32 sibling;
	/* Whether the members must be brought to the queue of the CPU: see bring(). */
	u32 must_bring;
	/* Up to this instant, the CPU time of the runner is charged; 0: none runs. */
	u64 since;
	struct bpf_timer period;
	/* The tids of the members, then zeros. */
	s32 members[MEMBERS_MAX];
};

struct thread {
	/* Number of its promise; 0: none. */
	s32 promise;
	/* Whether it serves the other members, as a thread for I/O does: it precedes them when it wakes. */
	bool is_helper;
	/* Its share among the threads that compete. Time on a slice of its promise does not count for it. */
	struct member member;
	/* The CPU on which the thread runs; -1: it does not run. */
	s32 on;
	/* Whether it counts as a runnable member of its promise. A word, because orders and callbacks change it at once. */
	u32 is_counted;
	/* Whether it waits in the queue of the CPU of its promise. */
	bool is_ready;
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, PROMISES_MAX);
	__type(key, s32);
	__type(value, struct promise);
} promises SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct thread);
} threads SEC(".maps");

/* `enum reported`. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, u32);
} reported SEC(".maps");

static bool is_reported(u32 what)
{
	u32 zero = 0, *wanted = bpf_map_lookup_elem(&reported, &zero);

	return wanted && *wanted == what;
}

static struct thread *thread_of(struct task_struct *p)
{
	return bpf_task_storage_get(&threads, p, 0, 0);
}

static struct member *member_of(struct task_struct *p)
{
	struct thread *thread = thread_of(p);

	return thread ? &thread->member : 0;
}

static struct promise *promise_of(struct thread *thread)
{
	return thread && thread->promise ? bpf_map_lookup_elem(&promises, &thread->promise) : 0;
}

/* The bits of a key below the deadline. */
#define KEY_SHIFT 24

/*
 * Returns the order of a thread among those with a slice on its CPU: by the deadline, then by the number of the promise, so that
 * CPUs with equal deadlines run siblings at the same time. A helper precedes the other members when it wakes. Keys are compared
 * by their difference, and two deadlines of a queue differ by less than 2^39 ns.
 */
static u64 key_of(struct thread *thread, struct promise *promise, bool precedes)
{
	u64 number = (u64)(u32)thread->promise << 1 & ((1 << KEY_SHIFT) - 1);

	return promise->account.deadline << KEY_SHIFT | number | !precedes;
}

/* Reports the end of a period, if this is wanted. `was` is the account at its end. */
static void report_ended(s32 number, struct edf_account *was, u64 passed, bool throughout, u64 now)
{
	struct period_event *it;

	if (!is_reported(REPORT_PERIODS))
		return;
	it = bpf_ringbuf_reserve(&events, sizeof(*it), 0);
	if (!it) {
		lose();
		return;
	}
	it->event = (struct event){ now, EVENT_PERIOD, -1, number, throughout };
	it->due = was->slice;
	it->delivered = was->state == EDF_RESERVED && was->balance > 0 ? was->slice - was->balance : was->slice;
	it->passed = passed;
	bpf_ringbuf_submit(it, BPF_RB_NO_WAKEUP);
}

/*
 * Charges the CPU time of the runner up to `now`, and updates the state of the account. The caller has the lock, and keeps it for
 * the change that follows from the charge: another CPU would find the time charged, and the change not made.
 */
static __always_inline void charge_locked(struct promise *promise, u64 now)
{
	if (promise->since && now > promise->since) {
		edf_charge(&promise->account, now - promise->since);
		promise->since = now;
	}
	edf_stop(&promise->account, false);
}

/* Charges the CPU time of the runner up to `now`. Returns the remaining slice; 0: no member is ahead of others. */
static s64 charge_until(struct promise *promise, u64 now)
{
	s64 left = 0;

	bpf_spin_lock(&promise->lock);
	charge_locked(promise, now);
	if (promise->account.state == EDF_RESERVED)
		left = promise->account.balance;
	bpf_spin_unlock(&promise->lock);
	return left;
}

/*
 * A member begins to run on `cpu`. Time elsewhere than on the CPU of the promise is charged only if the thread cannot go there.
 * Returns the remaining slice.
 */
static s64 begin_charge(s32 number, struct promise *promise, struct task_struct *p, s32 cpu, u64 now)
{
	bool is_home = cpu == promise->cpu, is_charged = is_home;
	s64 left = charge_until(promise, now);

	if (!is_home && !promise->since) {
		bpf_rcu_read_lock();
		is_charged = !bpf_cpumask_test_cpu(promise->cpu, p->cpus_ptr);
		bpf_rcu_read_unlock();
	}
	if (!is_charged)
		return left;
	bpf_spin_lock(&promise->lock);
	/* A thread that joins while a CPU chooses it has begun to run there meanwhile. */
	is_charged = !promise->since || promise->runner != p->pid;
	if (is_charged) {
		promise->since = now;
		promise->runner = p->pid;
	}
	bpf_spin_unlock(&promise->lock);
	if (is_charged)
		record(RECORD_RUN, number, now);
	return left;
}

/* A member ceases to run. */
static void end_charge(s32 number, struct promise *promise, s32 tid, u64 now)
{
	if (promise->runner != tid)
		return;
	bpf_spin_lock(&promise->lock);
	charge_locked(promise, now);
	promise->since = 0;
	promise->runner = 0;
	bpf_spin_unlock(&promise->lock);
	record(RECORD_STOP, number, now);
}

/* A member has become runnable. Returns the end of the period if the promise has, too; otherwise 0. */
static u64 count_runnable(struct promise *promise, struct thread *thread, u64 now)
{
	struct edf_account was = promise->account;
	bool throughout, is_first, has_ended;
	u64 deadline;

	if (__sync_val_compare_and_swap(&thread->is_counted, 0, 1))
		return 0;
	bpf_spin_lock(&promise->lock);
	is_first = promise->runnable++ == 0;
	if (is_first)
		edf_wake(&promise->account, now);
	deadline = promise->account.deadline;
	throughout = promise->throughout;
	has_ended = is_first && deadline != was.deadline;
	/* Only a period that begins now has no sleep in it. */
	if (has_ended)
		promise->throughout = deadline == now + promise->account.period;
	bpf_spin_unlock(&promise->lock);
	if (is_first)
		record(RECORD_WAKE, thread->promise, now);
	if (has_ended && was.has_begun)
		report_ended(thread->promise, &was, 1, throughout, now);
	return is_first ? deadline : 0;
}

/* A member is no longer runnable. */
static void count_blocked(s32 number, struct promise *promise, struct thread *thread, u64 now)
{
	bool is_last;

	if (!__sync_val_compare_and_swap(&thread->is_counted, 1, 0))
		return;
	bpf_spin_lock(&promise->lock);
	is_last = --promise->runnable == 0;
	if (is_last) {
		edf_block(&promise->account, now);
		promise->throughout = false;
	}
	bpf_spin_unlock(&promise->lock);
	if (is_last)
		record(RECORD_SLEEP, number, now);
}

/* Adds a member. Returns false if there is no room. */
static bool add_member(struct promise *promise, s32 tid)
{
	bool is_added = false;
	u32 at;

	bpf_spin_lock(&promise->lock);
	at = promise->count;
	if (at < MEMBERS_MAX) {
		promise->members[at] = tid;
		promise->count = at + 1;
		is_added = true;
	}
	bpf_spin_unlock(&promise->lock);
	return is_added;
}

/* Removes a member. The last one takes its place. */
static void remove_member(struct promise *promise, s32 tid)
{
	u32 at, last;

	bpf_spin_lock(&promise->lock);
	last = promise->count - 1;
	for (at = 0; at < MEMBERS_MAX; at++) {
		if (promise->members[at] != tid || last >= MEMBERS_MAX)
			continue;
		promise->members[at] = promise->members[last];
		promise->members[last] = 0;
		promise->count = last;
		break;
	}
	bpf_spin_unlock(&promise->lock);
}

#endif
