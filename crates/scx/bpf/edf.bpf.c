// SPDX-License-Identifier: GPL-2.0-only
/*
 * The policy `edf` in the kernel: reservations of a slice in every period, earliest deadline first. The rules of a
 * reservation are in edf.h; this file has the queues and the timers.
 *
 * The user side assigns each promised thread to a CPU before the start, and admits no more than a CPU has, as the Rust policy
 * with placement = partitioned does. Each CPU has a queue of its threads with a remaining slice, in the order of their
 * deadlines. All other threads run by weight (fair.h) while this queue is empty. A soft reservation whose slice is used up
 * competes with them, and a hard one waits in the queue HELD for its next period.
 *
 *   wake-up, period timer ──▶ queue of the CPU ──▶ dispatch() ──▶ running ──▶ slice timer ──▶ FAIR or HELD
 *
 * The timers are those of BPF: one for the end of the slice on each CPU, one for the period of each thread.
 */
#include "kernel.h"
#include "edf.h"
#include "events.h"
#include "fair.h"
#include "interface.h"

char _license[] SEC("license") = "GPL";

/* Hard reservations without a slice. */
#define HELD 3
/* The queue of CPU c is READY + c. */
#define READY 0x1000
/* Slice that the kernel knows. The timer ends a slice. */
#define LONG_SLICE_NS SCX_SLICE_DFL
/* Time until a thread that was in no queue is looked for again. */
#define AGAIN_NS 50000ULL

struct promise {
	struct edf_account account;
	struct bpf_spin_lock lock;
	s32 cpu;
	/* The CPU on which the thread runs. */
	s32 on;
	u16 is_blocked;
	/* Whether the thread waits in the queue of its CPU. */
	u16 is_ready;
	/* When the thread began to run; 0: it does not run. Up to this instant, its CPU time is charged. */
	u64 since;
	struct bpf_timer period;
};

struct cpu {
	struct bpf_timer slice;
};

struct thread {
	/* When the thread began to run. */
	u64 since;
	/* Its virtual time among the threads that compete. */
	u64 vtime;
	/* Whether it began with a slice of its promise. This time does not count for its share of the rest. */
	bool is_ahead;
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 4096);
	__type(key, s32);
	__type(value, struct promise);
} promises SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, CPUS_MAX);
	__type(key, u32);
	__type(value, struct cpu);
} cpus SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct thread);
} threads SEC(".maps");

/* What promised threads receive is counted by the user side, which then lacks some of it. */
static void lose(void)
{
	__sync_fetch_and_add(&lost, 1);
}

static struct promise *promise_of(struct task_struct *p)
{
	s32 tid = p->pid;

	return bpf_map_lookup_elem(&promises, &tid);
}

static struct cpu *cpu_at(s32 cpu)
{
	u32 at = cpu;

	return bpf_map_lookup_elem(&cpus, &at);
}

/* Charges the CPU time up to `now`. Returns the remaining slice; 0: the thread is not ahead of others. */
static s64 charge_until(struct promise *promise, u64 now, bool stops)
{
	struct edf_account *a = &promise->account;
	s64 left = 0;

	bpf_spin_lock(&promise->lock);
	if (promise->since && now > promise->since) {
		edf_charge(a, now - promise->since);
		promise->since = now;
	}
	if (stops)
		promise->since = 0;
	edf_stop(a, false);
	if (a->state == EDF_RESERVED)
		left = a->balance;
	bpf_spin_unlock(&promise->lock);
	return left;
}

/* Lets a promised thread run on its CPU for its remaining slice. */
static void begin_slice(struct promise *promise, s64 left)
{
	struct cpu *cpu = cpu_at(promise->cpu);

	if (!cpu)
		return;
	bpf_timer_start(&cpu->slice, left, BPF_F_TIMER_CPU_PIN);
}

/* Returns whether a promised thread is ahead of the others, and may run on its CPU. */
static bool is_ahead(struct task_struct *p, struct promise *promise)
{
	return promise && promise->account.state == EDF_RESERVED && bpf_cpumask_test_cpu(promise->cpu, p->cpus_ptr);
}

/* ---- Timers ---- */

static int end_slice(void *map, u32 *cpu, struct cpu *value)
{
	scx_bpf_kick_cpu(*cpu, SCX_KICK_PREEMPT);
	return 0;
}

/* Moves a thread that waits in `from` to the queue of its CPU. */
static bool move_to_ready(struct task_struct *p, struct promise *promise, u64 from)
{
	struct bpf_iter_scx_dsq it;
	bool done = false;

	bpf_rcu_read_lock();
	/* A thread whose mask changes after the iterator was created is enqueued again, and not moved. */
	if (!bpf_iter_scx_dsq_new(&it, from, 0) && is_ahead(p, promise)) {
		scx_bpf_dsq_move_set_slice(&it, LONG_SLICE_NS);
		scx_bpf_dsq_move_set_vtime(&it, promise->account.deadline);
		done = scx_bpf_dsq_move_vtime(&it, p, READY + promise->cpu, 0);
	}
	bpf_iter_scx_dsq_destroy(&it);
	bpf_rcu_read_unlock();
	return done;
}

static int begin_period(void *map, s32 *tid, struct promise *promise)
{
	u64 now = bpf_ktime_get_ns(), deadline;
	struct edf_account *a = &promise->account;
	struct task_struct *p;
	bool runs;
	u32 state;

	/* The next wake-up sets the timer again. To cancel it under the lock of a run queue would wait for this function. */
	if (promise->is_blocked)
		return 0;
	charge_until(promise, now, false);
	bpf_spin_lock(&promise->lock);
	if (now >= a->deadline)
		edf_renew(a, now);
	deadline = a->deadline;
	state = a->state;
	runs = promise->since;
	bpf_spin_unlock(&promise->lock);
	if (runs) {
		/* The CPU looks again. A thread that runs on another CPU than its own goes there. */
		scx_bpf_kick_cpu(promise->on, SCX_KICK_PREEMPT);
	} else if (state == EDF_RESERVED && !promise->is_ready) {
		p = bpf_task_from_pid(*tid);
		if (p && is_ahead(p, promise)) {
			if (move_to_ready(p, promise, FAIR) || move_to_ready(p, promise, HELD)) {
				promise->is_ready = 1;
				scx_bpf_kick_cpu(promise->cpu, SCX_KICK_PREEMPT);
			} else if (deadline - now > AGAIN_NS) {
				/* The thread is on its way to a queue. */
				deadline = now + AGAIN_NS;
			}
		}
		if (p)
			bpf_task_release(p);
	}
	bpf_timer_start(&promise->period, deadline, BPF_F_TIMER_ABS | BPF_F_TIMER_CPU_PIN);
	return 0;
}

/* ---- Threads ---- */

SEC("struct_ops.s/init_task")
s32 BPF_PROG(edf_init_task, struct task_struct *p, struct scx_init_task_args *args)
{
	return bpf_task_storage_get(&threads, p, 0, BPF_LOCAL_STORAGE_GET_F_CREATE) ? 0 : -12; /* ENOMEM */
}

SEC("struct_ops/enable")
void BPF_PROG(edf_enable, struct task_struct *p)
{
	struct thread *thread = bpf_task_storage_get(&threads, p, 0, 0);
	struct promise *promise = promise_of(p);
	u64 now = bpf_ktime_get_ns();

	if (thread)
		thread->vtime = fair_now;
	if (!promise)
		return;
	edf_open(&promise->account, promise->account.slice, promise->account.period, promise->account.is_hard, now);
	report_thread(p, EVENT_ATTACH, 0, &p->cpus_mask);
}

SEC("struct_ops/disable")
void BPF_PROG(edf_disable, struct task_struct *p)
{
	struct promise *promise = promise_of(p);

	if (!promise)
		return;
	promise->is_blocked = 1;
	report(p, EVENT_DETACH, -1, 0, bpf_ktime_get_ns());
}

SEC("struct_ops/runnable")
void BPF_PROG(edf_runnable, struct task_struct *p, u64 flags)
{
	struct promise *promise = promise_of(p);
	u64 now = bpf_ktime_get_ns(), deadline;

	if (!promise)
		return;
	bpf_spin_lock(&promise->lock);
	edf_wake(&promise->account, now);
	deadline = promise->account.deadline;
	bpf_spin_unlock(&promise->lock);
	promise->is_blocked = 0;
	bpf_timer_start(&promise->period, deadline, BPF_F_TIMER_ABS | BPF_F_TIMER_CPU_PIN);
	report(p, EVENT_WAKE, -1, 0, now);
}

SEC("struct_ops/quiescent")
void BPF_PROG(edf_quiescent, struct task_struct *p, u64 flags)
{
	struct promise *promise = promise_of(p);
	u64 now = bpf_ktime_get_ns();

	if (!promise)
		return;
	promise->is_blocked = 1;
	bpf_spin_lock(&promise->lock);
	edf_block(&promise->account, now);
	bpf_spin_unlock(&promise->lock);
	report(p, EVENT_SLEEP, -1, 0, now);
}

SEC("struct_ops/running")
void BPF_PROG(edf_running, struct task_struct *p)
{
	struct thread *thread = bpf_task_storage_get(&threads, p, 0, 0);
	struct promise *promise = promise_of(p);
	u64 now = bpf_ktime_get_ns();
	s32 cpu = scx_bpf_task_cpu(p);
	s64 left = 0;

	if (!thread)
		return;
	thread->since = now;
	thread->is_ahead = false;
	if (promise) {
		report(p, EVENT_RUN, cpu, 0, now);
		bpf_spin_lock(&promise->lock);
		promise->since = now;
		promise->on = cpu;
		bpf_spin_unlock(&promise->lock);
		promise->is_ready = 0;
		left = charge_until(promise, now, false);
		if (left > 0 && promise->cpu == cpu) {
			thread->is_ahead = true;
			begin_slice(promise, left);
			return;
		}
	}
	fair_begin(thread->vtime);
	/* These threads must run. The kernel gives some of them a long slice. */
	if (p->migration_disabled || p->flags & PF_EXITING || serves_cpu(p)) {
		if (p->scx.slice > FAIR_SLICE_NS)
			set_slice(p, FAIR_SLICE_NS);
		return;
	}
	/*
	 * A real-time thread had preempted this thread, and a promised thread came meanwhile, which could not kick the CPU; or a
	 * new period has begun for this thread on a CPU that is not its own.
	 */
	if ((left > 0 && is_ahead(p, promise)) || scx_bpf_dsq_nr_queued(READY + cpu) > 0) {
		set_slice(p, 0);
		scx_bpf_kick_cpu(cpu, SCX_KICK_PREEMPT);
	}
}

SEC("struct_ops/stopping")
void BPF_PROG(edf_stopping, struct task_struct *p, bool runnable)
{
	struct thread *thread = bpf_task_storage_get(&threads, p, 0, 0);
	struct promise *promise = promise_of(p);
	u64 now = bpf_ktime_get_ns();

	if (!thread)
		return;
	if (!thread->is_ahead)
		fair_charge(p, &thread->vtime, now - thread->since);
	if (!promise)
		return;
	charge_until(promise, now, true);
	report(p, EVENT_STOP, scx_bpf_task_cpu(p), 0, now);
}

SEC("struct_ops/yield")
bool BPF_PROG(edf_yield, struct task_struct *from, struct task_struct *to)
{
	struct promise *promise = promise_of(from);
	u64 now = bpf_ktime_get_ns();

	if (promise) {
		charge_until(promise, now, false);
		bpf_spin_lock(&promise->lock);
		edf_stop(&promise->account, true);
		bpf_spin_unlock(&promise->lock);
	}
	set_slice(from, 0);
	return false;
}

/* ---- Dispatch ---- */

SEC("struct_ops/select_cpu")
s32 BPF_PROG(edf_select_cpu, struct task_struct *p, s32 prev_cpu, u64 flags)
{
	struct promise *promise = promise_of(p);

	/* runnable() has not begun a new period yet, so a promised thread takes the way of enqueue(). */
	return promise ? promise->cpu : fair_select_cpu(p, prev_cpu, flags);
}

SEC("struct_ops/enqueue")
void BPF_PROG(edf_enqueue, struct task_struct *p, u64 flags)
{
	struct thread *thread = bpf_task_storage_get(&threads, p, 0, 0);
	struct promise *promise = promise_of(p);
	s32 here = bpf_get_smp_processor_id();
	bool goes_ahead = is_ahead(p, promise);

	if (promise)
		promise->is_ready = goes_ahead;
	if (promise && goes_ahead) {
		scx_bpf_dsq_insert_vtime(p, READY + promise->cpu, LONG_SLICE_NS, promise->account.deadline, flags);
		/* A CPU that stops the thread dispatches afterwards anyway. */
		if (flags & SCX_ENQ_WAKEUP || promise->cpu != here)
			scx_bpf_kick_cpu(promise->cpu, SCX_KICK_PREEMPT);
	} else if (promise && promise->account.state == EDF_DEPLETED) {
		scx_bpf_dsq_insert_vtime(p, HELD, LONG_SLICE_NS, promise->account.deadline, flags);
	} else if (thread) {
		fair_enqueue(p, &thread->vtime, flags);
	} else {
		scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL, FAIR_SLICE_NS, flags);
	}
}

/* Returns the earliest deadline of the waiting threads with a slice; 0: none waits. */
static u64 first_deadline(s32 cpu)
{
	struct bpf_iter_scx_dsq it;
	struct task_struct *p = 0;
	u64 deadline = 0;

	if (!bpf_iter_scx_dsq_new(&it, READY + cpu, 0))
		p = bpf_iter_scx_dsq_next(&it);
	if (p)
		deadline = p->scx.dsq_vtime;
	bpf_iter_scx_dsq_destroy(&it);
	return deadline;
}

SEC("struct_ops/dispatch")
void BPF_PROG(edf_dispatch, s32 cpu, struct task_struct *prev)
{
	u64 first = first_deadline(cpu);
	struct promise *promise;
	s64 left = 0;

	if (prev && prev->scx.flags & SCX_TASK_QUEUED) {
		promise = promise_of(prev);
		if (promise && promise->cpu == cpu)
			left = charge_until(promise, bpf_ktime_get_ns(), false);
		if (left > 0 && (!first || promise->account.deadline <= first)) {
			set_slice(prev, LONG_SLICE_NS);
			begin_slice(promise, left);
			return;
		}
	}
	if (first && scx_bpf_dsq_move_to_local(READY + cpu))
		return;
	scx_bpf_dsq_move_to_local(FAIR);
}

static long prepare(void *map, s32 *tid, struct promise *promise, void *nothing)
{
	bpf_timer_init(&promise->period, &promises, CLOCK_MONOTONIC);
	bpf_timer_set_callback(&promise->period, begin_period);
	return 0;
}

/* The kernel allows the callbacks of this program to move threads between queues. */
SEC("struct_ops.s/init")
s32 BPF_PROG(edf_init)
{
	u32 count = scx_bpf_nr_cpu_ids(), at;
	s32 error = scx_bpf_create_dsq(FAIR, -1);

	if (!error)
		error = scx_bpf_create_dsq(HELD, -1);
	bpf_for(at, 0, count) {
		struct cpu *cpu = cpu_at(at);

		if (!cpu || error)
			break;
		error = scx_bpf_create_dsq(READY + at, -1);
		bpf_timer_init(&cpu->slice, &cpus, CLOCK_MONOTONIC);
		bpf_timer_set_callback(&cpu->slice, end_slice);
	}
	bpf_for_each_map_elem(&promises, prepare, 0, 0);
	return error;
}

SEC("struct_ops/exit")
void BPF_PROG(edf_exit, struct scx_exit_info *info)
{
	store_ending(info);
}

SEC(".struct_ops.link")
struct sched_ext_ops edf = {
	.select_cpu = (void *)edf_select_cpu,
	.enqueue = (void *)edf_enqueue,
	.dispatch = (void *)edf_dispatch,
	.runnable = (void *)edf_runnable,
	.running = (void *)edf_running,
	.stopping = (void *)edf_stopping,
	.quiescent = (void *)edf_quiescent,
	.yield = (void *)edf_yield,
	.init_task = (void *)edf_init_task,
	.enable = (void *)edf_enable,
	.disable = (void *)edf_disable,
	.init = (void *)edf_init,
	.exit = (void *)edf_exit,
	.flags = SCX_OPS_ENQ_LAST,
	.timeout_ms = 20000,
	.name = "tactus_edf",
};
