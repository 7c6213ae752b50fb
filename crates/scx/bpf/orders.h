/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The orders of the user side to edf.bpf.c, which includes this file after its queues and its timers: promises begin, change and
 * end, and threads join and leave them, while the scheduler runs.
 */
#ifndef TACTUS_ORDERS_H
#define TACTUS_ORDERS_H

#include "gang.h"

/* Records the begin of a promise. */
static void record_begin(struct order *order, struct promise *promise, u64 now)
{
	struct record *it = begin_record(RECORD_BEGIN, order->promise, now);

	if (!it)
		return;
	it->slice = promise->account.slice;
	it->period = promise->account.period;
	it->home = promise->cpu;
	it->gang = order->sibling;
	it->is_hard = promise->account.is_hard;
	end_record(it);
}

/* Begins the periods of a promise: now, or with those of its gang. */
static long begin(struct order *order, struct promise *promise, u64 now)
{
	struct edf_account *a = &promise->account;
	u64 start = now;
	long error = order->sibling ? join_gang(order, promise, &start, now) : 0;

	if (error)
		return error;
	bpf_timer_init(&promise->period, &promises, CLOCK_MONOTONIC);
	bpf_timer_set_callback(&promise->period, begin_period);
	bpf_spin_lock(&promise->lock);
	if (order->sibling)
		edf_open_fixed(a, a->slice, a->period, a->is_hard, start, now);
	else
		edf_open(a, a->slice, a->period, a->is_hard, now);
	bpf_spin_unlock(&promise->lock);
	record_begin(order, promise, now);
	return 0;
}

/* Changes the reservation of a promise, whose first new period begins at `due`. */
static void change_from(struct order *order, struct promise *promise, u64 due, u64 now)
{
	bpf_spin_lock(&promise->lock);
	edf_change(&promise->account, order->slice, order->period, due, now);
	promise->throughout = false;
	promise->must_bring = 1;
	bpf_spin_unlock(&promise->lock);
	bpf_timer_start(&promise->period, now, BPF_F_TIMER_ABS);
	/* A member that runs may have no slice any more. */
	scx_bpf_kick_cpu(promise->cpu, SCX_KICK_PREEMPT);
}

/*
 * Changes the reservation of a promise, and that of its siblings with it: their new periods begin together, when the used part of
 * every slice is due. The orders for the siblings then find nothing to change.
 */
static void change(struct order *order, struct promise *promise, u64 now)
{
	struct edf_account *a = &promise->account;
	s32 next = order->promise;
	u64 due = 0, used_until;
	u32 at;

	if (promise->sibling && a->slice == order->slice && a->period == order->period)
		return;
	bpf_for(at, 0, CPUS_MAX) {
		struct promise *it = next ? bpf_map_lookup_elem(&promises, &next) : 0;

		if (!it)
			break;
		charge_until(it, now);
		used_until = edf_used_until(&it->account);
		if (used_until > due)
			due = used_until;
		next = it->sibling != order->promise ? it->sibling : 0;
	}
	next = order->promise;
	bpf_for(at, 0, CPUS_MAX) {
		struct promise *it = next ? bpf_map_lookup_elem(&promises, &next) : 0;

		if (!it)
			break;
		change_from(order, it, due, now);
		next = it->sibling != order->promise ? it->sibling : 0;
	}
}

/* Moves a thread that waits for a period of its promise to the threads that compete. */
static void move_to_fair(struct task_struct *p)
{
	struct bpf_iter_scx_dsq it;

	bpf_rcu_read_lock();
	if (!bpf_iter_scx_dsq_new(&it, HELD, 0))
		move_back(&it, p, 0);
	bpf_iter_scx_dsq_destroy(&it);
	bpf_rcu_read_unlock();
}

/* A thread that waits or runs has become a member: the kernel has called runnable() and running() already. */
static void begin_membership(struct task_struct *p, struct promise *promise, struct thread *thread, u64 now)
{
	bool is_observed = is_reported(REPORT_THREADS);

	if (is_observed)
		report_thread(p, EVENT_ATTACH, 0, &p->cpus_mask);
	if (!(p->scx.flags & SCX_TASK_QUEUED))
		return;
	begin_runnable(promise, thread, now);
	/* It may have fallen asleep meanwhile. */
	if (!(p->scx.flags & SCX_TASK_QUEUED)) {
		count_blocked(thread->promise, promise, thread, now);
		return;
	}
	/* The timer brings it to the queue of the CPU. */
	promise->must_bring = 1;
	bpf_timer_start(&promise->period, now, BPF_F_TIMER_ABS);
	if (is_observed)
		report(p, EVENT_WAKE, -1, 0, now);
	if (thread->on < 0)
		return;
	/* It may have begun to run after `now`, and may stop before it is charged. */
	begin_charge(thread->promise, promise, p, thread->on, bpf_ktime_get_ns());
	if (thread->on < 0)
		end_charge(thread->promise, promise, p->pid, bpf_ktime_get_ns());
	if (is_observed)
		report(p, EVENT_RUN, thread->on, 0, now);
}

static long join(struct order *order, u64 now)
{
	struct promise *promise = bpf_map_lookup_elem(&promises, &order->promise);
	struct task_struct *p = promise ? bpf_task_from_pid(order->tid) : 0;
	struct thread *thread = p ? thread_of(p) : 0;
	long error = 0;

	if (!p)
		return -ESRCH;
	if (!thread || thread->promise) {
		error = -EEXIST;
	} else if (!add_member(promise, p->pid)) {
		error = -ENOSPC;
	} else {
		thread->is_helper = order->is_helper;
		thread->promise = order->promise;
		begin_membership(p, promise, thread, now);
	}
	bpf_task_release(p);
	return error;
}

static long leave(struct order *order, u64 now)
{
	struct promise *promise = bpf_map_lookup_elem(&promises, &order->promise);
	struct task_struct *p = bpf_task_from_pid(order->tid);
	struct thread *thread = p ? thread_of(p) : 0;
	bool is_held;

	if (promise)
		remove_member(promise, order->tid);
	if (!p)
		return 0;
	if (thread && promise && thread->promise == order->promise) {
		is_held = promise->account.state == EDF_DEPLETED && p->scx.flags & SCX_TASK_QUEUED && thread->on < 0;
		/* From now on, its wake-ups and runs do not count. */
		thread->promise = 0;
		end_charge(order->promise, promise, p->pid, now);
		count_blocked(order->promise, promise, thread, now);
		/* Only a thread that waits for a period is in a queue that no CPU looks into. */
		if (is_held)
			move_to_fair(p);
	}
	bpf_task_release(p);
	return 0;
}

/* Carries out an order. Returns 0, or a negative error number. */
SEC("syscall")
int edf_apply(struct order *order)
{
	u64 now = bpf_ktime_get_ns();
	struct promise *promise;
	s32 number = order->promise;

	if (order->kind == ORDER_JOIN)
		return join(order, now);
	if (order->kind == ORDER_LEAVE)
		return leave(order, now);
	promise = bpf_map_lookup_elem(&promises, &number);
	if (!promise)
		return -ESRCH;
	if (order->kind == ORDER_BEGIN)
		return begin(order, promise, now);
	if (order->kind == ORDER_CHANGE)
		change(order, promise, now);
	if (order->kind == ORDER_END)
		leave_gang(number, promise);
	return 0;
}

#endif
