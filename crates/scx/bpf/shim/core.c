/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The order in which the kernel calls the operations of a port: kernel/sched/ext.c and kernel/sched/core.c, Linux 7.2. Each
 * function names the function of the kernel whose steps it takes. There is one instant for each call, and no concurrency.
 */
#include "shim.h"

u64 shim_now;
s32 shim_cpu;
u32 shim_cpus;

static struct task *tasks;
static s32 references;
/* Kicks wait until the operation has returned, as irq_work does. */
static struct {
	s32 cpu;
	u64 flags;
} kicks[4096];
static u32 kick_count;

static struct sched_ext_ops *ops(void)
{
	return shim_port->ops;
}

struct task *task_find(s32 tid)
{
	struct task *task;

	for (task = tasks; task; task = task->next)
		if (task->p.pid == tid)
			break;
	return task;
}

static bool mask_has(const struct cpumask *mask, s32 cpu)
{
	return mask->bits[cpu / 64] >> (cpu % 64) & 1;
}

bool task_allowed(const struct task *task, s32 cpu)
{
	return mask_has(task->p.cpus_ptr, cpu);
}

static bool is_queued(const struct task *task)
{
	return task->p.scx.flags & SCX_TASK_QUEUED;
}

static bool is_current(const struct task *task)
{
	return shim_rq(task->cpu)->curr == task;
}

/* Makes a CPU pick: resched_curr(). */
void resched(s32 cpu)
{
	shim_rq(cpu)->needs_resched = true;
}

/* update_curr_scx() */
static void update_curr(struct task *task)
{
	u64 ran = shim_now - task->exec_start;

	task->exec_start = shim_now;
	task->p.scx.slice -= ran < task->p.scx.slice ? ran : task->p.scx.slice;
}

/* ---- Enqueue and dequeue ---- */

static void direct_dispatch(struct task *task, u64 flags)
{
	task->is_direct = false;
	dispatch_enqueue(queue_find(task->direct_queue, task), task, task->direct_flags | flags);
}

/* do_enqueue_task() */
static void do_enqueue(struct task *task, u64 flags)
{
	if (task->is_direct)
		return direct_dispatch(task, flags);
	if (!ops()->enqueue) {
		task->p.scx.slice = SCX_SLICE_DFL;
		return dispatch_enqueue(queue_find(DSQ_GLOBAL, task), task, flags);
	}
	shim_direct = task;
	ops()->enqueue(&task->p, flags);
	shim_direct = NO_TASK;
	if (task->is_direct)
		return direct_dispatch(task, flags);
	task->in_custody = true;
}

static void forget(struct task *task)
{
	queue_remove(task);
	task->in_custody = false;
	task->is_direct = false;
}

/* dequeue_task_scx() */
static void dequeue(struct task *task, u64 flags)
{
	if (is_current(task)) {
		update_curr(task);
		if (ops()->stopping)
			ops()->stopping(&task->p, false);
	}
	if (ops()->quiescent)
		ops()->quiescent(&task->p, flags);
	task->p.scx.flags &= ~SCX_TASK_QUEUED;
	forget(task);
}

/* enqueue_task_scx(). A thread that runs stays on its CPU. */
static void enqueue(struct task *task, u64 flags, bool runs)
{
	task->p.scx.flags |= SCX_TASK_QUEUED;
	if (ops()->runnable)
		ops()->runnable(&task->p, flags);
	if (!runs)
		do_enqueue(task, flags);
}

static s32 first_allowed(const struct task *task)
{
	for (u32 cpu = 0; cpu < shim_cpus; cpu++)
		if (task_allowed(task, cpu))
			return cpu;
	shim_fail("thread %d may run nowhere", task->p.pid);
}

/* wakeup_preempt(): an idle CPU leaves its idle task for a thread of this class, wherever the port enqueues it. */
static void wake_idle(s32 cpu)
{
	if (!shim_rq(cpu)->curr)
		resched(cpu);
}

/* try_to_wake_up() */
void core_wake(struct task *task, u64 flags)
{
	s32 cpu = task->cpu;

	/* The CPU that still has to switch away from the thread would make the wake-up wait. */
	if (is_current(task))
		shim_rq(task->cpu)->curr = NO_TASK;
	if (task->p.nr_cpus_allowed > 1 && ops()->select_cpu) {
		shim_direct = task;
		cpu = ops()->select_cpu(&task->p, cpu, flags);
		shim_direct = NO_TASK;
		shim_rq(cpu);
	}
	task->cpu = task_allowed(task, cpu) ? cpu : first_allowed(task);
	/* wake_up_new_task() enqueues a new thread without this flag. */
	enqueue(task, flags & WF_FORK ? 0 : SCX_ENQ_WAKEUP, false);
	wake_idle(task->cpu);
}

/* A thread sleeps, or ceases to be runnable for another reason. */
void core_block(struct task *task)
{
	if (!is_queued(task))
		shim_fail("thread %d sleeps already", task->p.pid);
	dequeue(task, DEQUEUE_SLEEP);
}

/* yield_task_scx() and yield_to_task_scx() */
bool core_yield(s32 cpu, struct task *to)
{
	struct task *from = shim_rq(cpu)->curr;

	if (!from)
		shim_fail("CPU %d is idle and yields", cpu);
	if (ops()->yield)
		return ops()->yield(&from->p, to ? &to->p : 0);
	if (!to)
		from->p.scx.slice = 0;
	return false;
}

static void set_mask(struct task *task, const struct cpumask *mask)
{
	u32 count = 0;

	for (u32 cpu = 0; cpu < shim_cpus; cpu++)
		count += mask_has(mask, cpu);
	task->p.cpus_mask = *mask;
	task->p.nr_cpus_allowed = count;
}

/* Moves a runnable thread that does not run to a CPU on which it may: move_queued_task(). */
static void migrate(struct task *task)
{
	forget(task);
	task->cpu = first_allowed(task);
	do_enqueue(task, 0);
	wake_idle(task->cpu);
}

/* set_user_nice() and __set_cpus_allowed_ptr(): the thread leaves the queues and comes back. */
void core_change(struct task *task, const u32 *weight, s32 nice, const struct cpumask *mask)
{
	bool was_queued = is_queued(task), runs = was_queued && is_current(task);

	if (was_queued)
		dequeue(task, DEQUEUE_SAVE);
	if (weight) {
		task->p.scx.weight = *weight;
		task->p.static_prio = 120 + nice;
		if (ops()->set_weight)
			ops()->set_weight(&task->p, *weight);
	}
	if (mask) {
		set_mask(task, mask);
		if (ops()->set_cpumask)
			ops()->set_cpumask(&task->p, task->p.cpus_ptr);
	}
	if (was_queued)
		enqueue(task, ENQUEUE_RESTORE, runs);
	if (runs && ops()->running)
		ops()->running(&task->p);
	if (was_queued && !runs && !task_allowed(task, task->cpu))
		migrate(task);
}

/* ---- Dispatch ---- */

/* balance_one(). Returns whether the CPU has a thread; `keeps`: this is `prev`. */
static bool balance(struct rq *rq, s32 cpu, struct task *prev, bool *keeps)
{
	u32 loops = 32; /* SCX_DSP_MAX_LOOPS */

	*keeps = false;
	if (prev) {
		update_curr(prev);
		if (is_queued(prev) && prev->p.scx.slice)
			return *keeps = true;
	}
	if (rq->local.count || consume(rq, cpu, queue_find(DSQ_GLOBAL, NO_TASK)))
		return true;
	if (ops()->dispatch) {
		u32 count;

		do {
			shim_in_dispatch = true;
			ops()->dispatch(cpu, prev ? &prev->p : 0);
			shim_in_dispatch = false;
			count = shim_flush();
			if (prev && is_queued(prev) && prev->p.scx.slice)
				return *keeps = true;
			if (rq->local.count || consume(rq, cpu, queue_find(DSQ_GLOBAL, NO_TASK)))
				return true;
		} while (count && --loops);
		if (!loops)
			scx_bpf_kick_cpu(cpu, 0);
	}
	return *keeps = prev && is_queued(prev) && !(ops()->flags & SCX_OPS_ENQ_LAST);
}

/* put_prev_task_scx() */
static void put_prev(struct rq *rq, struct task *prev, struct task *next)
{
	if (!is_queued(prev))
		return;
	if (ops()->stopping)
		ops()->stopping(&prev->p, true);
	if (prev->p.scx.slice)
		dispatch_enqueue(&rq->local, prev, ENQ_HEAD);
	else
		do_enqueue(prev, next ? 0 : SCX_ENQ_LAST);
}

/* The stopper moves a thread that runs where it may not any longer. */
static void push_away(struct rq *rq)
{
	struct task *task = rq->curr;

	update_curr(task);
	if (ops()->stopping)
		ops()->stopping(&task->p, true);
	rq->curr = NO_TASK;
	migrate(task);
}

/* One turn of schedule(). */
static void schedule(struct rq *rq, s32 cpu)
{
	struct task *prev = rq->curr, *next = NO_TASK;
	bool keeps, has_task;

	rq->needs_resched = false;
	rq->in_balance = true;
	has_task = balance(rq, cpu, prev, &keeps);
	rq->in_balance = false;
	if (has_task)
		next = keeps ? prev : rq->local.first;
	if (next && !next->p.scx.slice)
		next->p.scx.slice = SCX_SLICE_DFL;
	if (next && next == prev)
		return;
	/* From here on, the CPU is idle for the functions that wake idle CPUs, if it has no thread. */
	if (prev) {
		if (!next)
			rq->curr = NO_TASK;
		put_prev(rq, prev, next);
	}
	rq->curr = next;
	rq->is_idle = !next;
	if (!next)
		return;
	forget(next);
	next->exec_start = shim_now;
	if (ops()->running)
		ops()->running(&next->p);
}

/* Returns the thread that the CPU runs now; none: it is idle. */
struct task *core_pick(s32 cpu)
{
	struct rq *rq = shim_rq(cpu);

	if (rq->curr && is_queued(rq->curr) && !task_allowed(rq->curr, cpu))
		push_away(rq);
	schedule(rq, cpu);
	/* A thread in the local queue of an idle CPU makes it pick again. */
	while (!rq->curr && rq->local.count)
		schedule(rq, cpu);
	rq->needs_resched = false;
	return rq->curr;
}

/* ---- Kicks ---- */

void scx_bpf_kick_cpu(s32 cpu, u64 flags)
{
	if (kick_count == sizeof(kicks) / sizeof(*kicks))
		shim_fail("the port kicks CPUs without end");
	shim_rq(cpu);
	kicks[kick_count].cpu = cpu;
	kicks[kick_count++].flags = flags;
}

/* kick_cpus_irq_workfn(). Reports which CPUs have to pick. */
void core_kicks(void)
{
	for (u32 at = 0; at < kick_count; at++) {
		struct rq *rq = shim_rq(kicks[at].cpu);

		if (kicks[at].flags & SCX_KICK_IDLE && rq->curr)
			continue;
		if (kicks[at].flags & SCX_KICK_PREEMPT && rq->curr)
			rq->curr->p.scx.slice = 0;
		resched(kicks[at].cpu);
	}
	kick_count = 0;
	for (u32 cpu = 0; cpu < shim_cpus; cpu++) {
		if (shim_rq(cpu)->needs_resched)
			shim_reply(" k %u", cpu);
		shim_rq(cpu)->needs_resched = false;
	}
	if (references)
		shim_fail("the port keeps a reference to a thread");
}

/* ---- Idle CPUs ---- */

s32 scx_bpf_pick_idle_cpu(const struct cpumask *allowed, u64 flags)
{
	for (u32 cpu = 0; cpu < shim_cpus; cpu++) {
		if (shim_rq(cpu)->is_idle && mask_has(allowed, cpu)) {
			shim_rq(cpu)->is_idle = false;
			return cpu;
		}
	}
	return -16; /* EBUSY */
}

/* The default selection, without its rules for caches, sibling threads and synchronous wake-ups. */
s32 scx_bpf_select_cpu_dfl(struct task_struct *p, s32 prev_cpu, u64 wake_flags, bool *is_idle)
{
	s32 cpu;

	*is_idle = true;
	if (mask_has(p->cpus_ptr, prev_cpu) && shim_rq(prev_cpu)->is_idle) {
		shim_rq(prev_cpu)->is_idle = false;
		return prev_cpu;
	}
	cpu = scx_bpf_pick_idle_cpu(p->cpus_ptr, 0);
	*is_idle = cpu >= 0;
	return *is_idle ? cpu : prev_cpu;
}

/* ---- Threads ---- */

/* Adds a thread that sleeps. */
void core_new(s32 tid, u32 weight, s32 nice, u32 policy, const struct cpumask *mask, bool is_fork)
{
	struct task *task = calloc(1, sizeof(*task));
	struct scx_init_task_args args = { .fork = is_fork };

	if (!task)
		shim_fail("no memory");
	task->p.pid = task->p.tgid = tid;
	task->p.static_prio = 120 + nice;
	task->p.policy = policy;
	task->p.cpus_ptr = &task->p.cpus_mask;
	task->p.scx.weight = weight;
	task->p.scx.slice = SCX_SLICE_DFL;
	snprintf(task->p.comm, sizeof(task->p.comm), "thread-%d", tid);
	set_mask(task, mask);
	task->cpu = first_allowed(task);
	task->next = tasks;
	tasks = task;
	if (ops()->init_task && ops()->init_task(&task->p, &args))
		shim_fail("init_task() refuses thread %d", tid);
	if (ops()->enable)
		ops()->enable(&task->p);
	if (ops()->set_weight)
		ops()->set_weight(&task->p, weight);
}

/* Removes a thread that sleeps. */
void core_remove(struct task *task)
{
	struct task **at;

	if (is_queued(task))
		shim_fail("thread %d ends and is runnable", task->p.pid);
	if (is_current(task))
		shim_rq(task->cpu)->curr = NO_TASK;
	if (ops()->disable)
		ops()->disable(&task->p);
	for (at = &tasks; *at != task; at = &(*at)->next)
		;
	*at = task->next;
	storage_free(task);
	free(task);
}

void core_init(u32 cpus)
{
	shim_cpus = cpus;
	for (u32 cpu = 0; cpu < cpus; cpu++)
		shim_rq(cpu)->is_idle = true;
	if (ops()->init && ops()->init())
		shim_fail("init() fails");
}

bool scx_bpf_task_set_slice(struct task_struct *p, u64 slice)
{
	p->scx.slice = slice;
	return true;
}

struct task_struct *bpf_get_current_task_btf(void)
{
	struct task *task = shim_rq(shim_cpu)->curr;

	return task ? &task->p : 0;
}

s32 scx_bpf_task_cpu(const struct task_struct *p)
{
	return task_of(p)->cpu;
}

u32 scx_bpf_nr_cpu_ids(void)
{
	return shim_cpus;
}

bool bpf_cpumask_test_cpu(u32 cpu, const struct cpumask *mask)
{
	return mask_has(mask, cpu);
}

struct task_struct *bpf_task_from_pid(s32 pid)
{
	struct task *task = task_find(pid);

	references += !!task;
	return task ? &task->p : 0;
}

void bpf_task_release(struct task_struct *p)
{
	references--;
}

void bpf_rcu_read_lock(void)
{
}

void bpf_rcu_read_unlock(void)
{
}
