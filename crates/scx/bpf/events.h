/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The events that a scheduler reports to its user side.
 */
#ifndef TACTUS_EVENTS_H
#define TACTUS_EVENTS_H

#include "kernel.h"
#include "ending.h"
#include "interface.h"

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 8 * 1024 * 1024);
} events SEC(".maps");

/* Number of events that have found the buffer full. The user side reads it. */
u64 lost SEC(".data.lost");

/* Called when an event has found the buffer full. */
static void lose(void);

/* Reports an event, with flags of bpf_ringbuf_submit(). */
static void report_with(struct task_struct *p, u32 kind, s32 cpu, s32 other, u64 now, u64 flags)
{
	struct event *event = bpf_ringbuf_reserve(&events, sizeof(*event), 0);

	if (!event) {
		lose();
		return;
	}
	*event = (struct event){ now, kind, cpu, p->pid, other };
	bpf_ringbuf_submit(event, flags);
}

static void report(struct task_struct *p, u32 kind, s32 cpu, s32 other, u64 now)
{
	/*
	 * No decision follows from the begin and the end of a run, which only give its CPU time. If they woke the user side, it
	 * would preempt a thread, whose end would wake it again.
	 */
	bool is_silent = kind == EVENT_RUN || kind == EVENT_STOP;

	report_with(p, kind, cpu, other, now, is_silent ? BPF_RB_NO_WAKEUP : BPF_RB_FORCE_WAKEUP);
}

static void report_thread(struct task_struct *p, u32 kind, s32 parent, const struct cpumask *mask)
{
	struct thread_event *it = bpf_ringbuf_reserve(&events, sizeof(*it), 0);

	if (!it) {
		lose();
		return;
	}
	it->event = (struct event){ bpf_ktime_get_ns(), kind, -1, p->pid, parent };
	it->nice = p->static_prio - 120;
	it->policy = p->policy;
	bpf_probe_read_kernel(it->mask, sizeof(it->mask), mask);
	bpf_ringbuf_submit(it, BPF_RB_FORCE_WAKEUP);
}

#endif
