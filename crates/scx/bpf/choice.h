/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The threads of the bridge, and which thread each CPU runs: by a choice of the user side, or of the bridge where no policy would choose
 * otherwise.
 */
#ifndef TACTUS_CHOICE_H
#define TACTUS_CHOICE_H

#include "kernel.h"
#include "fair.h"
#include "interface.h"

/* The queue of managed threads that wait for the user side. */
#define WAITING 1

/* Slice of a chosen thread. The user side ends time slices, so this is only the interval of checks. */
#define CHOSEN_SLICE_NS SCX_SLICE_DFL

/* A thread, from init_task() until its end. */
struct thread {
	bool is_managed;
	/* Whether the thread competes by weight while it is not chosen. */
	bool competes;
	/* The CPU for which the thread was chosen last. */
	s32 cpu;
	/* Its share among the threads that compete. */
	struct member member;
	/*
	 * Whether it was chosen when it began to run. This time does not count for its share: beside it, others compete, or, if all are
	 * managed, a fallback begins with equal threads.
	 */
	bool is_ahead;
	/* Whether the bridge has chosen it by itself, until it runs. */
	bool is_sole;
};

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct thread);
} threads SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct settings);
} settings SEC(".maps");

/* The choice for a CPU. */
struct choice {
	/* The thread; 0: none. */
	s32 tid;
	/* Whether the thread was in no queue when the CPU looked for it. */
	u32 is_absent;
	/* When the CPU last ran a thread of the queue FAIR, where all threads are managed. */
	u64 served;
	/* Whether the CPU has not looked at a choice of a former part of a batch. */
	u32 is_unseen;
	/* Whether the user side was not woken for a thread that slept, because the CPU runs the only one that waits. */
	u32 is_quiet;
};

static struct choice choices[CPUS_MAX];

/* Whether the bridge dispatches by itself: until the first batch, and when the user side is late. */
static volatile u32 is_fallback = 1;
/* Whether a part of a batch has not been seen yet. */
static volatile u32 has_parts;

static struct settings *the_settings(void)
{
	u32 zero = 0;

	return bpf_map_lookup_elem(&settings, &zero);
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

static struct choice *choice_on(s32 cpu)
{
	u32 at = cpu;

	/* The verifier must see the comparison of the value that is the index. */
	barrier_var(at);
	return at < CPUS_MAX ? &choices[at] : 0;
}

/* Returns the choice that is this thread; 0: it is not chosen. */
static struct choice *choice_of(struct task_struct *p, struct thread *thread)
{
	struct choice *choice = choice_on(thread->cpu);

	return choice && choice->tid == p->pid ? choice : 0;
}

/* ---- Choices of the bridge ---- */

/* Whether the bridge chooses a managed thread by itself, if there is only this one. */
static bool chooses(struct thread *thread)
{
	struct settings *with = the_settings();

	return with && with->is_conserving && !is_fallback && thread->is_managed && !thread->competes;
}

static void choose(struct task_struct *p, struct thread *thread, struct choice *choice, s32 cpu)
{
	choice->tid = p->pid;
	choice->is_absent = 0;
	thread->cpu = cpu;
	thread->is_sole = true;
}

/* Chooses a thread that wakes up, if its CPU is idle and no other thread waits. */
static void choose_at_wakeup(struct task_struct *p, struct thread *thread)
{
	s32 cpu = scx_bpf_task_cpu(p);
	struct choice *choice = choice_on(cpu);

	if (choice && chooses(thread) && !scx_bpf_dsq_nr_queued(WAITING) && !p->migration_disabled &&
	    bpf_cpumask_test_cpu(cpu, p->cpus_ptr) && scx_bpf_test_and_clear_cpu_idle(cpu))
		choose(p, thread, choice, cpu);
}

/* Chooses the only thread that waits, if it last ran on this CPU and was not chosen for another one. Returns whether it is chosen. */
static bool choose_at_dispatch(s32 cpu, struct choice *choice)
{
	struct settings *with = the_settings();
	struct bpf_iter_scx_dsq it;
	struct task_struct *p = 0;
	struct thread *thread;
	bool done = false;

	if (!with || !with->is_conserving || scx_bpf_dsq_nr_queued(WAITING) != 1)
		return false;
	bpf_rcu_read_lock();
	if (!bpf_iter_scx_dsq_new(&it, WAITING, 0))
		p = bpf_iter_scx_dsq_next(&it);
	thread = p ? thread_of(p) : 0;
	if (p && thread && chooses(thread) && scx_bpf_task_cpu(p) == cpu && !choice_of(p, thread)) {
		choose(p, thread, choice, cpu);
		scx_bpf_dsq_move_set_slice(&it, CHOSEN_SLICE_NS);
		done = scx_bpf_dsq_move(&it, p, SCX_DSQ_LOCAL, 0);
	}
	bpf_iter_scx_dsq_destroy(&it);
	bpf_rcu_read_unlock();
	return done;
}

/* ---- Choices of the user side ---- */

static void kick_unseen(s32 cpu)
{
	struct choice *choice = choice_on(cpu);

	if (!choice || !choice->is_unseen)
		return;
	choice->is_unseen = 0;
	scx_bpf_kick_cpu(cpu, SCX_KICK_PREEMPT);
}

/* Kicks the CPUs with commands in any part of a batch. */
static void kick_all(void)
{
	u32 cpus = scx_bpf_nr_cpu_ids(), cpu;

	has_parts = 0;
	bpf_for(cpu, 0, cpus)
		kick_unseen(cpu);
}

#endif
