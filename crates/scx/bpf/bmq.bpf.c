// SPDX-License-Identifier: GPL-2.0-only
/*
 * The policy `bmq` in the kernel: a queue of levels for each CPU, and a boost for threads that run briefly. The rules of a
 * thread are in bmq.h, its place in a queue is in bmq_queue.h, and this file has the operations. It schedules all threads of the kernel.
 *
 * Each CPU has a queue in the order of *places*: the level of a thread, and its number of arrival at this level. A preempted
 * thread keeps its place, which is the first of its level. A thread that wakes, or whose slice is used up, gets a place at the
 * tail of its level.
 *
 *   wake-up ──▶ better than all of its CPU? ──▶ local queue of the CPU ──▶ running ──▶ slice timer ──▶ its queue
 *                      └── queue of the CPU ──▶ dispatch() ─────────────────┘
 *
 * Each CPU has a timer for the end of the slice. It is set again only if the new end is earlier: a timer that comes too early
 * looks at the end that is right by then. So short runs cost no timer.
 *
 * Differences from the Rust policy (crates/policies/src/bmq and project_c), and their reasons:
 *
 * - Threads of SCHED_FIFO, SCHED_RR and SCHED_DEADLINE are not scheduled: sched_ext has only the other classes. A thread that one
 *   of them preempts counts as switched to when it resumes, as in Project C.
 * - Ticks are those of the kernel, at all CPUs that are busy. The knob `tick` has no effect.
 * - The kernel selects the idle CPU for a thread that wakes: it knows cores and caches. If no CPU is idle, all other CPUs are equally
 *   near, as for the Rust policy in tactus-scx. Running threads are not moved to idle cores, for the same reason.
 * - The most urgent level of another CPU is that of its running thread, which is better than those that wait, but for an instant.
 * - A thread that cannot migrate at the moment is not preempted by a better level: the kernel lets it run at once.
 * - A thread that sleeps while the scheduler is loaded keeps its boost at its first wake-up, however long it has slept. So does a thread
 *   that waits and sleeps without running, which no thread of a kernel does.
 * - A CPU may become idle while a thread wakes for a busy CPU. The waking CPU therefore wakes an idle CPU that may run the thread.
 * - A thread that has waited for WAIT_MOST_NS runs for the rest of its slice ahead of all levels. BMQ lets it wait without limit, but
 *   the kernel removes a scheduler with a thread that does not run for 30 s, and kernel threads would wait, too.
 */
#include "kernel.h"
#include "bmq.h"
#include "bmq_queue.h"
#include "ending.h"
#include "interface.h"

char _license[] SEC("license") = "GPL";

/* Time after which a waiting thread runs, the interval of checks, and the maximum number of such threads in each. */
#define WAIT_MOST_NS 8000000000ULL
#define BEAT_NS 4000000000ULL
#define RESCUES_MOST 64

struct beat {
	struct bpf_timer timer;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct beat);
} beats SEC(".maps");

static u32 nr_cpus;

SEC("struct_ops/tick")
void BPF_PROG(bmq_tick, struct task_struct *p)
{
	struct thread *thread = thread_of(p);

	if (!thread || !thread->since)
		return;
	charge(thread, bpf_ktime_get_ns());
	if (thread->account.left < settings.rest_least)
		set_slice(p, 0);
}

/* ---- Threads ---- */

/* Returns whether a thread must stay on its CPU at the moment. While this program runs, the current thread has a count of 1. */
static bool cannot_migrate(struct task_struct *p)
{
	return p->migration_disabled > 1 || (p->migration_disabled && bpf_get_current_task_btf() != p);
}

/* Reads the attributes of a thread. */
static void read_attributes(struct task_struct *p, struct thread *thread)
{
	thread->account.nice = p->static_prio - 120;
	thread->account.kind = p->policy == SCHED_BATCH ? BMQ_BATCH : p->policy == SCHED_IDLE ? BMQ_IDLE : BMQ_NORMAL;
}

SEC("struct_ops.s/init_task")
s32 BPF_PROG(bmq_init_task, struct task_struct *p, struct scx_init_task_args *args)
{
	struct thread *thread = bpf_task_storage_get(&threads, p, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);

	if (!thread)
		return -12; /* ENOMEM */
	bmq_open(&settings, &thread->account, bpf_ktime_get_ns());
	thread->is_new = args->fork;
	return 0;
}

SEC("struct_ops/enable")
void BPF_PROG(bmq_enable, struct task_struct *p)
{
	struct thread *thread = thread_of(p);

	if (!thread)
		return;
	read_attributes(p, thread);
	thread->home = NO_CPU;
	thread->since = 0;
	thread->has_left = thread->is_changing = false;
}

SEC("struct_ops/set_weight")
void BPF_PROG(bmq_set_weight, struct task_struct *p, u32 weight)
{
	struct thread *thread = thread_of(p);

	if (!thread)
		return;
	read_attributes(p, thread);
	/* The kernel enqueues the thread again. Its place is kept if its level is. */
	if (bmq_level(&settings, &thread->account) != thread->place >> LEVEL_SHIFT)
		thread->home = NO_CPU;
}

/* Divides the slice of the current thread between itself and its new child. */
static void fork(struct thread *child, u64 now)
{
	struct thread *parent = thread_of(bpf_get_current_task_btf());
	s32 here = bpf_get_smp_processor_id();
	struct cpu *cpu = cpu_at(here);
	bool is_little;

	if (!parent || !cpu)
		return;
	charge(parent, now);
	is_little = bmq_fork(&settings, &parent->account, &child->account);
	/* A real-time thread has an account, too, but its slice does not end. */
	if (!parent->since)
		return;
	if (is_little)
		scx_bpf_kick_cpu(here, SCX_KICK_PREEMPT);
	else
		begin_slice(parent, cpu, now);
}

/*
 * Applies the rules for a block and for the wake-up after it. The kernel does not tell stopping() whether a thread blocks, so both
 * come here. select_cpu() comes first, but not for a thread that may run on one CPU only.
 */
static void wake(struct thread *thread)
{
	u64 now;

	if (!thread->is_new && !thread->has_left)
		return;
	now = bpf_ktime_get_ns();
	if (thread->has_left) {
		bmq_block(&settings, &thread->account, thread->account.last_ran - thread->switched);
		bmq_wake(&settings, &thread->account, now);
	} else {
		fork(thread, now);
	}
	thread->is_new = thread->has_left = false;
	thread->waits = now;
	thread->home = NO_CPU;
}

SEC("struct_ops/running")
void BPF_PROG(bmq_running, struct task_struct *p)
{
	struct thread *thread = thread_of(p);
	s32 at = scx_bpf_task_cpu(p);
	struct cpu *cpu = cpu_at(at);
	u64 now = bpf_ktime_get_ns();

	if (!thread || !cpu)
		return;
	thread->since = now;
	/* A thread that runs while its attributes change is not enqueued: it runs on. */
	if (thread->has_left && !cannot_migrate(p))
		thread->is_changing = true;
	if (!thread->is_changing) {
		thread->switched = now;
		thread->account.last_ran = now;
		cpu->counts.switches++;
	}
	/* The kernel does not enqueue a thread that cannot migrate through this program. */
	thread->has_left = thread->is_changing = false;
	if (thread->home != at)
		take_place(thread, cpu, at);
	cpu->tid = p->pid;
	cpu->next = 0;
	begin_slice(thread, cpu, now);
	if (cpu->skips) {
		/* The thread that lets this one run has the better place: any change of the queue ends the exception. */
		cpu->skips = false;
		cpu->place = NOWHERE - 1;
		return;
	}
	cpu->place = thread->place;
	/*
	 * A better thread may have come while a real-time thread ran, or after this thread was put into the local queue. The kernel
	 * puts a thread that cannot migrate there again.
	 */
	if (!cannot_migrate(p) && !is_before_queue(cpu, at, thread->place)) {
		set_slice(p, 0);
		scx_bpf_kick_cpu(at, SCX_KICK_PREEMPT);
	}
}

SEC("struct_ops/stopping")
void BPF_PROG(bmq_stopping, struct task_struct *p, bool runnable)
{
	struct thread *thread = thread_of(p);
	s32 at = scx_bpf_task_cpu(p);
	struct cpu *cpu = cpu_at(at);
	u64 before;

	if (!thread || !cpu)
		return;
	charge(thread, bpf_ktime_get_ns());
	thread->since = 0;
	thread->waits = thread->account.last_ran;
	cpu->tid = 0;
	if (!runnable) {
		thread->has_left = true;
		cpu->place = NOWHERE;
		return;
	}
	before = thread->place;
	check_slice(thread, cpu, at);
	/* The thread waits in the local queue if a real-time thread has preempted it. */
	if (cpu->place == before)
		cpu->place = thread->place;
}

SEC("struct_ops/yield")
bool BPF_PROG(bmq_yield_to, struct task_struct *from, struct task_struct *to)
{
	struct thread *thread = thread_of(from);
	s32 at = bpf_get_smp_processor_id();
	struct cpu *cpu = cpu_at(at);

	/* A directed yield has no effect. */
	if (!thread || !cpu || to || settings.yields == BMQ_IGNORED)
		return false;
	charge(thread, bpf_ktime_get_ns());
	if (bmq_yield(&settings, &thread->account))
		take_place(thread, cpu, at);
	cpu->skips = settings.yields == BMQ_SKIP && scx_bpf_dsq_nr_queued(QUEUE + at) > 0;
	set_slice(from, 0);
	return false;
}

/* ---- Placement ---- */

/* Returns whether a woken thread whose level is `least` may be placed on a CPU. */
static bool is_less_urgent(struct task_struct *p, s32 at, u64 least)
{
	struct cpu *cpu = cpu_at(at);

	return cpu && bpf_cpumask_test_cpu(at, p->cpus_ptr) && cpu->place >> LEVEL_SHIFT >= least;
}

SEC("struct_ops/select_cpu")
s32 BPF_PROG(bmq_select_cpu, struct task_struct *p, s32 prev_cpu, u64 flags)
{
	struct thread *thread = thread_of(p);
	bool is_idle = false;
	u64 least;
	s32 cpu, at;

	if (!thread)
		return prev_cpu;
	wake(thread);
	/* A thread whose waker is about to sleep does not stay with it, because an idle CPU comes first. */
	cpu = scx_bpf_select_cpu_dfl(p, prev_cpu, flags & ~SCX_WAKE_SYNC, &is_idle);
	if (is_idle)
		return cpu;
	least = bmq_level(&settings, &thread->account);
	least = settings.one_better ? least - 1 : least + 1;
	if (is_less_urgent(p, prev_cpu, least))
		return prev_cpu;
	bpf_for(at, 0, nr_cpus) {
		if (is_less_urgent(p, at, least))
			return at;
	}
	return bpf_cpumask_test_cpu(prev_cpu, p->cpus_ptr) ? prev_cpu : cpu;
}

SEC("struct_ops/enqueue")
void BPF_PROG(bmq_enqueue, struct task_struct *p, u64 flags)
{
	struct thread *thread = thread_of(p);
	s32 at = scx_bpf_task_cpu(p), idle;
	struct cpu *cpu = cpu_at(at);
	u64 place;

	if (!thread || !cpu) {
		scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL, LONG_SLICE_NS, flags);
		return;
	}
	if (flags & SCX_ENQ_WAKEUP || thread->is_new) {
		wake(thread);
	} else if (thread->has_left) {
		thread->has_left = false;
		thread->is_changing = true;
	}
	if (thread->home != at)
		take_place(thread, cpu, at);
	place = thread->place;
	/* At most one thread waits in the local queue, where a better one would wait behind it. */
	if (place < cpu->place && !cpu->next && !cpu->skips && is_before_queue(cpu, at, place)) {
		cpu->place = place;
		cpu->next = p->pid;
		flags |= SCX_ENQ_PREEMPT | bpf_core_enum_value(enum scx_enq_flags, SCX_ENQ_HEAD);
		scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL, LONG_SLICE_NS, flags);
		return;
	}
	if (place < cpu->bound)
		cpu->bound = place;
	scx_bpf_dsq_insert_vtime(p, QUEUE + at, LONG_SLICE_NS, place, flags);
	if (place < cpu->place && !cpu->skips) {
		scx_bpf_kick_cpu(at, SCX_KICK_PREEMPT);
	} else if (flags & SCX_ENQ_WAKEUP && nr_cpus > 1) {
		idle = scx_bpf_pick_idle_cpu(p->cpus_ptr, 0);
		if (idle >= 0)
			scx_bpf_kick_cpu(idle, SCX_KICK_IDLE);
	}
}

/* ---- Dispatch ---- */

/*
 * Pulls threads that wait behind the running thread of another CPU, at most half of its queue. The first one goes to the local
 * queue. Returns whether any was pulled.
 */
static bool steal_from(s32 from, struct cpu *cpu, s32 at)
{
	struct cpu *source = cpu_at(from);
	struct bpf_iter_scx_dsq it;
	struct task_struct *p;
	u32 waiting, tries, i;
	bool any = false, is_first;

	if (!source)
		return false;
	waiting = scx_bpf_dsq_nr_queued(QUEUE + from);
	/* If no thread runs there, the first one is about to. */
	is_first = !source->tid;
	tries = (waiting + !is_first) / 2;
	if (tries > settings.steal_most)
		tries = settings.steal_most;
	if (!waiting || !tries)
		return false;
	if (!bpf_iter_scx_dsq_new(&it, QUEUE + from, 0)) {
		bpf_for(i, 0, tries + is_first) {
			struct thread *thread;
			u64 place;
			bool done;

			p = bpf_iter_scx_dsq_next(&it);
			if (!p)
				break;
			thread = thread_of(p);
			if ((is_first && !i) || !thread || cannot_migrate(p) || !bpf_cpumask_test_cpu(at, p->cpus_ptr))
				continue;
			place = tail_of(cpu, bmq_level(&settings, &thread->account));
			scx_bpf_dsq_move_set_slice(&it, LONG_SLICE_NS);
			scx_bpf_dsq_move_set_vtime(&it, place);
			done = any ? scx_bpf_dsq_move_vtime(&it, p, QUEUE + at, 0) :
				     scx_bpf_dsq_move(&it, p, SCX_DSQ_LOCAL, 0);
			if (!done)
				continue;
			if (any && place < cpu->bound)
				cpu->bound = place;
			thread->place = place;
			thread->home = at;
			any = true;
			cpu->counts.stolen++;
		}
	}
	bpf_iter_scx_dsq_destroy(&it);
	return any;
}

/* Lets the running thread continue. */
static void keep(struct task_struct *p, struct thread *thread, struct cpu *cpu)
{
	set_slice(p, LONG_SLICE_NS);
	cpu->place = thread->place;
	cpu->skips = false;
	if (thread->since)
		begin_slice(thread, cpu, thread->since);
}

SEC("struct_ops/dispatch")
void BPF_PROG(bmq_dispatch, s32 at, struct task_struct *prev)
{
	bool is_queued = prev && prev->scx.flags & SCX_TASK_QUEUED;
	struct thread *thread = is_queued ? thread_of(prev) : 0;
	struct cpu *cpu = cpu_at(at);
	s32 from;

	if (!cpu)
		return;
	if (thread) {
		charge(thread, bpf_ktime_get_ns());
		check_slice(thread, cpu, at);
		cpu->bound = first_place(at);
		if (cpu->bound == NOWHERE || (thread->place < cpu->bound && !cpu->skips)) {
			keep(prev, thread, cpu);
			return;
		}
		if (scx_bpf_dsq_move_to_local(QUEUE + at))
			cpu->place = cpu->bound;
		else
			keep(prev, thread, cpu);
		return;
	}
	if (scx_bpf_dsq_move_to_local(QUEUE + at))
		return;
	bpf_for(from, 0, nr_cpus) {
		if (from != at && steal_from(from, cpu, at))
			break;
	}
}

/* ---- Threads that wait for too long ---- */

/* Lets the threads that have waited for too long on a CPU run, from the worst level on. */
static void rescue(s32 at, struct cpu *cpu, u64 now)
{
	struct bpf_iter_scx_dsq it;
	bool any = false;
	u32 i;

	bpf_rcu_read_lock();
	if (!bpf_iter_scx_dsq_new(&it, QUEUE + at, SCX_DSQ_ITER_REV)) {
		bpf_for(i, 0, RESCUES_MOST) {
			struct task_struct *p = bpf_iter_scx_dsq_next(&it);
			struct thread *thread = p ? thread_of(p) : 0;
			u64 place;

			if (!thread)
				break;
			if (now - thread->waits < WAIT_MOST_NS || !(thread->place >> LEVEL_SHIFT))
				continue;
			place = tail_of(cpu, 0);
			scx_bpf_dsq_move_set_slice(&it, LONG_SLICE_NS);
			scx_bpf_dsq_move_set_vtime(&it, place);
			if (!scx_bpf_dsq_move_vtime(&it, p, QUEUE + at, 0))
				continue;
			thread->place = place;
			cpu->bound = 0;
			__sync_fetch_and_add(&cpu->counts.rescued, 1);
			any = true;
		}
	}
	bpf_iter_scx_dsq_destroy(&it);
	bpf_rcu_read_unlock();
	if (any)
		scx_bpf_kick_cpu(at, SCX_KICK_PREEMPT);
}

static int beat(void *map, int *key, struct beat *value)
{
	u64 now = bpf_ktime_get_ns();
	s32 at;

	bpf_for(at, 0, nr_cpus) {
		struct cpu *cpu = cpu_at(at);

		if (cpu)
			rescue(at, cpu, now);
	}
	bpf_timer_start(&value->timer, BEAT_NS, 0);
	return 0;
}

SEC("struct_ops.s/init")
s32 BPF_PROG(bmq_init)
{
	u32 zero = 0, at;
	struct beat *value = bpf_map_lookup_elem(&beats, &zero);
	s32 error = 0;

	nr_cpus = scx_bpf_nr_cpu_ids();
	bpf_for(at, 0, nr_cpus) {
		struct cpu *cpu = cpu_at(at);

		if (!cpu || error)
			break;
		error = scx_bpf_create_dsq(QUEUE + at, -1);
		cpu->place = cpu->bound = NOWHERE;
		bpf_timer_init(&cpu->slice, &cpus, CLOCK_MONOTONIC);
		bpf_timer_set_callback(&cpu->slice, end_slice);
	}
	if (error || !value)
		return error ?: -1;
	bpf_timer_init(&value->timer, &beats, CLOCK_MONOTONIC);
	bpf_timer_set_callback(&value->timer, beat);
	return bpf_timer_start(&value->timer, BEAT_NS, 0);
}

SEC("struct_ops/exit")
void BPF_PROG(bmq_exit, struct scx_exit_info *info)
{
	store_ending(info);
}

SEC(".struct_ops.link")
struct sched_ext_ops bmq = {
	.select_cpu = (void *)bmq_select_cpu,
	.enqueue = (void *)bmq_enqueue,
	.dispatch = (void *)bmq_dispatch,
	.tick = (void *)bmq_tick,
	.running = (void *)bmq_running,
	.stopping = (void *)bmq_stopping,
	.yield = (void *)bmq_yield_to,
	.set_weight = (void *)bmq_set_weight,
	.init_task = (void *)bmq_init_task,
	.enable = (void *)bmq_enable,
	.init = (void *)bmq_init,
	.exit = (void *)bmq_exit,
	.flags = SCX_OPS_ENQ_EXITING,
	.timeout_ms = 30000,
	.name = "tactus_bmq",
};
