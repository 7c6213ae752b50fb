/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The rules of the policies `edf` and `gang-edf` for one reservation, as in crates/policies/src/edf/account.rs with the knobs
 * placement = partitioned and rest = renew. They are pure: no clock, no queue. tests/edf_rules.rs compares them with the Rust
 * policy.
 *
 * Source: VSched (Lin and Dinda, SC'05) section 3; CBS, Abeni and Buttazzo 1998.
 */
#ifndef TACTUS_EDF_H
#define TACTUS_EDF_H

/* Maximum length of a period in ns: 4.29 s. */
#define EDF_PERIOD_MAX 0xffffffffULL

/* The state of the budget of a runnable thread. */
enum edf_state {
	/* The thread has a remaining slice. */
	EDF_RESERVED = 0,
	/* The slice is used up, and the thread competes for unreserved time. */
	EDF_BACKGROUND = 1,
	/* The slice is used up, and the thread waits for its next period. */
	EDF_DEPLETED = 2,
};

/* The account of a reservation. Times are in ns. */
struct edf_account {
	u64 slice;
	u64 period;
	/* End of the current period. */
	u64 deadline;
	/* When the thread blocked last. */
	u64 blocked;
	/* Remaining slice; negative after an overrun. */
	s64 balance;
	u32 state;
	u8 is_hard;
	u8 has_begun;
	/* Whether the periods never move, as those of a gang. */
	u8 is_fixed;
	u8 reserved;
};

static inline void edf_deplete(struct edf_account *a)
{
	a->state = a->is_hard ? EDF_DEPLETED : EDF_BACKGROUND;
}

/* Begins the period that contains `now`, with a full slice. `now` is not before the end of the current period. */
static inline void edf_renew(struct edf_account *a, u64 now)
{
	a->deadline += a->period * ((now - a->deadline) / a->period + 1);
	a->balance = a->slice;
	a->has_begun = 1;
	a->state = EDF_RESERVED;
}

/* Opens an account. Its first period begins now. */
static inline void edf_open(struct edf_account *a, u64 slice, u64 period, bool is_hard, u64 now)
{
	*a = (struct edf_account){ .slice = slice, .period = period, .deadline = now, .blocked = now };
	a->is_hard = is_hard;
	edf_renew(a, now);
}

/* Opens an account whose periods never move. The first one begins at `start`, which is not before `now`. */
static inline void edf_open_fixed(struct edf_account *a, u64 slice, u64 period, bool is_hard, u64 start, u64 now)
{
	*a = (struct edf_account){ .slice = slice, .period = period, .deadline = start, .blocked = now, .is_fixed = 1 };
	a->is_hard = is_hard;
	if (start > now)
		edf_deplete(a);
	else
		edf_renew(a, now);
}

/* Returns the first instant, at or after `now`, at which a period begins. */
static inline u64 edf_period_from(const struct edf_account *a, u64 now)
{
	u64 passed;

	if (a->deadline > now)
		return a->has_begun && a->deadline - now == a->period ? now : a->deadline;
	passed = (now - a->deadline) / a->period + ((now - a->deadline) % a->period != 0);
	return a->deadline + a->period * passed;
}

/*
 * The thread wakes within a period that does not move: its remaining slice is reduced by the time for which it was blocked in the
 * period, but not below its share `ahead` of the rest.
 */
static inline void edf_shorten(struct edf_account *a, s64 ahead, u64 now)
{
	u64 begun = a->deadline - a->period;
	s64 least = a->balance - (s64)(now - (a->blocked > begun ? a->blocked : begun));

	if (least < ahead)
		least = ahead;
	if (a->balance > least)
		a->balance = least;
	if (a->balance <= 0)
		edf_deplete(a);
}

/*
 * A new period begins if the old one is over, or if the remaining slice exceeds the share of the rest of the period. Fixed
 * periods do not follow wake-ups.
 */
static inline void edf_wake(struct edf_account *a, u64 now)
{
	bool is_over = a->has_begun && a->blocked + a->period <= a->deadline;
	u64 ahead;

	if (!a->is_fixed && (now >= a->deadline || is_over))
		a->deadline = now;
	if (now >= a->deadline)
		edf_renew(a, now);
	if (a->state != EDF_RESERVED)
		return;
	/* The products have 64 bits, because no period is above EDF_PERIOD_MAX. */
	ahead = (a->deadline - now) * a->slice / a->period;
	if (a->is_fixed) {
		edf_shorten(a, ahead, now);
	} else if ((u64)a->balance > ahead) {
		a->deadline = now;
		edf_renew(a, now);
	}
}

static inline void edf_block(struct edf_account *a, u64 now)
{
	a->blocked = now;
}

static inline void edf_charge(struct edf_account *a, u64 ran)
{
	if (a->state == EDF_RESERVED)
		a->balance -= ran;
}

/* Returns when the used part of the slice is due at a constant rate; before the first period: when that period begins. */
static inline u64 edf_used_until(const struct edf_account *a)
{
	u64 used = a->balance < 0 || (u64)a->balance < a->slice ? a->slice - a->balance : 0, due;

	if (!a->has_begun)
		return a->deadline;
	if (used > EDF_PERIOD_MAX)
		used = EDF_PERIOD_MAX;
	due = used * a->period;
	return a->deadline - a->period + due / a->slice + (due % a->slice != 0);
}

/*
 * Changes the reservation, as with the knob change = due: the first period of the new one begins when the used part of the
 * slice is due at a constant rate, which is edf_used_until(), and in a gang the latest one.
 */
static inline void edf_change(struct edf_account *a, u64 slice, u64 period, u64 due, u64 now)
{
	a->slice = slice;
	a->period = period;
	a->blocked = now;
	if (due > now) {
		a->deadline = due;
		a->balance = 0;
		a->has_begun = 0;
		edf_deplete(a);
	} else {
		a->deadline = now;
		edf_renew(a, now);
	}
}

/* Updates the state of a thread that stops and stays runnable. A yield gives up the rest of the slice. */
static inline void edf_stop(struct edf_account *a, bool has_yielded)
{
	if (a->state != EDF_RESERVED)
		return;
	if (has_yielded || a->balance <= 0)
		edf_deplete(a);
}

#endif
