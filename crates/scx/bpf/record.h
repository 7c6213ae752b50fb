/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The recording of the port of `edf`: all that its decisions for promises follow from, and the decisions. The user side writes it
 * to a file (src/recording.rs), and compares the decisions with those of the Rust policy (src/replay).
 *
 * A record has the clock that the port has decided with, and a number. Numbers are consecutive, so a record that found the buffer
 * full is missed. Without a recording, the verifier removes this code, because the kernel knows that `is_recording` is 0.
 */
#ifndef TACTUS_RECORD_H
#define TACTUS_RECORD_H

#include "kernel.h"
#include "interface.h"

/* Programs without a user side set it when they are compiled. */
#ifndef IS_RECORDING
#define IS_RECORDING 0
#endif

/* A section of its own is a map of its own, which the user side finds by its name. */
const volatile u32 is_recording SEC(".rodata.record") = IS_RECORDING;

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 32 * 1024 * 1024);
} records SEC(".maps");

/* Number of records so far. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, u64);
} recorded SEC(".maps");

/* A simulated host never pauses, so its recordings need no beats (tests/port/replays.rs). */
#ifdef __bpf__

/* Time without a record of a CPU for which the CPU records that it goes on: half of the time that counts (src/replay/lived.rs). */
#define BEAT_NS 100000ULL

struct beat {
	struct bpf_timer timer;
	u32 has_begun;
	/* Whether the CPU has made a record since the last beat. */
	u32 has_recorded;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, CPUS_MAX);
	__type(key, u32);
	__type(value, struct beat);
} beats SEC(".maps");

static void note_record(s32 cpu)
{
	u32 at = cpu;
	struct beat *own = bpf_map_lookup_elem(&beats, &at);

	if (own)
		own->has_recorded = 1;
}

#else

static void note_record(s32 cpu)
{
}

#endif

/* Begins a record; null: none is wanted, or there is no room. */
static __always_inline struct record *begin_record(u32 kind, s32 promise, u64 now)
{
	u32 zero = 0;
	u64 *number = is_recording ? bpf_map_lookup_elem(&recorded, &zero) : 0;
	struct record *it;
	u64 own;

	if (!number)
		return 0;
	own = __sync_fetch_and_add(number, 1);
	it = bpf_ringbuf_reserve(&records, sizeof(*it), 0);
	if (!it)
		return 0;
	*it = (struct record){ .at = now, .number = own, .kind = kind, .promise = promise };
	it->cpu = bpf_get_smp_processor_id();
	note_record(it->cpu);
	return it;
}

static __always_inline void end_record(struct record *it)
{
	it->took = bpf_ktime_get_ns() - it->at;
	bpf_ringbuf_submit(it, BPF_RB_NO_WAKEUP);
}

/* Records what has happened to a promise. */
static void record(u32 kind, s32 promise, u64 now)
{
	struct record *it = begin_record(kind, promise, now);

	if (it)
		end_record(it);
}

#ifdef __bpf__

/* Lets this CPU show in the recording that it goes on. A comparison takes a time without its records for a pause of the machine. */
static void begin_beats(s32 cpu)
{
	u32 at = cpu;
	struct beat *own = is_recording ? bpf_map_lookup_elem(&beats, &at) : 0;

	if (!own || own->has_begun)
		return;
	own->has_begun = 1;
	bpf_timer_start(&own->timer, BEAT_NS, BPF_F_TIMER_CPU_PIN);
}

static int beat(void *map, u32 *cpu, struct beat *own)
{
	if (!own->has_recorded)
		record(RECORD_BEAT, 0, bpf_ktime_get_ns());
	own->has_recorded = 0;
	bpf_timer_start(&own->timer, BEAT_NS, BPF_F_TIMER_CPU_PIN);
	return 0;
}

static void init_beats(s32 cpu)
{
	u32 at = cpu;
	struct beat *own = is_recording ? bpf_map_lookup_elem(&beats, &at) : 0;

	if (!own)
		return;
	bpf_timer_init(&own->timer, &beats, CLOCK_MONOTONIC);
	bpf_timer_set_callback(&own->timer, beat);
}

#else

static void begin_beats(s32 cpu)
{
}

static void init_beats(s32 cpu)
{
}

#endif

/* Records the thread with a slice that this CPU runs next: its promise, with its deadline and its remaining slice; 0: none. */
static void record_choice(s32 promise, u64 deadline, s64 left, u64 now)
{
	struct record *it = begin_record(RECORD_CHOICE, promise, now);

	if (!it)
		return;
	it->deadline = deadline;
	it->left = left;
	end_record(it);
}

#endif
