/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The part of kernel/sched/ext.c (Linux 7.2) that a port needs, as an ordinary program in virtual time. The driver, which
 * speaks on standard input (main.c), has the clock and the CPUs: it says what happens to threads, and asks which thread a CPU
 * runs. One process has one port, because the maps of a port are global.
 */
#ifndef SHIM_H
#define SHIM_H

#include "../kernel.h"
#include "../interface.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NO_TASK ((struct task *)0)
/* The bits of the kernel's own flags of an enqueue and a dequeue that reach the operations: kernel/sched/sched.h. */
#define DEQUEUE_SLEEP 1ULL
#define DEQUEUE_SAVE 2ULL
#define ENQUEUE_RESTORE 2ULL
/* A wake-up after a fork. */
#define WF_FORK 4ULL
/* Bits of queue identifiers and of flags of an enqueue that no port names: include/linux/sched/ext.h, kernel/sched/ext.c. */
#define DSQ_LOCAL_ON 0xc000000000000000ULL
#define DSQ_GLOBAL 0x8000000000000001ULL
#define ENQ_HEAD (1ULL << 4)
#define ENQ_DSQ_PRIQ (1ULL << 57)

/*
 * The clock of the kernel at the instant 0 of the driver, in ns: CLOCK_MONOTONIC is above 0 when a program is loaded, and a
 * port may give 0 a meaning of its own.
 */
#define BOOT_NS 1000000000ULL

struct queue;

/* A thread. */
struct task {
	struct task_struct p;
	struct task *next;
	/* The queue in which the thread waits, and its neighbours there. */
	struct queue *queue;
	struct task *before, *after;
	/* Number of enqueues of the queue when the thread came. */
	u32 seq;
	s32 cpu;
	/* Whether the thread is enqueued in the port, which may dispatch it. */
	bool in_custody;
	/* The queue of a dispatch within select_cpu() or enqueue(). */
	bool is_direct;
	u64 direct_queue, direct_flags;
	/* Up to this instant, the slice is charged. */
	u64 exec_start;
	/* Task storage: one value for each map. */
	struct storage *storage;
};

/* A dispatch queue. */
struct queue {
	u64 id;
	struct task *first, *last;
	u32 seq;
	s32 count;
	struct queue *next;
};

/* A CPU. */
struct rq {
	struct queue local;
	/* The thread that runs, also after it has blocked, until the CPU picks; none: the CPU is idle. */
	struct task *curr;
	/* Whether the CPU counts as idle for pick_idle_cpu(). A CPU that was claimed does not. */
	bool is_idle;
	bool in_balance;
	bool needs_resched;
};

/* A port, with what the driver must know about it. */
struct port {
	const char *name;
	struct sched_ext_ops *ops;
	/* The queue of threads that may not run until they are moved; 0: none. */
	u64 held;
	/* The settings, and their size; null: the port has none. */
	void *settings;
	u32 settings_size;
	/* Adds a promise, before the start; null: the port keeps none. */
	void (*promise)(s32 tid, u64 slice, u64 period, bool is_hard, s32 cpu, s32 gang);
	/* A thread has come; null: nothing follows. */
	void (*born)(s32 tid);
	/* The state of a promise; returns whether the thread has one. */
	bool (*show)(s32 tid, u64 *deadline, s64 *balance);
	/* The ring buffer with the recording; null: there is none. */
	void *records;
};

extern const struct port *shim_port;
extern u64 shim_now;
extern s32 shim_cpu;
extern u32 shim_cpus;

/* Ends the process: the port, or the driver, has broken a rule of the kernel. */
extern void shim_fail(const char *format, ...) __attribute__((noreturn, format(printf, 1, 2)));
/* Adds a word to the reply. */
extern void shim_reply(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* queues.c */
extern struct rq *shim_rq(s32 cpu);
extern void queue_push(struct queue *queue, struct task *task, u64 flags);
extern void queue_remove(struct task *task);
extern struct queue *queue_find(u64 id, struct task *task);
extern void dispatch_enqueue(struct queue *queue, struct task *task, u64 flags);
extern bool consume(struct rq *rq, s32 cpu, struct queue *queue);
/* The thread that select_cpu() or enqueue() may dispatch, and whether dispatch() runs. */
extern struct task *shim_direct;
extern bool shim_in_dispatch;
extern u32 shim_flush(void);

/* core.c */
extern struct task *task_find(s32 tid);
extern bool task_allowed(const struct task *task, s32 cpu);
extern void resched(s32 cpu);
extern void core_init(u32 cpus);
extern void core_new(s32 tid, u32 weight, s32 nice, u32 policy, const struct cpumask *mask, bool is_fork);
extern void core_remove(struct task *task);
extern void core_wake(struct task *task, u64 flags);
extern void core_block(struct task *task);
extern bool core_yield(s32 cpu, struct task *to);
/* Changes the weight and the nice value, or the mask. */
extern void core_change(struct task *task, const u32 *weight, s32 nice, const struct cpumask *mask);
extern struct task *core_pick(s32 cpu);
extern void core_kicks(void);

/* maps.c */
extern void timers_run(s32 cpu);
extern void timers_report(void);
extern void storage_free(struct task *task);
extern void leaks_check(void);

static inline struct task *task_of(const struct task_struct *p)
{
	return (struct task *)p;
}

#endif
