/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The types, constants and functions of the kernel that the programs of this directory use. libbpf adjusts the offsets of
 * the fields to the running kernel (CO-RE), so these types have only the fields that are read.
 *
 * Source: kernel/sched/ext.c and include/linux/sched/ext.h, Linux 6.13 to 7.2.
 */
#ifndef TACTUS_KERNEL_H
#define TACTUS_KERNEL_H

typedef unsigned char __u8;
typedef unsigned short __u16;
typedef unsigned int __u32;
typedef unsigned long long __u64;
typedef signed char __s8;
typedef short __s16;
typedef int __s32;
typedef long long __s64;
typedef __u16 __be16;
typedef __u32 __be32;
typedef __u32 __wsum;
typedef __u8 u8;
typedef __u16 u16;
typedef __u32 u32;
typedef __s8 s8;
typedef __s32 s32;
typedef __u64 u64;
typedef __s64 s64;
typedef _Bool bool;
#define true 1
#define false 0

/* Error numbers. */
#define ESRCH 3
#define ENOMEM 12
#define EEXIST 17
#define EINVAL 22
#define ENOSPC 28

/* Types of maps: enum bpf_map_type. */
#define BPF_MAP_TYPE_HASH 1
#define BPF_MAP_TYPE_ARRAY 2
#define BPF_MAP_TYPE_RINGBUF 27
#define BPF_MAP_TYPE_TASK_STORAGE 29
#define BPF_F_NO_PREALLOC 1
#define BPF_LOCAL_STORAGE_GET_F_CREATE 1
#define CLOCK_MONOTONIC 1
#define BPF_F_TIMER_ABS 1ULL
#define BPF_F_TIMER_CPU_PIN 2ULL
#define BPF_RB_NO_WAKEUP 1ULL
#define BPF_RB_FORCE_WAKEUP 2ULL

/* Flags of a task: include/linux/sched.h. */
#define PF_EXITING 0x00000004
#define PF_KTHREAD 0x00200000

/* Scheduling policies of a task: include/uapi/linux/sched.h. */
#define SCHED_BATCH 3
#define SCHED_IDLE 5

#define SCX_OPS_ENQ_LAST (1ULL << 1)
/* Threads that exit are enqueued as others, not put into the local queue of their CPU. */
#define SCX_OPS_ENQ_EXITING (1ULL << 2)
#define SCX_SLICE_DFL 20000000ULL
#define SCX_DSQ_LOCAL 0x8000000000000002ULL
#define SCX_ENQ_WAKEUP 1ULL
#define SCX_ENQ_PREEMPT (1ULL << 32)
#define SCX_ENQ_LAST (1ULL << 41)
#define SCX_DEQ_SLEEP 1ULL
#define SCX_WAKE_SYNC 0x10ULL
/* An iterator from the last thread to the first. */
#define SCX_DSQ_ITER_REV (1ULL << 16)
#define SCX_KICK_IDLE 1ULL
#define SCX_KICK_PREEMPT 2ULL
#define SCX_TASK_QUEUED 1

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

/* The value differs between versions of the kernel: use bpf_core_enum_value(). */
enum scx_enq_flags {
	SCX_ENQ_HEAD = 16,
};

#ifndef CPUMASK_WORDS
#define CPUMASK_WORDS 1
#endif

struct cpumask {
	unsigned long bits[CPUMASK_WORDS];
};

struct sched_ext_entity {
	u32 flags;
	u32 weight;
	u64 slice;
	u64 dsq_vtime;
};

struct task_struct {
	unsigned int flags;
	int static_prio;
	unsigned int policy;
	int nr_cpus_allowed;
	const struct cpumask *cpus_ptr;
	struct cpumask cpus_mask;
	unsigned short migration_disabled;
	struct sched_ext_entity scx;
	int pid;
	int tgid;
	struct task_struct *real_parent;
	char comm[16];
};

struct kernfs_node {
	u64 id;
};

struct cgroup_subsys_state {
	struct cgroup *cgroup;
	struct cgroup_subsys_state *parent;
};

struct cgroup {
	struct cgroup_subsys_state self;
	struct kernfs_node *kn;
};

struct scx_init_task_args {
	bool fork;
	/* Not without CONFIG_EXT_GROUP_SCHED. */
	struct cgroup *cgroup;
};

struct scx_exit_task_args {
	bool cancelled;
};

struct scx_cgroup_init_args {
	u32 weight;
	/* From Linux 6.17 on. */
	u64 bw_period_us;
	u64 bw_quota_us;
	u64 bw_burst_us;
};

enum scx_exit_kind {
	SCX_EXIT_NONE,
};

struct scx_exit_info {
	enum scx_exit_kind kind;
	s64 exit_code;
	const char *reason;
	char *msg;
};

/*
 * The operations that a program of this directory may define. Those for control groups (cgroup_…) do not exist without
 * CONFIG_EXT_GROUP_SCHED, and cgroup_set_bandwidth not before Linux 6.17. src/scheduler.rs leaves out what the kernel lacks.
 */
struct sched_ext_ops {
	s32 (*select_cpu)(struct task_struct *p, s32 prev_cpu, u64 wake_flags);
	void (*enqueue)(struct task_struct *p, u64 enq_flags);
	void (*dispatch)(s32 cpu, struct task_struct *prev);
	void (*tick)(struct task_struct *p);
	void (*runnable)(struct task_struct *p, u64 enq_flags);
	void (*running)(struct task_struct *p);
	void (*stopping)(struct task_struct *p, bool runnable);
	void (*quiescent)(struct task_struct *p, u64 deq_flags);
	bool (*yield)(struct task_struct *from, struct task_struct *to);
	void (*set_weight)(struct task_struct *p, u32 weight);
	void (*set_cpumask)(struct task_struct *p, const struct cpumask *cpumask);
	s32 (*init_task)(struct task_struct *p, struct scx_init_task_args *args);
	void (*enable)(struct task_struct *p);
	void (*disable)(struct task_struct *p);
	void (*exit_task)(struct task_struct *p, struct scx_exit_task_args *args);
	s32 (*cgroup_init)(struct cgroup *cgrp, struct scx_cgroup_init_args *args);
	void (*cgroup_exit)(struct cgroup *cgrp);
	void (*cgroup_move)(struct task_struct *p, struct cgroup *from, struct cgroup *to);
	void (*cgroup_set_weight)(struct cgroup *cgrp, u32 weight);
	void (*cgroup_set_bandwidth)(struct cgroup *cgrp, u64 period_us, u64 quota_us, u64 burst_us);
	s32 (*init)(void);
	void (*exit)(struct scx_exit_info *info);
	u64 flags;
	u32 timeout_ms;
	/* The kernel ends a scheduler at once whose user side knows of fewer changes of the online CPUs. 0: it does not compare. */
	u64 hotplug_seq;
	char name[128];
};

#pragma clang attribute pop


/* Objects whose size is that of the kernel. */
struct bpf_timer {
	u64 opaque[2];
} __attribute__((aligned(8)));

struct bpf_spin_lock {
	u32 opaque;
};

struct bpf_iter_num {
	u64 opaque[1];
} __attribute__((aligned(8)));

struct bpf_iter_scx_dsq {
	u64 opaque[6];
} __attribute__((aligned(8)));

#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_tracing.h>

extern s32 scx_bpf_create_dsq(u64 dsq_id, s32 node) __ksym;
extern s32 scx_bpf_select_cpu_dfl(struct task_struct *p, s32 prev_cpu, u64 wake_flags, bool *is_idle) __ksym;
extern void scx_bpf_dsq_insert(struct task_struct *p, u64 dsq_id, u64 slice, u64 enq_flags) __ksym;
extern void scx_bpf_dsq_insert_vtime(struct task_struct *p, u64 dsq_id, u64 slice, u64 vtime, u64 enq_flags) __ksym;
extern bool scx_bpf_dsq_move_to_local(u64 dsq_id) __ksym;
extern void scx_bpf_dsq_move_set_slice(struct bpf_iter_scx_dsq *it__iter, u64 slice) __ksym;
extern bool scx_bpf_dsq_move(struct bpf_iter_scx_dsq *it__iter, struct task_struct *p, u64 dsq_id, u64 flags) __ksym;
extern void scx_bpf_dsq_move_set_vtime(struct bpf_iter_scx_dsq *it__iter, u64 vtime) __ksym;
extern bool scx_bpf_dsq_move_vtime(struct bpf_iter_scx_dsq *it__iter, struct task_struct *p, u64 dsq_id, u64 flags)
	__ksym;
extern bool scx_bpf_task_set_slice(struct task_struct *p, u64 slice) __ksym __weak;
extern void scx_bpf_kick_cpu(s32 cpu, u64 flags) __ksym;
extern bool scx_bpf_test_and_clear_cpu_idle(s32 cpu) __ksym;
extern s32 scx_bpf_pick_idle_cpu(const struct cpumask *cpus_allowed, u64 flags) __ksym;
extern s32 scx_bpf_dsq_nr_queued(u64 dsq_id) __ksym;
extern struct task_struct *scx_bpf_dsq_peek(u64 dsq_id) __ksym __weak;
extern s32 scx_bpf_task_cpu(const struct task_struct *p) __ksym;
extern u32 scx_bpf_nr_cpu_ids(void) __ksym;
extern void scx_bpf_exit_bstr(s64 exit_code, char *fmt, unsigned long long *data, u32 data__sz) __ksym;
extern int bpf_iter_scx_dsq_new(struct bpf_iter_scx_dsq *it, u64 dsq_id, u64 flags) __ksym;
extern struct task_struct *bpf_iter_scx_dsq_next(struct bpf_iter_scx_dsq *it) __ksym;
extern void bpf_iter_scx_dsq_destroy(struct bpf_iter_scx_dsq *it) __ksym;
extern struct task_struct *bpf_task_from_pid(s32 pid) __ksym;
extern void bpf_task_release(struct task_struct *p) __ksym;
extern void bpf_rcu_read_lock(void) __ksym;
extern void bpf_rcu_read_unlock(void) __ksym;
extern bool bpf_cpumask_test_cpu(u32 cpu, const struct cpumask *cpumask) __ksym;

#endif
