// SPDX-License-Identifier: GPL-2.0-only
/*
 * The bridge: a sched_ext scheduler whose decisions are made in user space.
 *
 * A thread is managed or unmanaged. Each event of a managed thread goes to the user side through a ring buffer. The user
 * side answers with batches of commands: "CPU c runs thread t". A CPU dispatches the thread that was chosen for it. The
 * threads are always in a dispatch queue, whether or not the user side lives:
 *
 *   wake-up ──▶ enqueue() ──▶ WAITING ──▶ dispatch() of the chosen CPU ──▶ local queue ──▶ running
 *                   │                           ▲
 *                   └── event ──▶ user side ── command, kick
 *
 * Where the policy lets no thread wait for an idle CPU, the bridge chooses a thread by itself if no other thread waits and its last CPU
 * has nothing else to run. The user side is told, and applies the events at their own instants when it is next awake.
 *
 * There are two modes. If all threads are managed, a thread runs only while it is chosen. If the threads of some processes
 * are managed, the user side chooses a thread while its promise has CPU time left; these and all other threads compete by
 * weight (queue FAIR) for the CPUs without a chosen thread.
 *
 * Fallback. The user side confirms its life with each batch. If no batch comes for three beats (120 to 160 ms), or if the ring
 * buffer is full, all threads run by weight, in the order of their virtual times. After eight beats, the bridge ends, and
 * all threads return to the kernel's fair class. Beats count from the first dispatch, not from the first batch. If the user side
 * ends, the kernel removes the bridge at once; if events were lost, the user side loads it again.
 */
#include "kernel.h"
#include "cgroups.h"
#include "choice.h"
#include "events.h"
#include "interface.h"

char _license[] SEC("license") = "GPL";

/*
 * Interval of the heartbeat, and the numbers of beats without a batch after which the bridge dispatches by itself, and ends.
 * Beats are counted, not time: after a pause of the whole machine, the user side has as much time as the bridge.
 */
#define BEAT_NS 40000000ULL
#define LATE_BEATS 3
#define GONE_BEATS 8

struct timer {
	struct bpf_timer timer;
};

/* The managed processes, if not all are. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 4096);
	__type(key, s32);
	__type(value, u32);
} processes SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct batch);
} batches SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct timer);
} heartbeat SEC(".maps");

/* Number of batches, and what the last beat has seen of it. */
static volatile u64 heard;
static u64 heard_before;
/* Number of beats since the last batch. */
static u32 silence;
static u64 dispatched, absent;
static u32 fallbacks;
/* Whether the bridge schedules: it has dispatched a CPU. Before, the kernel is still loading it. */
static volatile u32 has_begun;
/* Whether the bridge has ended. */
static volatile u32 has_ended;

/* A full buffer would leave the user side with a wrong state of the threads. */
static void lose(void)
{
	__sync_fetch_and_add(&lost, 1);
	is_fallback = 1;
}

/* ---- Membership ---- */

SEC("struct_ops.s/init_task")
s32 BPF_PROG(bridge_init_task, struct task_struct *p, struct scx_init_task_args *args)
{
	struct thread *thread = bpf_task_storage_get(&threads, p, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
	struct settings *with = the_settings();
	s32 tgid = p->tgid;

	if (!thread || !with)
		return -12; /* ENOMEM */
	if (tgid == with->own_tgid || serves_cpu(p))
		thread->is_managed = false;
	else
		thread->is_managed = with->manages_all || bpf_map_lookup_elem(&processes, &tgid);
	thread->competes = !with->manages_all;
	thread->cpu = -1;
	fair_init_task(&thread->member, args);
	return 0;
}

SEC("struct_ops/enable")
void BPF_PROG(bridge_enable, struct task_struct *p)
{
	struct thread *thread = thread_of(p);

	if (thread && thread->is_managed)
		report_thread(p, EVENT_ATTACH, p->real_parent->pid, &p->cpus_mask);
}

SEC("struct_ops/disable")
void BPF_PROG(bridge_disable, struct task_struct *p)
{
	struct thread *thread = thread_of(p);

	if (thread && thread->is_managed)
		report(p, EVENT_DETACH, -1, 0, bpf_ktime_get_ns());
}

SEC("struct_ops/set_weight")
void BPF_PROG(bridge_set_weight, struct task_struct *p, u32 weight)
{
	struct thread *thread = thread_of(p);

	if (thread && thread->is_managed)
		report_thread(p, EVENT_CHANGE, 0, &p->cpus_mask);
}

SEC("struct_ops/set_cpumask")
void BPF_PROG(bridge_set_cpumask, struct task_struct *p, const struct cpumask *mask)
{
	struct thread *thread = thread_of(p);

	/* While a thread cannot migrate, its mask is one CPU for a short time. */
	if (thread && thread->is_managed && !p->migration_disabled)
		report_thread(p, EVENT_CHANGE, 0, mask);
}

/* ---- Events ---- */

SEC("struct_ops/runnable")
void BPF_PROG(bridge_runnable, struct task_struct *p, u64 flags)
{
	struct thread *thread = thread_of(p);
	struct task_struct *waker = bpf_get_current_task_btf();

	if (!thread || !thread->is_managed)
		return;
	if (flags & SCX_ENQ_WAKEUP)
		choose_at_wakeup(p, thread);
	report_with(p, EVENT_WAKE, -1, flags & SCX_ENQ_WAKEUP ? waker->pid : 0, bpf_ktime_get_ns(),
		    thread->is_sole ? BPF_RB_NO_WAKEUP : BPF_RB_FORCE_WAKEUP);
}

SEC("struct_ops/quiescent")
void BPF_PROG(bridge_quiescent, struct task_struct *p, u64 flags)
{
	struct thread *thread = thread_of(p);
	u64 now = bpf_ktime_get_ns();
	struct choice *choice;
	bool is_quiet;

	if (!thread)
		return;
	fair_quiescent(&thread->member, now);
	thread->is_sole = false;
	if (!thread->is_managed)
		return;
	choice = choice_of(p, thread);
	is_quiet = choice && thread->cpu == scx_bpf_task_cpu(p) && chooses(thread) && scx_bpf_dsq_nr_queued(WAITING) == 1;
	if (is_quiet)
		choice->is_quiet = 1;
	report_with(p, EVENT_SLEEP, -1, 0, now, is_quiet ? BPF_RB_NO_WAKEUP : BPF_RB_FORCE_WAKEUP);
}

/*
 * Returns whether a thread must make room: a real-time thread had preempted it, it resumes, and meanwhile another thread
 * was chosen, or, if all are managed, none.
 */
static bool is_in_the_way(struct task_struct *p, struct thread *thread, struct choice *choice)
{
	if (choice->tid == p->pid)
		return false;
	if (choice->tid && !choice->is_absent)
		return true;
	/* A thread that was chosen and no longer is competes with a short slice, as the others do. */
	return thread->is_managed && (!thread->competes || p->scx.slice > FAIR_SLICE_NS);
}

SEC("struct_ops/running")
void BPF_PROG(bridge_running, struct task_struct *p)
{
	struct thread *thread = thread_of(p);
	s32 cpu = scx_bpf_task_cpu(p);
	struct choice *choice = choice_on(cpu);
	u64 now = bpf_ktime_get_ns();
	bool gives_way;

	if (!thread || !choice)
		return;
	gives_way = !is_fallback && !must_run(p) && is_in_the_way(p, thread, choice);
	thread->is_ahead = !is_fallback && choice->tid == p->pid;
	if (!thread->is_ahead)
		fair_running(p, &thread->member, cpu, now);
	/* The user side may have chosen another thread since. */
	if (thread->is_sole && choice->tid == p->pid)
		report_with(p, EVENT_CHOICE, cpu, heard, now, BPF_RB_NO_WAKEUP);
	else if (thread->is_managed)
		report(p, EVENT_RUN, cpu, 0, now);
	thread->is_sole = false;
	if (gives_way) {
		set_slice(p, 0);
		scx_bpf_kick_cpu(cpu, SCX_KICK_PREEMPT);
	}
}

SEC("struct_ops/stopping")
void BPF_PROG(bridge_stopping, struct task_struct *p, bool runnable)
{
	struct thread *thread = thread_of(p);
	u64 now = bpf_ktime_get_ns();

	if (!thread)
		return;
	fair_stopping(&thread->member, scx_bpf_task_cpu(p), now);
	/* A thread that sleeps is quiescent next, which ends the run, too (kernel/sched/ext.c, dequeue_task_scx, Linux 7.2). */
	if (thread->is_managed && runnable)
		report(p, EVENT_STOP, scx_bpf_task_cpu(p), 0, now);
}

SEC("struct_ops/yield")
bool BPF_PROG(bridge_yield, struct task_struct *from, struct task_struct *to)
{
	struct thread *thread = thread_of(from);

	if (thread)
		thread->member.has_yielded = true;
	if (thread && thread->is_managed)
		report(from, EVENT_YIELD, -1, 0, bpf_ktime_get_ns());
	set_slice(from, 0);
	return false;
}

/* ---- Dispatch ---- */

SEC("struct_ops/select_cpu")
s32 BPF_PROG(bridge_select_cpu, struct task_struct *p, s32 prev_cpu, u64 flags)
{
	struct thread *thread = thread_of(p);

	if (thread && thread->is_managed && !is_fallback && (!thread->competes || choice_of(p, thread)))
		return prev_cpu;
	return fair_select_cpu(p, thread ? &thread->member : 0, prev_cpu, flags);
}

/*
 * Enqueues a managed thread that does not compete. A fallback dispatches these threads by weight, without the limits of their groups.
 * At its begin, they are equal: a thread that waits for the user side has the place of one that begins to compete, which costs a
 * wake-up nothing.
 */
static void enqueue_waiting(struct task_struct *p, struct thread *thread, u64 flags)
{
	struct place place = { .at = groups[ROOT].clock };

	if (is_fallback)
		fair_place(p, &thread->member, bpf_ktime_get_ns(), &place);
	else if (thread->member.is_active)
		fair_leave(&thread->member, bpf_ktime_get_ns());
	thread->member.held = 0;
	scx_bpf_dsq_insert_vtime(p, WAITING, FAIR_SLICE_NS, place.at, flags);
}

SEC("struct_ops/enqueue")
void BPF_PROG(bridge_enqueue, struct task_struct *p, u64 flags)
{
	struct thread *thread = thread_of(p);
	s32 here = bpf_get_smp_processor_id();
	struct choice *choice;

	if (!thread) {
		scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL, FAIR_SLICE_NS, flags);
		return;
	}
	if (thread->is_sole) {
		scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL, CHOSEN_SLICE_NS, flags);
		return;
	}
	if (thread->is_managed && !thread->competes && !(is_fallback && flags & SCX_ENQ_LAST))
		enqueue_waiting(p, thread, flags);
	else
		fair_enqueue(p, &thread->member, flags);
	/* The command came before the thread. A CPU that stops the thread dispatches afterwards anyway. */
	choice = choice_of(p, thread);
	if (choice && (flags & SCX_ENQ_WAKEUP || thread->cpu != here)) {
		choice->is_absent = 0;
		scx_bpf_kick_cpu(thread->cpu, SCX_KICK_PREEMPT);
	}
}

/* Moves thread `tid` from its queue to the local queue of this CPU. */
static bool take(s32 tid, s32 cpu)
{
	struct bpf_iter_scx_dsq it;
	struct task_struct *p = bpf_task_from_pid(tid);
	struct thread *thread;
	bool done = false;

	if (!p)
		return false;
	thread = thread_of(p);
	/*
	 * The mask may have changed since the choice. A thread that changes it after the iterator was created is enqueued
	 * again, and the iterator does not move it then.
	 */
	if (!bpf_iter_scx_dsq_new(&it, thread && thread->competes ? fair_queue(&thread->member) : WAITING, 0) &&
	    !p->migration_disabled && bpf_cpumask_test_cpu(cpu, p->cpus_ptr)) {
		scx_bpf_dsq_move_set_slice(&it, CHOSEN_SLICE_NS);
		done = scx_bpf_dsq_move(&it, p, SCX_DSQ_LOCAL, 0);
	}
	bpf_iter_scx_dsq_destroy(&it);
	bpf_task_release(p);
	return done;
}

/* Wakes the user side, which was not woken for a thread that slept. */
static void stir(void)
{
	struct event *event = bpf_ringbuf_reserve(&events, sizeof(*event), 0);

	if (event)
		bpf_ringbuf_discard(event, BPF_RB_FORCE_WAKEUP);
	else
		lose();
}

SEC("struct_ops/dispatch")
void BPF_PROG(bridge_dispatch, s32 cpu, struct task_struct *prev)
{
	struct choice *choice = choice_on(cpu);
	struct settings *with = the_settings();
	u64 now = bpf_ktime_get_ns();
	struct member *member;
	struct thread *thread;

	if (!choice || !with)
		return;
	if (!has_begun)
		has_begun = 1;
	thread = prev ? thread_of(prev) : 0;
	/* A managed thread that does not compete continues only by a choice. */
	member = thread && (!thread->is_managed || thread->competes) ? &thread->member : 0;
	if (is_fallback) {
		if (!scx_bpf_dsq_move_to_local(WAITING))
			fair_dispatch(cpu, prev, member);
		return;
	}
	/*
	 * Where all threads are managed, the policy does not know of the few others, which are mostly kernel threads that
	 * have used up a slice. They get a slice for each slice of the policy's threads.
	 */
	if (with->manages_all && now - choice->served >= CHOSEN_SLICE_NS) {
		choice->served = now;
		if (scx_bpf_dsq_move_to_local(FAIR))
			return;
	}
	if (choice->tid && prev && prev->pid == choice->tid && prev->scx.flags & SCX_TASK_QUEUED) {
		set_slice(prev, CHOSEN_SLICE_NS);
		/* From now on, the thread runs on its promise. */
		if (thread)
			fair_stopping(&thread->member, cpu, now);
		return;
	}
	if (choice->tid && take(choice->tid, cpu)) {
		choice->is_absent = 0;
		__sync_fetch_and_add(&dispatched, 1);
		return;
	}
	if (choose_at_dispatch(cpu, choice)) {
		choice->is_quiet = 0;
		return;
	}
	if (choice->is_quiet)
		stir();
	choice->is_quiet = 0;
	if (choice->tid) {
		choice->is_absent = 1;
		__sync_fetch_and_add(&absent, 1);
	}
	fair_dispatch(cpu, prev, member);
}

/* ---- The user side ---- */

/* Makes a thread unmanaged: the policy has refused it. */
static void release(struct task_struct *p, struct thread *thread)
{
	struct bpf_iter_scx_dsq it;
	struct place place = {};

	thread->is_managed = false;
	bpf_rcu_read_lock();
	/* A thread that sleeps has no place among those that compete. */
	if (!bpf_iter_scx_dsq_new(&it, WAITING, 0) && p->scx.flags & SCX_TASK_QUEUED) {
		fair_place(p, &thread->member, bpf_ktime_get_ns(), &place);
		scx_bpf_dsq_move_set_slice(&it, FAIR_SLICE_NS);
		scx_bpf_dsq_move_set_vtime(&it, place.at);
		scx_bpf_dsq_move_vtime(&it, p, FAIR, 0);
	}
	bpf_iter_scx_dsq_destroy(&it);
	bpf_rcu_read_unlock();
}

/* Applies the commands in `batches`. */
SEC("syscall")
int bridge_apply(struct report *report)
{
	u32 zero = 0;
	struct batch *batch = bpf_map_lookup_elem(&batches, &zero);
	u32 count, i;

	if (!batch)
		return -1;
	heard++;
	count = batch->count < COMMANDS_MAX ? batch->count : COMMANDS_MAX;
	bpf_for(i, 0, count) {
		struct command command;
		struct task_struct *p;
		struct thread *thread;
		struct choice *choice;

		if (i >= COMMANDS_MAX)
			break;
		command = batch->commands[i];
		choice = choice_on(command.cpu);
		if (choice)
			choice->tid = command.tid, choice->is_absent = 0, choice->is_unseen = 1;
		p = command.tid ? bpf_task_from_pid(command.tid) : 0;
		if (!p)
			continue;
		thread = thread_of(p);
		if (thread && choice)
			thread->cpu = command.cpu;
		else if (thread)
			release(p, thread);
		bpf_task_release(p);
	}
	if (is_fallback && !lost)
		is_fallback = 0;
	/* All choices stand before the first CPU looks. */
	if (batch->is_part)
		has_parts = 1;
	else if (has_parts)
		kick_all();
	else
		bpf_for(i, 0, count)
			if (i < COMMANDS_MAX)
				kick_unseen(batch->commands[i].cpu);
	report->lost = lost;
	report->dispatched = dispatched;
	report->absent = absent;
	report->is_fallback = is_fallback;
	report->fallbacks = fallbacks;
	report->batches = heard;
	report->has_ended = has_ended;
	return 0;
}

static int beat(void *map, int *key, struct timer *timer)
{
	u32 cpus = scx_bpf_nr_cpu_ids(), cpu;

	silence = heard == heard_before ? silence + 1 : 0;
	heard_before = heard;
	/* To load the bridge may take the kernel seconds. */
	if (!has_begun)
		silence = 0;
	if (silence >= LATE_BEATS && !is_fallback) {
		is_fallback = 1;
		fallbacks++;
		bpf_for(cpu, 0, cpus)
			scx_bpf_kick_cpu(cpu, SCX_KICK_PREEMPT);
	}
	if (silence >= GONE_BEATS) {
		static char text[] = "the user side is silent";
		unsigned long long nothing = 0;

		scx_bpf_exit_bstr(0, text, &nothing, 0);
		return 0;
	}
	/* A choice may have come between the event of a thread and its way to the queue. */
	bpf_for(cpu, 0, cpus) {
		struct choice *choice = choice_on(cpu);

		if (choice && choice->tid && choice->is_absent)
			scx_bpf_kick_cpu(cpu, SCX_KICK_PREEMPT);
	}
	bpf_timer_start(&timer->timer, BEAT_NS, 0);
	return 0;
}

SEC("struct_ops.s/init")
s32 BPF_PROG(bridge_init)
{
	u32 zero = 0;
	struct timer *timer = bpf_map_lookup_elem(&heartbeat, &zero);
	s32 error = scx_bpf_create_dsq(WAITING, -1);

	if (!error)
		error = fair_init();
	if (error || !timer)
		return error ?: -1;
	bpf_timer_init(&timer->timer, &heartbeat, CLOCK_MONOTONIC);
	bpf_timer_set_callback(&timer->timer, beat);
	return bpf_timer_start(&timer->timer, BEAT_NS, 0);
}

SEC("struct_ops/exit")
void BPF_PROG(bridge_exit, struct scx_exit_info *info)
{
	store_ending(info);
	has_ended = 1;
}

SEC(".struct_ops.link")
struct sched_ext_ops bridge = {
	.select_cpu = (void *)bridge_select_cpu,
	.enqueue = (void *)bridge_enqueue,
	.dispatch = (void *)bridge_dispatch,
	.runnable = (void *)bridge_runnable,
	.running = (void *)bridge_running,
	.stopping = (void *)bridge_stopping,
	.quiescent = (void *)bridge_quiescent,
	.yield = (void *)bridge_yield,
	.set_weight = (void *)bridge_set_weight,
	.set_cpumask = (void *)bridge_set_cpumask,
	.init_task = (void *)bridge_init_task,
	.enable = (void *)bridge_enable,
	.disable = (void *)bridge_disable,
	.init = (void *)bridge_init,
	.exit = (void *)bridge_exit,
	FAIR_CGROUP_OPERATIONS,
	.flags = SCX_OPS_ENQ_LAST,
	.timeout_ms = 20000,
	.name = "tactus_bridge",
};
