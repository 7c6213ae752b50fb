/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Threads that no decision of a policy concerns: they run by weight, in the order of their virtual times, from one queue.
 */
#ifndef TACTUS_FAIR_H
#define TACTUS_FAIR_H

#include "kernel.h"

/* The queue of these threads, and their slice. */
#define FAIR 2
#define FAIR_SLICE_NS 2000000ULL

/* Virtual time of the thread that has begun to run last. */
static u64 fair_now;

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

/* A thread with this virtual time begins to run. */
static void fair_begin(u64 vtime)
{
	if ((s64)(vtime - fair_now) > 0)
		fair_now = vtime;
}

/* A thread has run for `ran` ns. The scale of the weights is that of control groups: 100 is normal. */
static void fair_charge(struct task_struct *p, u64 *vtime, u64 ran)
{
	*vtime += ran * 100 / (p->scx.weight ?: 1);
}

/* Returns the place of a thread in the order. After a long sleep, it is at most a slice before the others. */
static u64 fair_place(u64 vtime)
{
	return (s64)(vtime + FAIR_SLICE_NS - fair_now) < 0 ? fair_now - FAIR_SLICE_NS : vtime;
}

/* Enqueues a thread with this virtual time, and wakes an idle CPU for it. */
static void fair_enqueue(struct task_struct *p, u64 *vtime, u64 flags)
{
	s32 idle;

	/* A kernel thread that has used up its slice waits as the others do. */
	if (serves_cpu(p) && flags & SCX_ENQ_WAKEUP) {
		scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL, FAIR_SLICE_NS, flags | SCX_ENQ_PREEMPT);
		return;
	}
	/* The only thread of its CPU continues there. The CPU would not look into the queue again. */
	if (flags & SCX_ENQ_LAST) {
		scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL, FAIR_SLICE_NS, flags);
		return;
	}
	*vtime = fair_place(*vtime);
	scx_bpf_dsq_insert_vtime(p, FAIR, FAIR_SLICE_NS, *vtime, flags);
	idle = scx_bpf_pick_idle_cpu(p->cpus_ptr, 0);
	if (idle >= 0)
		scx_bpf_kick_cpu(idle, SCX_KICK_IDLE);
}

/* Returns the CPU on which a thread that wakes runs, and dispatches the thread if this CPU is idle. */
static s32 fair_select_cpu(struct task_struct *p, s32 prev_cpu, u64 flags)
{
	bool is_idle = false;
	s32 cpu = scx_bpf_select_cpu_dfl(p, prev_cpu, flags, &is_idle);

	if (is_idle)
		scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL, FAIR_SLICE_NS, 0);
	return cpu;
}

#endif
