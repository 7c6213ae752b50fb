/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Gangs, as in the policy `gang-edf`: promises with one slice, one period and one phase on different CPUs, which the user side
 * has assigned. The promises of a gang are a ring. Only orders change it, one after another; timers walk through it.
 */
#ifndef TACTUS_GANG_H
#define TACTUS_GANG_H

#include "promise.h"

/* Adds a promise, which has not begun, to the gang of `order->sibling`. `*start` is the instant at which its periods begin. */
static long join_gang(struct order *order, struct promise *promise, u64 *start, u64 now)
{
	s32 number = order->promise, of = order->sibling;
	struct promise *sibling = bpf_map_lookup_elem(&promises, &of);

	if (number == of) {
		promise->sibling = number;
		return 0;
	}
	if (!sibling || !sibling->sibling)
		return -ESRCH;
	if (sibling->account.slice != promise->account.slice || sibling->account.period != promise->account.period)
		return -EINVAL;
	*start = edf_period_from(&sibling->account, now);
	promise->sibling = sibling->sibling;
	sibling->sibling = number;
	return 0;
}

/* Removes a promise from its gang, if it is in one. */
static void leave_gang(s32 number, struct promise *promise)
{
	s32 before = number;
	u32 at;

	bpf_for(at, 0, CPUS_MAX) {
		struct promise *it = before ? bpf_map_lookup_elem(&promises, &before) : 0;

		if (!it)
			break;
		before = it->sibling;
		if (before == number) {
			it->sibling = promise->sibling;
			break;
		}
	}
}

#endif
