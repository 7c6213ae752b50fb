/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The queues of the port of `bmq`: the place of a thread in the queue of its CPU, and the time slice of the running thread.
 */
#ifndef TACTUS_BMQ_QUEUE_H
#define TACTUS_BMQ_QUEUE_H

#include "kernel.h"
#include "bmq.h"
#include "interface.h"

/* The queue of CPU c is QUEUE + c. */
#define QUEUE 0x1000
/* Slice that the kernel knows. The timer ends a slice. */
#define LONG_SLICE_NS SCX_SLICE_DFL
/* A place is a level and a number of arrival. Level 0 is that of threads that have waited for too long. */
#define LEVEL_SHIFT 56
/* The place of no thread, after all others. */
#define NOWHERE (~0ULL)
/* The CPU of a thread without a place. */
#define NO_CPU (-1)

struct thread {
	struct bmq_account account;
	/* When the thread began to run, or was charged last; 0: it does not run. */
	u64 since;
	/* When its CPU switched to the thread. */
	u64 switched;
	u64 place;
	/* When it began to wait. */
	u64 waits;
	/* The CPU in whose queue its place is. */
	s32 home;
	/* Whether the thread is a new child. */
	bool is_new;
	/* Whether it ran when it was dequeued: it blocks, or its attributes change. */
	bool has_left;
	/* Whether it runs on after a change of its attributes. */
	bool is_changing;
};

struct cpu {
	/* First, because the user side reads it. */
	struct bmq_counts counts;
	struct bpf_timer slice;
	/* The place of the thread that runs, or of a better one that runs next. */
	u64 place;
	/* No place in the queue is before this one. */
	u64 bound;
	u64 arrivals;
	/* End of the slice of the running thread, and the instant for which the timer is set; 0: it is not. */
	u64 ends;
	u64 armed;
	/* The thread that runs, and the one that waits in the local queue to run next; 0: none. */
	s32 tid;
	s32 next;
	/* Whether the running thread lets the next thread run once. */
	bool skips;
};

/* The user side writes it before the start. A section of its own is a map of its own. */
struct bmq_settings settings SEC(".data.settings");

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

static struct thread *thread_of(struct task_struct *p)
{
	return bpf_task_storage_get(&threads, p, 0, 0);
}

static struct cpu *cpu_at(s32 cpu)
{
	u32 at = cpu;

	return bpf_map_lookup_elem(&cpus, &at);
}

static void set_slice(struct task_struct *p, u64 slice)
{
	/* Before Linux 6.19, a scheduler writes the field. */
	if (bpf_ksym_exists(scx_bpf_task_set_slice))
		scx_bpf_task_set_slice(p, slice);
	else
		p->scx.slice = slice;
}

/* ---- Places ---- */

/* Returns a place at the tail of a level of a CPU. */
static u64 tail_of(struct cpu *cpu, u64 level)
{
	return level << LEVEL_SHIFT | (__sync_fetch_and_add(&cpu->arrivals, 1) + 1);
}

/* Sends a thread to the tail of its level on a CPU. */
static void take_place(struct thread *thread, struct cpu *cpu, s32 at)
{
	thread->place = tail_of(cpu, bmq_level(&settings, &thread->account));
	thread->home = at;
}

/* Returns the first place in the queue of a CPU. */
static u64 first_place(s32 at)
{
	struct bpf_iter_scx_dsq it;
	struct task_struct *p = 0;
	u64 place = NOWHERE;

	/* From Linux 6.19 on, the first thread is found without a lock. */
	if (bpf_ksym_exists(scx_bpf_dsq_peek)) {
		p = scx_bpf_dsq_peek(QUEUE + at);
		return p ? p->scx.dsq_vtime : NOWHERE;
	}
	if (!bpf_iter_scx_dsq_new(&it, QUEUE + at, 0))
		p = bpf_iter_scx_dsq_next(&it);
	if (p)
		place = p->scx.dsq_vtime;
	bpf_iter_scx_dsq_destroy(&it);
	return place;
}

/* Returns whether a place is before all places in the queue of a CPU. */
static bool is_before_queue(struct cpu *cpu, s32 at, u64 place)
{
	if (place < cpu->bound)
		return true;
	cpu->bound = first_place(at);
	return place < cpu->bound;
}

/* ---- Slices ---- */

static void charge(struct thread *thread, u64 now)
{
	if (!thread->since || now < thread->since)
		return;
	bmq_charge(&thread->account, now - thread->since, now);
	thread->since = now;
}

/* Renews a used-up slice of a thread that stops on a CPU and stays runnable. */
static void check_slice(struct thread *thread, struct cpu *cpu, s32 at)
{
	if (!bmq_check_slice(&settings, &thread->account, true))
		return;
	take_place(thread, cpu, at);
	cpu->counts.expired++;
}

/* Ends the slice of the running thread of this CPU after its remainder. */
static void begin_slice(struct thread *thread, struct cpu *cpu, u64 now)
{
	u64 left = thread->account.left;

	cpu->ends = now + (left > settings.timer_least ? left : settings.timer_least);
	if (cpu->armed && cpu->armed <= cpu->ends)
		return;
	cpu->armed = cpu->ends;
	bpf_timer_start(&cpu->slice, cpu->ends, BPF_F_TIMER_ABS | BPF_F_TIMER_CPU_PIN);
}

static int end_slice(void *map, u32 *at, struct cpu *cpu)
{
	cpu->armed = 0;
	if (!cpu->tid)
		return 0;
	if (bpf_ktime_get_ns() >= cpu->ends) {
		scx_bpf_kick_cpu(*at, SCX_KICK_PREEMPT);
		return 0;
	}
	cpu->armed = cpu->ends;
	bpf_timer_start(&cpu->slice, cpu->ends, BPF_F_TIMER_ABS | BPF_F_TIMER_CPU_PIN);
	return 0;
}

#endif
