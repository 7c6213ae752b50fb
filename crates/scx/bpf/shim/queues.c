/* SPDX-License-Identifier: GPL-2.0-only */
/* Dispatch queues, and the functions of the kernel that insert, move and look through them. */
#include "shim.h"

static struct queue *queues;
static struct queue global = { .id = DSQ_GLOBAL };
static struct rq rqs[CPUS_MAX];

struct task *shim_direct;
bool shim_in_dispatch;

/* Dispatches of dispatch() that are not carried out yet. */
static struct {
	struct task *task;
	u64 queue;
	u64 flags;
} buffer[64];
static u32 buffered;

struct rq *shim_rq(s32 cpu)
{
	if (cpu < 0 || cpu >= (s32)shim_cpus)
		shim_fail("there is no CPU %d", cpu);
	return &rqs[cpu];
}

static void held_report(struct queue *queue, struct task *task, const char *word)
{
	if (shim_port->held && queue->id == shim_port->held)
		shim_reply(" %s %d", word, task->p.pid);
}

void queue_push(struct queue *queue, struct task *task, u64 flags)
{
	struct task *after = 0;

	if (task->queue)
		shim_fail("thread %d is in a queue already", task->p.pid);
	if (flags & ENQ_DSQ_PRIQ) {
		for (after = queue->first; after; after = after->after)
			if ((s64)(task->p.scx.dsq_vtime - after->p.scx.dsq_vtime) < 0)
				break;
	} else if (flags & (ENQ_HEAD | SCX_ENQ_PREEMPT)) {
		after = queue->first;
	}
	task->queue = queue;
	task->after = after;
	task->before = after ? after->before : queue->last;
	*(task->before ? &task->before->after : &queue->first) = task;
	*(after ? &after->before : &queue->last) = task;
	task->seq = ++queue->seq;
	queue->count++;
	held_report(queue, task, "h");
}

void queue_remove(struct task *task)
{
	struct queue *queue = task->queue;

	if (!queue)
		return;
	*(task->before ? &task->before->after : &queue->first) = task->after;
	*(task->after ? &task->after->before : &queue->last) = task->before;
	task->queue = 0;
	queue->count--;
	held_report(queue, task, "r");
}

static struct queue *queue_user(u64 id)
{
	struct queue *queue;

	for (queue = queues; queue; queue = queue->next)
		if (queue->id == id)
			return queue;
	return id == DSQ_GLOBAL ? &global : 0;
}

/* Returns the queue with this identifier. SCX_DSQ_LOCAL is the local queue of the CPU of `task`. */
struct queue *queue_find(u64 id, struct task *task)
{
	struct queue *queue;

	if (id == SCX_DSQ_LOCAL)
		return &shim_rq(task->cpu)->local;
	if ((id & DSQ_LOCAL_ON) == DSQ_LOCAL_ON)
		return &shim_rq((s32)(id & 0xffffffff))->local;
	queue = queue_user(id);
	if (!queue)
		shim_fail("there is no queue 0x%llx", id);
	return queue;
}

static s32 cpu_of(const struct queue *queue)
{
	for (u32 cpu = 0; cpu < shim_cpus; cpu++)
		if (&rqs[cpu].local == queue)
			return cpu;
	return -1;
}

/* Enqueues a thread that is in no queue. A thread in the local queue of another CPU moves to this CPU. */
void dispatch_enqueue(struct queue *queue, struct task *task, u64 flags)
{
	s32 cpu = cpu_of(queue);
	struct rq *rq;

	if (cpu >= 0 && flags & ENQ_DSQ_PRIQ)
		shim_fail("a local queue has no order of virtual times");
	if (cpu >= 0 && !task_allowed(task, cpu))
		shim_fail("thread %d may not run on CPU %d", task->p.pid, cpu);
	queue_push(queue, task, flags);
	if (cpu < 0)
		return;
	task->cpu = cpu;
	rq = shim_rq(cpu);
	/* local_dsq_post_enq() */
	if (rq->in_balance)
		return;
	if (!rq->curr)
		resched(cpu);
	if (flags & SCX_ENQ_PREEMPT && rq->curr && rq->curr != task) {
		rq->curr->p.scx.slice = 0;
		resched(cpu);
	}
}

/* Moves the first thread of `queue` that may run on the CPU to its local queue. */
bool consume(struct rq *rq, s32 cpu, struct queue *queue)
{
	struct task *task;

	for (task = queue->first; task; task = task->after) {
		if (!task_allowed(task, cpu))
			continue;
		queue_remove(task);
		task->cpu = cpu;
		queue_push(&rq->local, task, 0);
		return true;
	}
	return false;
}

/* Carries out the dispatches of dispatch(). A thread that the port does not have any longer is skipped. */
u32 shim_flush(void)
{
	u32 count = buffered;

	buffered = 0;
	for (u32 at = 0; at < count; at++) {
		struct task *task = buffer[at].task;

		if (!task->in_custody || task->queue)
			continue;
		task->in_custody = false;
		dispatch_enqueue(queue_find(buffer[at].queue, task), task, buffer[at].flags);
	}
	return count;
}

static void insert(struct task_struct *p, u64 queue, u64 slice, u64 flags)
{
	struct task *task = task_of(p);

	p->scx.slice = slice ?: p->scx.slice ?: 1;
	if (shim_in_dispatch) {
		if (buffered == sizeof(buffer) / sizeof(*buffer))
			shim_fail("dispatch() dispatches too many threads");
		buffer[buffered].task = task;
		buffer[buffered].queue = queue;
		buffer[buffered++].flags = flags;
		return;
	}
	if (shim_direct != task || task->is_direct)
		shim_fail("thread %d is dispatched outside of its enqueue()", p->pid);
	task->is_direct = true;
	task->direct_queue = queue;
	task->direct_flags = flags;
}

void scx_bpf_dsq_insert(struct task_struct *p, u64 dsq_id, u64 slice, u64 enq_flags)
{
	insert(p, dsq_id, slice, enq_flags);
}

void scx_bpf_dsq_insert_vtime(struct task_struct *p, u64 dsq_id, u64 slice, u64 vtime, u64 enq_flags)
{
	p->scx.dsq_vtime = vtime;
	insert(p, dsq_id, slice, enq_flags | ENQ_DSQ_PRIQ);
}

s32 scx_bpf_create_dsq(u64 dsq_id, s32 node)
{
	struct queue *queue;

	if (queue_user(dsq_id))
		return -17; /* EEXIST */
	queue = calloc(1, sizeof(*queue));
	if (!queue)
		return -12; /* ENOMEM */
	queue->id = dsq_id;
	queue->next = queues;
	queues = queue;
	return 0;
}

bool scx_bpf_dsq_move_to_local(u64 dsq_id)
{
	struct queue *queue = queue_user(dsq_id);

	if (!shim_in_dispatch)
		shim_fail("a thread is moved to a local queue outside of dispatch()");
	if (!queue)
		shim_fail("there is no queue 0x%llx", dsq_id);
	shim_flush();
	return consume(shim_rq(shim_cpu), shim_cpu, queue);
}

struct task_struct *scx_bpf_dsq_peek(u64 dsq_id)
{
	struct queue *queue = queue_user(dsq_id);

	if (!queue)
		shim_fail("there is no queue 0x%llx", dsq_id);
	return queue->first ? &queue->first->p : 0;
}

s32 scx_bpf_dsq_nr_queued(u64 dsq_id)
{
	struct queue *queue = queue_user(dsq_id);

	if (dsq_id == SCX_DSQ_LOCAL)
		return shim_rq(shim_cpu)->local.count;
	if ((dsq_id & DSQ_LOCAL_ON) == DSQ_LOCAL_ON)
		return shim_rq((s32)(dsq_id & 0xffffffff))->local.count;
	return queue ? queue->count : -2; /* ENOENT */
}

/* ---- Iterators ---- */

/* What an iterator holds: less than the kernel's. */
struct iterator {
	struct queue *queue;
	struct task *last;
	u64 slice, vtime;
	/* Threads that come later are skipped. */
	u32 seq;
	bool sets_slice, sets_vtime;
	/* From the last thread to the first. */
	bool is_reverse;
};

_Static_assert(sizeof(struct iterator) <= sizeof(struct bpf_iter_scx_dsq), "an iterator fits");

static struct iterator *iterator_of(struct bpf_iter_scx_dsq *it)
{
	return (struct iterator *)it;
}

int bpf_iter_scx_dsq_new(struct bpf_iter_scx_dsq *it, u64 dsq_id, u64 flags)
{
	struct queue *queue = queue_user(dsq_id);

	*iterator_of(it) = (struct iterator){ .queue = queue, .is_reverse = flags & SCX_DSQ_ITER_REV };
	if (!queue)
		return -2; /* ENOENT */
	iterator_of(it)->seq = queue->seq;
	return 0;
}

static struct task *next_of(const struct iterator *it, const struct task *task)
{
	return it->is_reverse ? task->before : task->after;
}

struct task_struct *bpf_iter_scx_dsq_next(struct bpf_iter_scx_dsq *handle)
{
	struct iterator *it = iterator_of(handle);
	struct task *task;

	if (!it->queue)
		return 0;
	task = it->last ? next_of(it, it->last) : it->is_reverse ? it->queue->last : it->queue->first;
	while (task && (s32)(task->seq - it->seq) > 0)
		task = next_of(it, task);
	it->last = task;
	return task ? &task->p : 0;
}

void bpf_iter_scx_dsq_destroy(struct bpf_iter_scx_dsq *it)
{
	iterator_of(it)->queue = 0;
}

void scx_bpf_dsq_move_set_slice(struct bpf_iter_scx_dsq *it, u64 slice)
{
	iterator_of(it)->slice = slice;
	iterator_of(it)->sets_slice = true;
}

void scx_bpf_dsq_move_set_vtime(struct bpf_iter_scx_dsq *it, u64 vtime)
{
	iterator_of(it)->vtime = vtime;
	iterator_of(it)->sets_vtime = true;
}

static bool move(struct iterator *it, struct task *task, u64 dsq_id, u64 flags)
{
	bool sets_slice = it->sets_slice, sets_vtime = it->sets_vtime;
	struct queue *to;

	it->sets_slice = it->sets_vtime = false;
	if (!it->queue || task->queue != it->queue || (s32)(task->seq - it->seq) > 0)
		return false;
	/* SCX_DSQ_LOCAL is the local queue of this CPU: scx_dsq_move(). */
	to = dsq_id == SCX_DSQ_LOCAL ? &shim_rq(shim_cpu)->local : queue_find(dsq_id, task);
	if (cpu_of(to) >= 0 && !task_allowed(task, cpu_of(to)))
		shim_fail("thread %d may not run on CPU %d", task->p.pid, cpu_of(to));
	if (it->last == task)
		it->last = it->is_reverse ? task->after : task->before;
	if (sets_vtime)
		task->p.scx.dsq_vtime = it->vtime;
	if (sets_slice)
		task->p.scx.slice = it->slice;
	queue_remove(task);
	dispatch_enqueue(to, task, flags);
	return true;
}

bool scx_bpf_dsq_move(struct bpf_iter_scx_dsq *it, struct task_struct *p, u64 dsq_id, u64 flags)
{
	return move(iterator_of(it), task_of(p), dsq_id, flags);
}

bool scx_bpf_dsq_move_vtime(struct bpf_iter_scx_dsq *it, struct task_struct *p, u64 dsq_id, u64 flags)
{
	return move(iterator_of(it), task_of(p), dsq_id, flags | ENQ_DSQ_PRIQ);
}
