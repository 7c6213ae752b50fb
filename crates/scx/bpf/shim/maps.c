/* SPDX-License-Identifier: GPL-2.0-only */
/* Maps, task storage, timers, locks and the ring buffer of a port. */
#include "shim.h"

#include <stdarg.h>

/* An entry of a map. Entries keep their addresses. */
struct entry {
	struct entry *next;
	void *key;
	void *value;
};

struct map {
	struct map *next;
	void *id;
	struct shim_shape shape;
	u32 count;
	struct entry *first, **last;
};

struct storage {
	struct storage *next;
	void *map;
	void *value;
};

struct timer {
	struct timer *next;
	struct bpf_timer *id;
	void *map;
	struct entry *entry;
	shim_timer_callback callback;
	bool is_set;
	u64 at;
	s32 cpu;
};

static struct map *maps;
static struct timer *timers;
static u64 reported[CPUS_MAX];
static int locks, records;

static void *allocated(u64 size)
{
	void *it = calloc(1, size);

	if (!it)
		shim_fail("no memory");
	return it;
}

static struct entry *entry_new(struct map *map, const void *key)
{
	struct entry *entry = allocated(sizeof(*entry));

	entry->key = allocated(map->shape.key_size);
	entry->value = allocated(map->shape.value_size);
	memcpy(entry->key, key, map->shape.key_size);
	*map->last = entry;
	map->last = &entry->next;
	map->count++;
	return entry;
}

static struct map *map_of(void *id, struct shim_shape shape)
{
	struct map *map;

	for (map = maps; map; map = map->next)
		if (map->id == id)
			return map;
	map = allocated(sizeof(*map));
	map->id = id;
	map->shape = shape;
	map->last = &map->first;
	map->next = maps;
	maps = map;
	/* An array has all its entries from the start. */
	for (u32 at = 0; shape.type == BPF_MAP_TYPE_ARRAY && at < shape.max_entries; at++)
		entry_new(map, &at);
	return map;
}

static struct entry *entry_find(struct map *map, const void *key)
{
	struct entry *entry;

	for (entry = map->first; entry; entry = entry->next)
		if (!memcmp(entry->key, key, map->shape.key_size))
			break;
	return entry;
}

void *shim_map_lookup(void *id, struct shim_shape shape, const void *key)
{
	struct entry *entry = entry_find(map_of(id, shape), key);

	return entry ? entry->value : 0;
}

long shim_map_update(void *id, struct shim_shape shape, const void *key, const void *value)
{
	struct map *map = map_of(id, shape);
	struct entry *entry = entry_find(map, key);

	if (!entry && map->count == shape.max_entries)
		return -7; /* E2BIG */
	if (!entry)
		entry = entry_new(map, key);
	memcpy(entry->value, value, shape.value_size);
	return 0;
}

static bool is_in(const struct entry *entry, const struct map *map, const void *at)
{
	return (char *)at >= (char *)entry->value && (char *)at < (char *)entry->value + map->shape.value_size;
}

long shim_map_delete(void *id, struct shim_shape shape, const void *key)
{
	struct map *map = map_of(id, shape);
	struct entry *entry = entry_find(map, key), **at = &map->first;
	struct timer **timer = &timers;

	if (!entry)
		return -2; /* ENOENT */
	if (shape.type == BPF_MAP_TYPE_ARRAY)
		return -22; /* EINVAL */
	/* The timers of an entry end with it. */
	while (*timer) {
		struct timer *it = *timer;

		if (is_in(entry, map, it->id)) {
			*timer = it->next;
			free(it);
		} else {
			timer = &it->next;
		}
	}
	while (*at != entry)
		at = &(*at)->next;
	*at = entry->next;
	if (map->last == &entry->next)
		map->last = at;
	map->count--;
	free(entry->key);
	free(entry->value);
	free(entry);
	return 0;
}

long shim_map_each(void *id, struct shim_shape shape, shim_each call, void *context)
{
	struct entry *entry;
	long count = 0;

	for (entry = map_of(id, shape)->first; entry; entry = entry->next, count++)
		if (call(id, entry->key, entry->value, context))
			break;
	return count;
}

void *shim_task_storage(void *map, u32 value_size, struct task_struct *p, u64 flags)
{
	struct task *task = task_of(p);
	struct storage *it;

	/* The current thread of an idle CPU, which has no storage here. */
	if (!p)
		return 0;
	for (it = task->storage; it; it = it->next)
		if (it->map == map)
			return it->value;
	if (!(flags & BPF_LOCAL_STORAGE_GET_F_CREATE))
		return 0;
	it = allocated(sizeof(*it));
	*it = (struct storage){ task->storage, map, allocated(value_size) };
	task->storage = it;
	return it->value;
}

void storage_free(struct task *task)
{
	while (task->storage) {
		struct storage *it = task->storage;

		task->storage = it->next;
		free(it->value);
		free(it);
	}
}

/* ---- The ring buffers: each event becomes a word of the reply, and records go to the file SHIM_RECORD ---- */

/* What precedes a record of a ring buffer. */
struct slot {
	void *map;
	u64 size;
};

void *shim_ringbuf_reserve(void *map, u64 size)
{
	struct slot *slot = allocated(sizeof(*slot) + size);

	*slot = (struct slot){ map, size };
	records++;
	return slot + 1;
}

static void write_record(const void *record, u64 size)
{
#ifdef SHIM_RECORD
	static FILE *to;

	if (!to)
		to = fopen(SHIM_RECORD, "wb");
	if (!to || fwrite(record, size, 1, to) != 1 || fflush(to))
		shim_fail("a record cannot be written");
#else
	(void)record, (void)size;
#endif
}

void shim_ringbuf_submit(void *record)
{
	struct slot *slot = (struct slot *)record - 1;
	struct event *event = record;

	records--;
	if (slot->map == shim_port->records)
		write_record(record, slot->size);
	else
		shim_reply(" e %u %d %d %llu", event->kind, event->cpu, event->tid, event->at - BOOT_NS);
	free(slot);
}

/* ---- Locks ---- */

void bpf_spin_lock(struct bpf_spin_lock *lock)
{
	if (lock->opaque || locks)
		shim_fail("a lock is taken while another one is held");
	lock->opaque = 1;
	locks++;
}

void bpf_spin_unlock(struct bpf_spin_lock *lock)
{
	if (!lock->opaque)
		shim_fail("a lock is released that is not held");
	lock->opaque = 0;
	locks--;
}

void leaks_check(void)
{
	if (locks || records)
		shim_fail("the port returns with a lock or a reserved record");
}

/* ---- Timers ---- */

static struct timer *timer_of(struct bpf_timer *id)
{
	struct timer *timer;

	for (timer = timers; timer; timer = timer->next)
		if (timer->id == id)
			return timer;
	shim_fail("a timer is used before bpf_timer_init()");
}

long shim_timer_init(struct bpf_timer *id, void *map_id)
{
	struct timer *timer = allocated(sizeof(*timer));
	struct map *map;

	for (map = maps; map && map->id != map_id; map = map->next)
		;
	if (!map)
		shim_fail("a timer is not in its map");
	timer->entry = map->first;
	while (timer->entry && !is_in(timer->entry, map, id))
		timer->entry = timer->entry->next;
	if (!timer->entry)
		shim_fail("a timer is not in its map");
	timer->id = id;
	timer->map = map_id;
	timer->next = timers;
	timers = timer;
	return 0;
}

long shim_timer_set_callback(struct bpf_timer *id, shim_timer_callback callback)
{
	timer_of(id)->callback = callback;
	return 0;
}

long bpf_timer_start(struct bpf_timer *id, u64 nsecs, u64 flags)
{
	struct timer *timer = timer_of(id);

	if (!timer->callback)
		return -22; /* EINVAL */
	timer->is_set = true;
	timer->at = flags & BPF_F_TIMER_ABS ? nsecs : shim_now + nsecs;
	timer->cpu = shim_cpu;
	return 0;
}

long bpf_timer_cancel(struct bpf_timer *id)
{
	struct timer *timer = timer_of(id);
	bool was_set = timer->is_set;

	timer->is_set = false;
	return was_set;
}

/* Returns the timer of a CPU that is due first; among equals, the one whose thread or CPU came first. */
static struct timer *first_of(s32 cpu)
{
	struct timer *timer, *first = 0;

	for (timer = timers; timer; timer = timer->next)
		if (timer->is_set && timer->cpu == cpu && (!first || timer->at <= first->at))
			first = timer;
	return first;
}

/* Runs the callbacks that are due on a CPU, in the order of their instants. */
void timers_run(s32 cpu)
{
	struct timer *timer;

	while ((timer = first_of(cpu)) && timer->at <= shim_now) {
		timer->is_set = false;
		timer->callback(timer->map, timer->entry->key, timer->entry->value);
		/* A timer that is due at once fires after this interrupt. */
		if (timer->is_set && timer->at <= shim_now)
			timer->at = shim_now + 1;
	}
}

/* Reports the first instant of each CPU, where it has changed. */
void timers_report(void)
{
	for (u32 cpu = 0; cpu < shim_cpus; cpu++) {
		struct timer *first = first_of(cpu);
		/* An instant in the past means now. */
		u64 at = !first ? 0 : first->at > BOOT_NS ? first->at - BOOT_NS : 1;

		if (reported[cpu] != at)
			shim_reply(" t %u %llu", cpu, at);
		reported[cpu] = at;
	}
}

/* ---- Other helpers ---- */

u64 bpf_ktime_get_ns(void)
{
	return shim_now;
}

u32 bpf_get_smp_processor_id(void)
{
	return shim_cpu;
}

long bpf_probe_read_kernel(void *to, u32 size, const void *from)
{
	memcpy(to, from, size);
	return 0;
}

long bpf_probe_read_kernel_str(void *to, u32 size, const void *from)
{
	return snprintf(to, size, "%s", (const char *)from) + 1;
}
