/* SPDX-License-Identifier: GPL-2.0-only */
/* The port of `edf` and `gang-edf` as an ordinary program. */
#include "../edf.bpf.c"
#include "shim.h"

/* The promises, until their threads come. */
static struct pending {
	s32 tid;
	u64 slice, period;
	bool is_hard;
	s32 cpu;
	/* A thread of the gang, or 0. */
	s32 gang;
} pending[PROMISES_MAX];
static u32 pending_count;

static void add_promise(s32 tid, u64 slice, u64 period, bool is_hard, s32 cpu, s32 gang)
{
	if (pending_count == PROMISES_MAX)
		shim_fail("there are too many promises");
	pending[pending_count++] = (struct pending){ tid, slice, period, is_hard, cpu, gang };
}

static void order(struct order order)
{
	int error = edf_apply(&order);

	if (error)
		shim_fail("order %u is refused: %d", order.kind, error);
}

/* A thread has come: its promise begins, as by the orders of the user side. The number of the promise is the tid. */
static void begin_promise(s32 tid)
{
	for (u32 at = 0; at < pending_count; at++) {
		struct pending *it = &pending[at];
		struct promise promise = { .account = { .slice = it->slice, .period = it->period, .is_hard = it->is_hard } };

		if (it->tid != tid)
			continue;
		promise.cpu = it->cpu;
		bpf_map_update_elem(&promises, &tid, &promise, 0);
		order((struct order){ .kind = ORDER_BEGIN, .promise = tid, .sibling = it->gang });
		order((struct order){ .kind = ORDER_JOIN, .promise = tid, .tid = tid });
	}
}

static bool show_promise(s32 tid, u64 *deadline, s64 *balance)
{
	struct promise *promise = bpf_map_lookup_elem(&promises, &tid);

	if (!promise)
		return false;
	*deadline = promise->account.deadline;
	*balance = promise->account.balance;
	return true;
}

static const struct port port = {
	.name = "edf",
	.ops = &edf,
	.held = HELD,
	.promise = add_promise,
	.born = begin_promise,
	.show = show_promise,
	.records = &records,
};

const struct port *shim_port = &port;
