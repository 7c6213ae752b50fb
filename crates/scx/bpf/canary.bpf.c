// SPDX-License-Identifier: GPL-2.0-only
/*
 * A scheduler with a fault, which only the trials load: first come, first served, in one queue for all CPUs. It forgets a thread, so that
 * the thread is in no queue, or it never kicks a CPU and gives slices without end, so that a thread waits for one that computes.
 */
#include "kernel.h"
#include "ending.h"
#include "interface.h"

char _license[] SEC("license") = "GPL";

#define QUEUE 1
#define SLICE_ENDLESS_NS (~0ULL)

struct canary canary SEC(".data.canary");

SEC("struct_ops/select_cpu")
s32 BPF_PROG(canary_select_cpu, struct task_struct *p, s32 prev_cpu, u64 flags)
{
	bool is_idle = false;

	/* The kernel kicks an idle CPU for a thread that select_cpu() sends there. */
	return canary.never_kicks ? prev_cpu : scx_bpf_select_cpu_dfl(p, prev_cpu, flags, &is_idle);
}

SEC("struct_ops/enqueue")
void BPF_PROG(canary_enqueue, struct task_struct *p, u64 flags)
{
	if (p->pid == canary.victim)
		return;
	scx_bpf_dsq_insert(p, QUEUE, canary.never_kicks ? SLICE_ENDLESS_NS : SCX_SLICE_DFL, flags);
}

SEC("struct_ops/dispatch")
void BPF_PROG(canary_dispatch, s32 cpu, struct task_struct *prev)
{
	scx_bpf_dsq_move_to_local(QUEUE);
}

SEC("struct_ops.s/init")
s32 BPF_PROG(canary_init)
{
	return scx_bpf_create_dsq(QUEUE, -1);
}

SEC("struct_ops/exit")
void BPF_PROG(canary_exit, struct scx_exit_info *info)
{
	store_ending(info);
}

SEC(".struct_ops.link")
struct sched_ext_ops faulty = {
	.select_cpu = (void *)canary_select_cpu,
	.enqueue = (void *)canary_enqueue,
	.dispatch = (void *)canary_dispatch,
	.init = (void *)canary_init,
	.exit = (void *)canary_exit,
	.flags = SCX_OPS_ENQ_LAST,
	.timeout_ms = 2000,
	.name = "tactus_canary",
};
