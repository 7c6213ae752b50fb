/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The records between the bridge in the kernel (bridge.bpf.c) and its user side (src/interface.rs). Both are of the same build,
 * so there are no versions.
 */
#ifndef TACTUS_INTERFACE_H
#define TACTUS_INTERFACE_H

/* Maximum number of CPUs: that of a machine (CPUS_MAX of crates/sched). */
#define CPUS_MAX 1024
/* Number of 64-bit words of a CPU mask. */
#define MASK_WORDS (CPUS_MAX / 64)
/* Maximum number of promises of the port of `edf`, and of threads that share one. */
#define PROMISES_MAX 4096
#define MEMBERS_MAX 64
/* Maximum number of commands in a batch, which is copied twice as a whole. */
#define COMMANDS_MAX 32

/* What has happened to a thread. */
enum event_kind {
	/* The thread is scheduled by the bridge from now on. */
	EVENT_ATTACH = 1,
	/* The thread is no longer scheduled by the bridge. */
	EVENT_DETACH = 2,
	/* The thread has become runnable. */
	EVENT_WAKE = 3,
	/* The thread is no longer runnable. If it ran, it has ceased to run. */
	EVENT_SLEEP = 4,
	/* The thread begins to run. */
	EVENT_RUN = 5,
	/* The thread ceases to run. */
	EVENT_STOP = 6,
	/* The thread has called sched_yield(). */
	EVENT_YIELD = 7,
	/* The nice value or the CPU mask of the thread has changed. */
	EVENT_CHANGE = 8,
	/* A period of a promise has ended. The tid is the number of the promise, and `other` whether it was runnable throughout. */
	EVENT_PERIOD = 9,
	/* The bridge has chosen the thread for the CPU, because no other thread waited. The thread begins to run. */
	EVENT_CHOICE = 10,
};

/* What the port of `edf` reports. */
enum reported {
	/* The events of the threads with promises. */
	REPORT_THREADS = 0,
	/* EVENT_PERIOD. */
	REPORT_PERIODS = 1,
};

struct event {
	/* CLOCK_MONOTONIC. Unit: ns. */
	u64 at;
	u32 kind;
	/* The CPU, for EVENT_RUN, EVENT_STOP and EVENT_CHOICE. */
	s32 cpu;
	s32 tid;
	/*
	 * For EVENT_WAKE: the waking thread. For EVENT_ATTACH: the parent of a new thread. 0: none. For EVENT_CHOICE: number of batches
	 * before it.
	 */
	s32 other;
};

/* EVENT_ATTACH and EVENT_CHANGE. */
struct thread_event {
	struct event event;
	s32 nice;
	/* Scheduling policy of the thread: SCHED_NORMAL, SCHED_BATCH or SCHED_IDLE. */
	u32 policy;
	u64 mask[MASK_WORDS];
};

/* EVENT_PERIOD. */
struct period_event {
	struct event event;
	/* CPU time that was due and delivered in the period. Unit: ns. */
	u64 due;
	u64 delivered;
	/* Number of periods that have passed, with this one. Nothing was delivered in the others. */
	u64 passed;
};

/* What the port of `edf` records: RECORD_CHOICE is a decision, and the others are what its decisions follow from. */
enum record_kind {
	/* A promise begins. */
	RECORD_BEGIN = 1,
	/* The first of its members has become runnable. */
	RECORD_WAKE = 2,
	/* The last one is no longer runnable. */
	RECORD_SLEEP = 3,
	/* From now on, the time of a member is charged. */
	RECORD_RUN = 4,
	/* No longer. */
	RECORD_STOP = 5,
	/* A timer has begun a period. */
	RECORD_RENEW = 6,
	/* Its only member gives up the rest of the slice. */
	RECORD_YIELD = 7,
	/* The CPU has chosen a member of the promise, which has a slice; 0: there is none. */
	RECORD_CHOICE = 8,
	/* A member with a slice has come to the queue of its CPU: from a sleep, from another CPU, or from threads without a slice. */
	RECORD_MOVE = 9,
	/* The CPU goes on: its timer has found no new record of this CPU. */
	RECORD_BEAT = 10,
};

struct record {
	/* The clock with which the port has decided, and the time from there to the record. CLOCK_MONOTONIC. Unit: ns. */
	u64 at;
	u64 took;
	/* Records are numbered from 0 on. */
	u64 number;
	/* RECORD_CHOICE: the end of the period, and the remaining slice. RECORD_BEGIN: the slice and the period. Unit: ns. */
	union {
		u64 deadline;
		u64 slice;
	};
	union {
		s64 left;
		u64 period;
	};
	u32 kind;
	/* The CPU on which it has happened. */
	s32 cpu;
	s32 promise;
	/* RECORD_BEGIN: the CPU of the promise, a promise of its gang or 0, and whether it is hard. */
	s32 home;
	s32 gang;
	u32 is_hard;
};

/* What the user side changes in the port of `edf`. */
enum order_kind {
	/* The periods of a promise that is in the map begin. */
	ORDER_BEGIN = 1,
	/* A promise and those of its gang have another reservation. */
	ORDER_CHANGE = 2,
	/* A thread becomes a member of a promise. */
	ORDER_JOIN = 3,
	/* A thread is no longer a member of its promise. */
	ORDER_LEAVE = 4,
	/* A promise is about to leave the map: it leaves its gang. */
	ORDER_END = 5,
};

struct order {
	u32 kind;
	/* Number of the promise. */
	s32 promise;
	/* ORDER_JOIN and ORDER_LEAVE. */
	s32 tid;
	u32 is_helper;
	/* ORDER_BEGIN: a promise of the gang that it joins; its own number: it begins a gang; 0: it is in no gang. */
	s32 sibling;
	u32 reserved;
	/* ORDER_CHANGE. Unit: ns. */
	u64 slice;
	u64 period;
};

/* Instruction of the user side. */
struct command {
	/* The CPU; -1: the thread is not managed any longer. */
	s32 cpu;
	/* The thread that runs on the CPU; 0: none. */
	s32 tid;
};

struct batch {
	u32 count;
	/* Whether another batch follows before the CPUs look. */
	u32 is_part;
	struct command commands[COMMANDS_MAX];
};

/* Result of a batch. */
struct report {
	/* Number of events that found the buffer full. */
	u64 lost;
	/* Number of dispatches of chosen threads, and number of dispatches whose chosen thread was not there. */
	u64 dispatched;
	u64 absent;
	/* Whether the bridge dispatches by itself, because the user side was late or events were lost. */
	u32 is_fallback;
	/* Number of times that the user side was late. */
	u32 fallbacks;
	/* Number of batches, modulo 2^32. */
	u32 batches;
	/* Whether the bridge has ended. */
	u32 has_ended;
};

/* Settings, before the bridge begins. */
struct settings {
	/* Whether all threads of user processes are managed, not only those of the listed processes. */
	u32 manages_all;
	/* The process of the user side, whose threads are never managed. */
	s32 own_tgid;
	/* Whether a CPU always runs a thread that last ran there, if no other thread is runnable: the policy never lets it wait. */
	u32 is_conserving;
};

/* What the port of `bmq` has done on a CPU. */
struct bmq_counts {
	/* Number of switches to a thread. */
	u64 switches;
	/* Number of slices that were used up. */
	u64 expired;
	/* Number of threads pulled from other CPUs. */
	u64 stolen;
	/* Number of threads that ran for a slice because they had waited for too long. */
	u64 rescued;
};

/* The faults of a scheduler of the trials (canary.bpf.c). */
struct canary {
	/* The thread that it forgets; 0: none. */
	s32 victim;
	/* Whether it never kicks a CPU, and gives slices without end. */
	u32 never_kicks;
};

/* Why the bridge has ended. */
struct ending {
	s64 code;
	u32 kind;
	u32 reserved;
	char reason[128];
	char message[512];
};

#endif
