// SPDX-License-Identifier: GPL-2.0-only
/*
 * A reference for measurements: first come, first served, in one queue for all CPUs, with the kernel's default slice and without
 * preemption at a wake-up. It is no policy of Tactus, and only the trials load it.
 */
#include "kernel.h"
#include "ending.h"

char _license[] SEC("license") = "GPL";

#define QUEUE 1

SEC("struct_ops/select_cpu")
s32 BPF_PROG(fifo_select_cpu, struct task_struct *p, s32 prev_cpu, u64 flags)
{
	bool is_idle = false;
	s32 cpu = scx_bpf_select_cpu_dfl(p, prev_cpu, flags, &is_idle);

	if (is_idle)
		scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL, SCX_SLICE_DFL, 0);
	return cpu;
}

SEC("struct_ops/enqueue")
void BPF_PROG(fifo_enqueue, struct task_struct *p, u64 flags)
{
	scx_bpf_dsq_insert(p, QUEUE, SCX_SLICE_DFL, flags);
}

SEC("struct_ops/dispatch")
void BPF_PROG(fifo_dispatch, s32 cpu, struct task_struct *prev)
{
	scx_bpf_dsq_move_to_local(QUEUE);
}

SEC("struct_ops.s/init")
s32 BPF_PROG(fifo_init)
{
	return scx_bpf_create_dsq(QUEUE, -1);
}

SEC("struct_ops/exit")
void BPF_PROG(fifo_exit, struct scx_exit_info *info)
{
	store_ending(info);
}

SEC(".struct_ops.link")
struct sched_ext_ops fifo = {
	.select_cpu = (void *)fifo_select_cpu,
	.enqueue = (void *)fifo_enqueue,
	.dispatch = (void *)fifo_dispatch,
	.init = (void *)fifo_init,
	.exit = (void *)fifo_exit,
	.timeout_ms = 20000,
	.name = "tactus_fifo",
};
