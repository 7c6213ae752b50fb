/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The periods of promises, which edf.bpf.c includes after its queues: a timer begins a period, and brings the members to the
 * queue of the CPU.
 *
 * The periods of a gang begin together. The first timer of the gang that fires begins the period of every member, and kicks
 * their CPUs at once: a timer of one CPU that is late delays no sibling. From there on, each CPU runs its threads in the order
 * of their deadlines, which the siblings have in common.
 */
#ifndef TACTUS_PERIODS_H
#define TACTUS_PERIODS_H

/* Moves a thread that waits in `from` to the queue of its CPU. */
static bool move_to_ready(struct task_struct *p, struct thread *thread, struct promise *promise, u64 from)
{
	struct bpf_iter_scx_dsq it;
	bool done = false;

	bpf_rcu_read_lock();
	/* A thread whose mask changes after the iterator was created is enqueued again, and not moved. */
	if (!bpf_iter_scx_dsq_new(&it, from, 0) && is_ahead(p, promise)) {
		scx_bpf_dsq_move_set_slice(&it, LONG_SLICE_NS);
		scx_bpf_dsq_move_set_vtime(&it, key_of(thread, promise, false));
		done = scx_bpf_dsq_move_vtime(&it, p, READY + promise->cpu, 0);
	}
	bpf_iter_scx_dsq_destroy(&it);
	bpf_rcu_read_unlock();
	if (is_recording && done)
		record(RECORD_MOVE, thread->promise, bpf_ktime_get_ns());
	return done;
}

/*
 * A slice has become available: the members that wait move to the queue of the CPU, and the CPUs of those that run look again.
 * Returns whether a member is on its way to a queue.
 */
static bool bring_members(struct promise *promise)
{
	bool is_under_way = false, has_moved = false;
	u32 at, count = promise->count;

	bpf_for(at, 0, count) {
		s32 tid = promise->members[at & (MEMBERS_MAX - 1)];
		struct task_struct *p = tid ? bpf_task_from_pid(tid) : 0;
		struct thread *thread;

		if (!p)
			continue;
		thread = thread_of(p);
		if (thread && thread->is_counted && thread->on >= 0) {
			/* A thread that runs on another CPU than that of its promise goes there. */
			scx_bpf_kick_cpu(thread->on, SCX_KICK_PREEMPT);
		} else if (thread && thread->is_counted && thread->is_ready) {
			/* A thread that has waited past the end of its period has a later deadline now. */
			move_to_ready(p, thread, promise, READY + promise->cpu);
		} else if (thread && thread->is_counted && is_ahead(p, promise)) {
			thread->is_ready = move_to_ready(p, thread, promise, fair_queue(&thread->member)) ||
					   move_to_ready(p, thread, promise, HELD);
			has_moved |= thread->is_ready;
			is_under_way |= !thread->is_ready;
		}
		bpf_task_release(p);
	}
	if (has_moved)
		scx_bpf_kick_cpu(promise->cpu, SCX_KICK_PREEMPT);
	/* A member that has left or come meanwhile has moved others to other places. */
	return is_under_way || promise->count != count;
}

/* Returns whether the members must be brought, and have a slice. */
static bool must_bring(struct promise *promise)
{
	return promise->must_bring && promise->account.state == EDF_RESERVED;
}

/* Brings the members if they must be brought: the timers of a gang do so on several CPUs, and one of them is enough. */
static void bring(struct promise *promise)
{
	if (must_bring(promise) && __sync_val_compare_and_swap(&promise->must_bring, 1, 0) && bring_members(promise))
		promise->must_bring = 1;
}

/* Begins a period of a promise, if the last one is over. Returns whether it was. */
static bool renew(s32 number, struct promise *promise, u64 now)
{
	struct edf_account *a = &promise->account, was;
	bool throughout, is_over;
	u64 next, passed = 0;

	bpf_spin_lock(&promise->lock);
	charge_locked(promise, now);
	was = *a;
	throughout = promise->throughout;
	is_over = now >= a->deadline;
	if (is_over) {
		edf_renew(a, now);
		promise->throughout = true;
		promise->must_bring = 1;
	}
	next = a->deadline;
	bpf_spin_unlock(&promise->lock);
	if (is_over)
		record(RECORD_RENEW, number, now);
	if (next != was.deadline && was.has_begun)
		passed = (next - was.deadline) / was.period;
	if (passed)
		report_ended(number, &was, passed, throughout, now);
	return is_over;
}

/* Begins a period of each runnable sibling of promise `number`. Their timers find nothing to do then. */
static void begin_siblings(s32 number, struct promise *promise, u64 now)
{
	s32 next = promise->sibling;
	u32 at;

	bpf_for(at, 0, CPUS_MAX) {
		struct promise *sibling = next && next != number ? bpf_map_lookup_elem(&promises, &next) : 0;

		if (!sibling)
			break;
		if (sibling->runnable > 0) {
			renew(next, sibling, now);
			bring(sibling);
			if (must_bring(sibling))
				bpf_timer_start(&sibling->period, now + AGAIN_NS, BPF_F_TIMER_ABS | BPF_F_TIMER_CPU_PIN);
		}
		next = sibling->sibling;
	}
}

static int begin_period(void *map, s32 *number, struct promise *promise)
{
	u64 now = bpf_ktime_get_ns(), next;
	bool again;

	/* The next wake-up sets the timer again. To cancel it under the lock of a run queue would wait for this function. */
	if (promise->runnable <= 0)
		return 0;
	if (renew(*number, promise, now))
		begin_siblings(*number, promise, now);
	bring(promise);
	again = must_bring(promise);
	next = promise->account.deadline;
	if (again && next - now > AGAIN_NS)
		next = now + AGAIN_NS;
	bpf_timer_start(&promise->period, next, BPF_F_TIMER_ABS | BPF_F_TIMER_CPU_PIN);
	/* A sibling may have set the timer meanwhile, for a member on its way to a queue. */
	if (!again && must_bring(promise))
		bpf_timer_start(&promise->period, now + AGAIN_NS, BPF_F_TIMER_ABS | BPF_F_TIMER_CPU_PIN);
	return 0;
}

#endif
