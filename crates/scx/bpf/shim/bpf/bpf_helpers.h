/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * In place of the header of libbpf with this name: what kernel.h and the ports use of it, for an ordinary C compiler. The
 * functions are in maps.c and core.c. libbpf describes a map by the types of members of a variable; here, the macros pass this
 * description to each call, and the address of the variable identifies the map.
 */
#ifndef SHIM_BPF_HELPERS_H
#define SHIM_BPF_HELPERS_H

#define SEC(name)
#define __uint(name, val) int(*name)[val]
#define __type(name, val) typeof(val) *name
#define __ksym
#define __weak
#define __hidden
#define __noinline __attribute__((noinline))
#ifndef __always_inline
#define __always_inline inline __attribute__((always_inline))
#endif
#define barrier_var(variable) __asm__ volatile("" : "+r"(variable))
/* The functions of Linux 7.2. */
#define bpf_ksym_exists(function) 1
#define bpf_for(i, start, end) for ((i) = (start); (i) < (end); (i)++)

/* The description of a map. */
struct shim_shape {
	u32 type;
	u32 max_entries;
	u32 key_size;
	u32 value_size;
};

#define SHIM_NUMBER(member) (sizeof(*(member)) / sizeof(int))
#define SHIM_SHAPE(map)                                                                                                      \
	((struct shim_shape){ SHIM_NUMBER((map)->type), SHIM_NUMBER((map)->max_entries), sizeof(*(map)->key),               \
			      sizeof(*(map)->value) })

typedef long (*shim_each)(void *map, void *key, void *value, void *context);
typedef int (*shim_timer_callback)(void *map, void *key, void *value);

extern void *shim_map_lookup(void *map, struct shim_shape shape, const void *key);
extern long shim_map_update(void *map, struct shim_shape shape, const void *key, const void *value);
extern long shim_map_delete(void *map, struct shim_shape shape, const void *key);
extern long shim_map_each(void *map, struct shim_shape shape, shim_each call, void *context);
extern void *shim_task_storage(void *map, u32 value_size, struct task_struct *p, u64 flags);
extern void *shim_ringbuf_reserve(void *map, u64 size);
extern void shim_ringbuf_submit(void *record);
extern long shim_timer_init(struct bpf_timer *timer, void *map);
extern long shim_timer_set_callback(struct bpf_timer *timer, shim_timer_callback callback);

#define bpf_map_lookup_elem(map, key) ((typeof((map)->value))shim_map_lookup(map, SHIM_SHAPE(map), key))
#define bpf_map_update_elem(map, key, value, flags) shim_map_update(map, SHIM_SHAPE(map), key, value)
#define bpf_map_delete_elem(map, key) shim_map_delete(map, SHIM_SHAPE(map), key)
#define bpf_for_each_map_elem(map, call, context, flags)                                                                     \
	shim_map_each(map, SHIM_SHAPE(map), (shim_each)(void *)(call), (void *)(context))
#define bpf_task_storage_get(map, p, initial, flags)                                                                         \
	((typeof((map)->value))shim_task_storage(map, sizeof(*(map)->value), p, flags))
#define bpf_ringbuf_reserve(map, size, flags) shim_ringbuf_reserve(map, size)
#define bpf_ringbuf_submit(record, flags) shim_ringbuf_submit(record)
#define bpf_timer_init(timer, map, clock) shim_timer_init(timer, map)
#define bpf_timer_set_callback(timer, callback)                                                                              \
	shim_timer_set_callback(timer, (shim_timer_callback)(void *)(callback))

extern long bpf_timer_start(struct bpf_timer *timer, u64 nsecs, u64 flags);
extern long bpf_timer_cancel(struct bpf_timer *timer);
extern void bpf_spin_lock(struct bpf_spin_lock *lock);
extern void bpf_spin_unlock(struct bpf_spin_lock *lock);
extern u64 bpf_ktime_get_ns(void);
extern u32 bpf_get_smp_processor_id(void);
/* The thread that runs on the CPU of the event; 0: the CPU is idle. */
extern struct task_struct *bpf_get_current_task_btf(void);
extern long bpf_probe_read_kernel(void *to, u32 size, const void *from);
extern long bpf_probe_read_kernel_str(void *to, u32 size, const void *from);

#endif
