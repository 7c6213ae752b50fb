// SPDX-License-Identifier: GPL-2.0-only
/*
 * The policies `edf` and `gang-edf` in the kernel: reservations of a slice in every period, earliest deadline first. The rules
 * of a reservation are in edf.h, those of its members in promise.h, and the periods in periods.h; this file has the queues.
 *
 * The user side assigns each promise to a CPU, and admits no more than a CPU has, as the Rust policy with placement =
 * partitioned does. Each CPU has a queue of the threads whose promises have a remaining slice, in the order of their deadlines.
 * The promises of a gang are on different CPUs, and their periods begin together (gang.h).
 * The members of a promise take turns; a helper precedes the others when it wakes. All other threads run by weight (fair.h) while
 * this queue is empty. A soft reservation whose slice is used up competes with them, and a hard one waits in the queue HELD for
 * its next period.
 *
 *   wake-up, period timer ──▶ queue of the CPU ──▶ dispatch() ──▶ running ──▶ slice timer ──▶ FAIR or HELD
 *
 * The timers are those of BPF: one for the end of the slice on each CPU, one for the period of each promise.
 *
 * tests/port compares the decisions for promised threads with those of the Rust policy. The differences:
 *
 * - The comparison takes promises before the start, and does not change them. tests/edf_rules.rs compares the rules of a change,
 *   but not for a gang.
 * - A thread whose slice is used up competes on all CPUs of its mask, by weight. In the Rust policy, it competes on its own CPU,
 *   round robin.
 * - A thread whose mask loses the CPU of its promise competes with the others. The Rust policy assigns it to another CPU.
 */
#include "kernel.h"
#include "cgroups.h"
#include "edf.h"
#include "events.h"
#include "interface.h"
#include "promise.h"

char _license[] SEC("license") = "GPL";

/* Hard reservations without a slice. */
#define HELD 3
/* The queue of CPU c is READY + c. */
#define READY 0x1000
/* Slice that the kernel knows. The timer ends a slice. */
#define LONG_SLICE_NS SCX_SLICE_DFL
/* The same for a thread that shares a promise: the members take turns. */
#define TURN_NS 2000000ULL
/* Time until a thread that was in no queue is looked for again. */
#define AGAIN_NS 50000ULL
/* Maximum number of threads without a slice for which one dispatch looks for an idle CPU. */
#define OTHERS_MOST 8

struct cpu {
	struct bpf_timer slice;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, CPUS_MAX);
	__type(key, u32);
	__type(value, struct cpu);
} cpus SEC(".maps");

/* What promised threads receive is counted by the user side, which then lacks some of it. */
static void lose(void)
{
	__sync_fetch_and_add(&lost, 1);
}

static struct cpu *cpu_at(s32 cpu)
{
	u32 at = cpu;

	return bpf_map_lookup_elem(&cpus, &at);
}

/* Lets a promised thread run on its CPU for its remaining slice, or for its turn. */
static void begin_slice(struct promise *promise, s64 left)
{
	struct cpu *cpu = cpu_at(promise->cpu);

	if (!cpu)
		return;
	if (promise->count > 1 && left > TURN_NS)
		left = TURN_NS;
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

#include "periods.h"

/* ---- Threads ---- */

SEC("struct_ops.s/init_task")
s32 BPF_PROG(edf_init_task, struct task_struct *p, struct scx_init_task_args *args)
{
	struct thread *thread = bpf_task_storage_get(&threads, p, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);

	if (!thread)
		return -ENOMEM;
	fair_init_task(&thread->member, args);
	return 0;
}

SEC("struct_ops/exit_task")
void BPF_PROG(edf_exit_task, struct task_struct *p, struct scx_exit_task_args *args)
{
	struct promise *promise = promise_of(thread_of(p));

	if (promise)
		remove_member(promise, p->pid);
}

SEC("struct_ops/enable")
void BPF_PROG(edf_enable, struct task_struct *p)
{
	struct thread *thread = thread_of(p);

	if (!thread)
		return;
	thread->on = -1;
	if (thread->promise && is_reported(REPORT_THREADS))
		report_thread(p, EVENT_ATTACH, 0, &p->cpus_mask);
}

SEC("struct_ops/disable")
void BPF_PROG(edf_disable, struct task_struct *p)
{
	struct thread *thread = thread_of(p);
	struct promise *promise = promise_of(thread);
	u64 now = bpf_ktime_get_ns();

	if (!promise || !thread)
		return;
	count_blocked(thread->promise, promise, thread, now);
	if (is_reported(REPORT_THREADS))
		report(p, EVENT_DETACH, -1, 0, now);
}

/* A member is runnable. Begins the timer of its promise. */
static void begin_runnable(struct promise *promise, struct thread *thread, u64 now)
{
	u64 deadline = count_runnable(promise, thread, now);

	if (deadline)
		bpf_timer_start(&promise->period, deadline, BPF_F_TIMER_ABS | BPF_F_TIMER_CPU_PIN);
}

SEC("struct_ops/runnable")
void BPF_PROG(edf_runnable, struct task_struct *p, u64 flags)
{
	struct thread *thread = thread_of(p);
	struct promise *promise = promise_of(thread);
	u64 now = bpf_ktime_get_ns();

	if (!promise || !thread || thread->is_counted)
		return;
	begin_runnable(promise, thread, now);
	if (is_reported(REPORT_THREADS))
		report(p, EVENT_WAKE, -1, 0, now);
}

SEC("struct_ops/quiescent")
void BPF_PROG(edf_quiescent, struct task_struct *p, u64 flags)
{
	struct thread *thread = thread_of(p);
	struct promise *promise = promise_of(thread);
	u64 now = bpf_ktime_get_ns();

	if (thread) {
		thread->is_ready = false;
		fair_quiescent(&thread->member, now);
	}
	/* A thread whose nice value or mask changes leaves the queues and comes back. It has not slept. */
	if (!promise || !thread || !(flags & SCX_DEQ_SLEEP))
		return;
	count_blocked(thread->promise, promise, thread, now);
	if (is_reported(REPORT_THREADS))
		report(p, EVENT_SLEEP, -1, 0, now);
}

SEC("struct_ops/running")
void BPF_PROG(edf_running, struct task_struct *p)
{
	struct thread *thread = thread_of(p);
	struct promise *promise = promise_of(thread);
	u64 now = bpf_ktime_get_ns();
	s32 cpu = scx_bpf_task_cpu(p);
	s64 left = 0;

	if (!thread)
		return;
	thread->on = cpu;
	thread->is_ready = false;
	if (promise) {
		if (is_reported(REPORT_THREADS))
			report(p, EVENT_RUN, cpu, 0, now);
		left = begin_charge(thread->promise, promise, p, cpu, now);
		if (left > 0 && promise->cpu == cpu) {
			begin_slice(promise, left);
			return;
		}
	}
	fair_running(p, &thread->member, cpu, now);
	if (must_run(p))
		return;
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
	struct thread *thread = thread_of(p);
	struct promise *promise = promise_of(thread);
	u64 now = bpf_ktime_get_ns();

	if (!thread)
		return;
	thread->on = -1;
	fair_stopping(&thread->member, scx_bpf_task_cpu(p), now);
	if (!promise)
		return;
	end_charge(thread->promise, promise, p->pid, now);
	if (is_reported(REPORT_THREADS))
		report(p, EVENT_STOP, scx_bpf_task_cpu(p), 0, now);
}

SEC("struct_ops/yield")
bool BPF_PROG(edf_yield, struct task_struct *from, struct task_struct *to)
{
	struct thread *thread = thread_of(from);
	struct promise *promise = promise_of(thread);
	u64 now = bpf_ktime_get_ns();
	bool gives_up;

	/* A yield to another thread, as of a vCPU that spins, gives up nothing. */
	if (to)
		return false;
	if (thread)
		thread->member.has_yielded = true;
	if (promise) {
		bpf_spin_lock(&promise->lock);
		charge_locked(promise, now);
		/* The others of the promise keep the rest of the slice. */
		gives_up = promise->count == 1 && promise->account.state == EDF_RESERVED;
		edf_stop(&promise->account, promise->count == 1);
		bpf_spin_unlock(&promise->lock);
		if (gives_up)
			record(RECORD_YIELD, thread->promise, now);
	}
	set_slice(from, 0);
	return false;
}

/* ---- Dispatch ---- */

SEC("struct_ops/select_cpu")
s32 BPF_PROG(edf_select_cpu, struct task_struct *p, s32 prev_cpu, u64 flags)
{
	struct thread *thread = thread_of(p);
	struct promise *promise = promise_of(thread);

	/* runnable() has not begun a new period yet, so a promised thread takes the way of enqueue(). */
	return promise ? promise->cpu : fair_select_cpu(p, member_of(p), prev_cpu, flags);
}

/* Returns the time after which the kernel asks again for the thread to run. */
static u64 turn_of(struct promise *promise)
{
	return promise->count > 1 ? TURN_NS : LONG_SLICE_NS;
}

SEC("struct_ops/enqueue")
void BPF_PROG(edf_enqueue, struct task_struct *p, u64 flags)
{
	struct thread *thread = thread_of(p);
	struct promise *promise = promise_of(thread);
	s32 here = bpf_get_smp_processor_id();
	bool goes_ahead = is_ahead(p, promise);

	if (thread)
		thread->is_ready = goes_ahead;
	if (thread && promise && goes_ahead) {
		/* A helper that spins has only the turns of the others. */
		u64 key = key_of(thread, promise, thread->is_helper && flags & SCX_ENQ_WAKEUP);

		scx_bpf_dsq_insert_vtime(p, READY + promise->cpu, turn_of(promise), key, flags);
		if (is_recording && (flags & SCX_ENQ_WAKEUP || promise->cpu != here))
			record(RECORD_MOVE, thread->promise, bpf_ktime_get_ns());
		/* A CPU that stops the thread dispatches afterwards anyway. */
		if (flags & SCX_ENQ_WAKEUP || promise->cpu != here)
			scx_bpf_kick_cpu(promise->cpu, SCX_KICK_PREEMPT);
	} else if (promise && promise->account.state == EDF_DEPLETED) {
		scx_bpf_dsq_insert_vtime(p, HELD, LONG_SLICE_NS, promise->account.deadline, flags);
	} else if (thread) {
		fair_enqueue(p, &thread->member, flags);
	} else {
		scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL, FAIR_SLICE_NS, flags);
	}
}

/*
 * Returns whether the first waiting thread with a slice precedes `prev`, which belongs to `promise`: by its key, or by turns
 * among the members of a promise.
 */
static bool first_precedes(s32 cpu, struct task_struct *prev, struct thread *thread, struct promise *promise)
{
	u64 key = key_of(thread, promise, false);
	struct task_struct *first = 0;
	struct bpf_iter_scx_dsq it;
	struct thread *other;
	bool precedes = false;

	if (!bpf_iter_scx_dsq_new(&it, READY + cpu, 0))
		first = bpf_iter_scx_dsq_next(&it);
	if (first) {
		other = thread_of(first);
		precedes = (s64)(first->scx.dsq_vtime - key) < 0;
		if (other && other->promise == thread->promise)
			precedes |= first->scx.dsq_vtime == key && !prev->scx.slice;
	}
	bpf_iter_scx_dsq_destroy(&it);
	return precedes;
}

/* Moves a thread that waits to the queue in which it competes, or waits for its next period. */
static void move_back(struct bpf_iter_scx_dsq *it, struct task_struct *p, struct promise *promise)
{
	struct thread *thread = thread_of(p);
	u64 now = bpf_ktime_get_ns();
	struct place place = {};

	if (!thread)
		return;
	thread->is_ready = false;
	scx_bpf_dsq_move_set_slice(it, FAIR_SLICE_NS);
	if (promise && promise->account.state == EDF_DEPLETED) {
		scx_bpf_dsq_move_set_vtime(it, promise->account.deadline);
		scx_bpf_dsq_move_vtime(it, p, HELD, 0);
		return;
	}
	fair_place(p, &thread->member, now, &place);
	thread->member.waits_since = now;
	thread->member.held = place.held;
	scx_bpf_dsq_move_set_vtime(it, place.held ? thread->member.tag : place.at);
	scx_bpf_dsq_move_vtime(it, p, fair_queue(&thread->member), 0);
	fair_kick_idle(p);
}

/* The first threads in the queue of a CPU go back if another member has used up their slice, or if they have left. */
static void move_depleted_back(s32 cpu)
{
	bool is_done = false;
	u32 at;

	bpf_for(at, 0, MEMBERS_MAX) {
		struct bpf_iter_scx_dsq it;
		struct promise *promise;
		struct task_struct *p = 0;

		if (!bpf_iter_scx_dsq_new(&it, READY + cpu, 0))
			p = bpf_iter_scx_dsq_next(&it);
		promise = p ? promise_of(thread_of(p)) : 0;
		is_done = !p || (promise && promise->account.state == EDF_RESERVED);
		if (!is_done)
			move_back(&it, p, promise);
		bpf_iter_scx_dsq_destroy(&it);
		if (is_done)
			break;
	}
}

/*
 * Wakes an idle CPU for a thread without a slice. The CPU that was idle when the thread came, and was kicked for it, may run
 * another thread, which came before it dispatched.
 */
static void wake_for_others(void)
{
	struct bpf_iter_scx_dsq it;
	s32 idle = -1;
	u32 at;

	if (!bpf_iter_scx_dsq_new(&it, FAIR, 0)) {
		bpf_for(at, 0, OTHERS_MOST) {
			struct task_struct *p = bpf_iter_scx_dsq_next(&it);

			if (!p)
				break;
			idle = scx_bpf_pick_idle_cpu(p->cpus_ptr, 0);
			if (idle >= 0)
				break;
		}
	}
	bpf_iter_scx_dsq_destroy(&it);
	if (idle >= 0)
		scx_bpf_kick_cpu(idle, SCX_KICK_IDLE);
}

/* Records the choice of the first waiting thread with a slice. */
static void record_first(s32 cpu, u64 now)
{
	struct bpf_iter_scx_dsq it;
	struct task_struct *p = 0;
	struct promise *promise;
	struct thread *thread;

	if (!is_recording)
		return;
	if (!bpf_iter_scx_dsq_new(&it, READY + cpu, 0))
		p = bpf_iter_scx_dsq_next(&it);
	thread = p ? thread_of(p) : 0;
	promise = promise_of(thread);
	if (thread && promise)
		record_choice(thread->promise, promise->account.deadline, promise->account.balance, now);
	else
		record_choice(0, 0, 0, now);
	bpf_iter_scx_dsq_destroy(&it);
}

/* `prev` goes on with a slice of its promise. It may have run without one until now. */
static void go_ahead(struct task_struct *prev, struct thread *thread, struct promise *promise, s64 left, u64 now)
{
	fair_stopping(&thread->member, scx_bpf_task_cpu(prev), now);
	set_slice(prev, turn_of(promise));
	begin_slice(promise, left);
}

SEC("struct_ops/dispatch")
void BPF_PROG(edf_dispatch, s32 cpu, struct task_struct *prev)
{
	u64 now = bpf_ktime_get_ns();
	struct member *member = 0;
	struct promise *promise;
	struct thread *thread;
	s64 left = 0;

	begin_beats(cpu);
	if (prev && prev->scx.flags & SCX_TASK_QUEUED) {
		thread = thread_of(prev);
		promise = promise_of(thread);
		if (promise && promise->cpu == cpu)
			left = charge_until(promise, now);
		move_depleted_back(cpu);
		if (thread && left > 0 && !first_precedes(cpu, prev, thread, promise)) {
			record_choice(thread->promise, promise->account.deadline, left, now);
			go_ahead(prev, thread, promise, left, now);
			return;
		}
		/* The time until another thread runs is of neither slice. */
		if (thread && left > 0)
			end_charge(thread->promise, promise, prev->pid, now);
		/* A thread with a slice that belongs to another CPU goes there. */
		if (thread && !is_ahead(prev, promise))
			member = &thread->member;
	} else {
		move_depleted_back(cpu);
	}
	record_first(cpu, now);
	if (!scx_bpf_dsq_move_to_local(READY + cpu))
		fair_dispatch(cpu, prev, member);
	/* Only an idle CPU is kicked for a thread without a slice. */
	if (!prev)
		wake_for_others();
}

#include "orders.h"

/* The kernel allows the callbacks of this program to move threads between queues. */
SEC("struct_ops.s/init")
s32 BPF_PROG(edf_init)
{
	u32 count = scx_bpf_nr_cpu_ids(), at;
	s32 error = fair_init();

	if (!error)
		error = scx_bpf_create_dsq(HELD, -1);
	bpf_for(at, 0, count) {
		struct cpu *cpu = cpu_at(at);

		if (!cpu || error)
			break;
		error = scx_bpf_create_dsq(READY + at, -1);
		bpf_timer_init(&cpu->slice, &cpus, CLOCK_MONOTONIC);
		bpf_timer_set_callback(&cpu->slice, end_slice);
		init_beats(at);
	}
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
	.exit_task = (void *)edf_exit_task,
	.enable = (void *)edf_enable,
	.disable = (void *)edf_disable,
	.init = (void *)edf_init,
	.exit = (void *)edf_exit,
	FAIR_CGROUP_OPERATIONS,
	.flags = SCX_OPS_ENQ_LAST,
	.timeout_ms = 20000,
	.name = "tactus_edf",
};
