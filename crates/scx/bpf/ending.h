/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The reason of the end of a scheduler.
 */
#ifndef TACTUS_ENDING_H
#define TACTUS_ENDING_H

#include "kernel.h"
#include "interface.h"

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct ending);
} endings SEC(".maps");

/* Stores why the scheduler ends. */
static void store_ending(struct scx_exit_info *info)
{
	u32 zero = 0;
	struct ending *ending = bpf_map_lookup_elem(&endings, &zero);

	if (!ending)
		return;
	ending->code = info->exit_code;
	bpf_probe_read_kernel_str(ending->reason, sizeof(ending->reason), info->reason);
	bpf_probe_read_kernel_str(ending->message, sizeof(ending->message), info->msg);
	ending->kind = info->kind;
}

#endif
