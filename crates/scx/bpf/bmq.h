/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The rules of the policy `bmq` for one thread, as in crates/policies/src/bmq/rule.rs: its boost, its level and its time
 * slice. They are pure: no clock, no queue. All numbers come from the Rust policy (bmq/tables.rs), for the values of its knobs.
 * tests/bmq_rules.rs compares the rules with the Rust policy.
 *
 * Source: Project C v5.13-r3, kernel/sched/{alt_core.c,bmq.h}.
 */
#ifndef TACTUS_BMQ_H
#define TACTUS_BMQ_H

/* The sizes of the tables: BOOST_MAX of bmq/tables.rs, and the nice values from -20 to 19. */
#define BMQ_BOOST_MAX 12
#define BMQ_BOOSTS (2 * BMQ_BOOST_MAX + 1)
#define BMQ_NICES 40
/* The best boost of a kind whose boost never improves. */
#define BMQ_NEVER 127

/* Hides a value from the compiler, so that the verifier sees the comparison of the value that is an index. */
#define bmq_hide(value) asm volatile("" : "+r"(value))

enum bmq_kind {
	BMQ_NORMAL = 0,
	BMQ_BATCH = 1,
	BMQ_IDLE = 2,
};

/* The effect of a yield. */
enum bmq_yield {
	/* The thread loses its boost. */
	BMQ_GIVE_UP = 0,
	BMQ_IGNORED = 1,
	/* The next thread runs once. */
	BMQ_SKIP = 2,
};

/* The numbers of the Rust policy: `Tables` in bmq/tables.rs. Times are in ns. */
struct bmq_settings {
	u64 slice;
	u64 rest_least;
	u64 timer_least;
	u64 long_run;
	u64 sleep_above;
	/* By boost. */
	u64 short_runs[BMQ_BOOSTS];
	u32 sleep_shift;
	u32 sleep_most;
	u32 clamps;
	/* enum bmq_yield */
	u32 yields;
	u32 yielder_goes_last;
	u32 one_better;
	u32 steal_most;
	s8 worst;
	s8 first;
	s8 yielded;
	s8 reserved;
	/* By kind. */
	s8 best[3];
	/* By the boost of the parent. */
	s8 children[BMQ_BOOSTS];
	/* By nice value and boost. */
	u8 levels[BMQ_NICES][BMQ_BOOSTS];
	u8 padding[4];
};

struct bmq_account {
	/* Remainder of the time slice, in ns. */
	u64 left;
	/* When the thread was charged or dispatched last. */
	u64 last_ran;
	s32 boost;
	s32 nice;
	/* enum bmq_kind */
	u32 kind;
	u32 reserved;
};

static inline u32 bmq_boost_index(s32 boost)
{
	u32 at = boost + BMQ_BOOST_MAX;

	bmq_hide(at);
	return at < BMQ_BOOSTS ? at : BMQ_BOOST_MAX;
}

static inline u32 bmq_level(const struct bmq_settings *with, const struct bmq_account *a)
{
	u32 nice = a->nice + 20, boost = bmq_boost_index(a->boost);

	bmq_hide(nice);
	if (nice >= BMQ_NICES)
		nice = BMQ_NICES - 1;
	return with->levels[nice][boost];
}

/* Begins with a full time slice, without a parent. */
static inline void bmq_open(const struct bmq_settings *with, struct bmq_account *a, u64 now)
{
	a->left = with->slice;
	a->last_ran = now;
	a->boost = with->first;
}

/* Improves the boost. */
static inline void bmq_raise(const struct bmq_settings *with, struct bmq_account *a, s32 steps)
{
	u32 kind = a->kind;
	s32 best;

	bmq_hide(kind);
	best = kind < 3 ? with->best[kind] : BMQ_NEVER;
	if (best == BMQ_NEVER || (a->boost <= best && !with->clamps))
		return;
	a->boost = a->boost - steps < best ? best : a->boost - steps;
}

static inline void bmq_lower(const struct bmq_settings *with, struct bmq_account *a)
{
	if (a->boost < with->worst)
		a->boost++;
}

/* The time slice of the parent is halved. Returns whether too little is left of it, so that its slice ends. */
static inline bool bmq_fork(const struct bmq_settings *with, struct bmq_account *parent, struct bmq_account *child)
{
	bool is_little;

	parent->left /= 2;
	is_little = parent->left < with->rest_least;
	child->left = is_little ? with->slice : parent->left;
	child->boost = with->children[bmq_boost_index(parent->boost)];
	return is_little;
}

static inline void bmq_wake(const struct bmq_settings *with, struct bmq_account *a, u64 now)
{
	u64 slept = now - a->last_ran, steps = slept >> with->sleep_shift;

	if (slept > with->sleep_above)
		bmq_raise(with, a, steps < with->sleep_most ? steps : with->sleep_most);
}

static inline void bmq_charge(struct bmq_account *a, u64 ran, u64 now)
{
	a->left = a->left > ran ? a->left - ran : 0;
	a->last_ran = now;
}

/* Renews a used-up slice of a thread that stops or blocks. Returns whether the thread goes to the tail of its level. */
static inline bool bmq_check_slice(const struct bmq_settings *with, struct bmq_account *a, bool is_queued)
{
	if (a->left >= with->rest_least)
		return false;
	a->left = with->slice;
	if (is_queued)
		bmq_lower(with, a);
	return is_queued;
}

/* The thread blocks `run` ns after the CPU switched to it. */
static inline void bmq_block(const struct bmq_settings *with, struct bmq_account *a, u64 run)
{
	if (run < with->short_runs[bmq_boost_index(a->boost)])
		bmq_raise(with, a, 1);
	else if (run > with->long_run)
		bmq_lower(with, a);
	bmq_check_slice(with, a, false);
}

/* Returns whether the thread goes to the tail of its level. */
static inline bool bmq_yield(const struct bmq_settings *with, struct bmq_account *a)
{
	if (with->yields != BMQ_GIVE_UP)
		return false;
	a->boost = with->yielded;
	return with->yielder_goes_last;
}

#endif
