/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A port as a program: reads events on standard input, one on each line, and writes a line with the consequences of each. All
 * instants are in ns, threads are named by tid, and masks are in hexadecimal.
 *
 *   hello                        the answer is the name of the port
 *   cpus N                       the machine
 *   settings BYTES               before the start: the settings of the port, in hexadecimal
 *   promise TID SLICE PERIOD HARD CPU GANG   before the start; GANG: a thread of the gang, itself if it is the first; 0: none
 *   start NOW                    init()
 *   new NOW TID WEIGHT NICE POLICY MASK FORK   a thread that sleeps; WEIGHT: 100 is normal; NICE: plus 20; FORK: 1 for a new child, 0
 *                                for a thread that was there before the port
 *   end NOW TID                  a thread that sleeps ends
 *   wake NOW CPU TID FLAGS       CPU: that of the waking thread
 *   block NOW TID                a thread is not runnable any longer
 *   yield NOW CPU TID            the thread of a CPU yields, to TID; 0: to any thread
 *   mask NOW TID MASK            a new mask
 *   weight NOW TID WEIGHT NICE   a new weight and nice value; NICE as in `new`
 *   timers NOW CPU               the timers of a CPU that are due
 *   pick NOW CPU                 the CPU picks a thread
 *   show TID                     the state of the promise
 *
 * Consequences: `k CPU` the CPU has to pick; `t CPU AT` the next timer of the CPU (0: none); `h TID`, `r TID` the thread is
 * held, or released; `p TID SLICE` the thread that the CPU runs (0: none); `y YES` whether the yield has an effect; `s HAS
 * DEADLINE BALANCE` the promise; `e KIND CPU TID AT` an event for the user side. A line that begins with `!` says which
 * rule of the kernel is broken; the program then ends.
 */
#include "shim.h"

#include <stdarg.h>

static char reply[1 << 20];
static size_t length;

void shim_reply(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	length += vsnprintf(reply + length, sizeof(reply) - length, format, args);
	va_end(args);
	if (length >= sizeof(reply))
		shim_fail("the reply is too long");
}

void shim_fail(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	printf("!");
	vprintf(format, args);
	printf("\n");
	va_end(args);
	fflush(stdout);
	exit(1);
}

static u64 number(void)
{
	char *word = strtok(0, " \n"), *end;
	u64 it;

	if (!word)
		shim_fail("a number lacks");
	it = strtoull(word, &end, 10);
	if (*end)
		shim_fail("%s is no number", word);
	return it;
}

static struct task *thread(void)
{
	s32 tid = number();
	struct task *task = task_find(tid);

	if (!task)
		shim_fail("there is no thread %d", tid);
	return task;
}

static s32 cpu_number(void)
{
	s32 cpu = number();

	shim_rq(cpu);
	return cpu;
}

/* The words of a mask, the lowest first, with commas between them. */
static struct cpumask mask(void)
{
	struct cpumask it = { 0 };
	char *word = strtok(0, " \n");

	if (!word)
		shim_fail("a mask lacks");
	for (u32 at = 0; at < MASK_WORDS && *word; at++) {
		it.bits[at] = strtoul(word, &word, 16);
		word += *word == ',';
	}
	return it;
}

static void add_promise(void)
{
	s32 tid = number();
	u64 slice = number(), period = number();
	bool is_hard = number();
	s32 cpu = cpu_number();

	if (!shim_port->promise)
		shim_fail("this port keeps no promises");
	shim_port->promise(tid, slice, period, is_hard, cpu, number());
}

/* A nice value, plus 20. */
static s32 nice_value(void)
{
	return (s32)number() - 20;
}

static void read_settings(void)
{
	const char *word = strtok(0, " \n");
	u8 *to = shim_port->settings;

	if (!word || strlen(word) != 2 * shim_port->settings_size)
		shim_fail("the settings of this port have %u bytes", shim_port->settings_size);
	for (u32 at = 0; at < shim_port->settings_size; at++) {
		char byte[3] = { word[2 * at], word[2 * at + 1] }, *end;

		to[at] = strtoul(byte, &end, 16);
		if (*end)
			shim_fail("%s is no byte", byte);
	}
}

static void add_thread(void)
{
	s32 tid = number();
	u32 weight = number();
	s32 nice = nice_value();
	u32 policy = number();
	struct cpumask allowed = mask();

	core_new(tid, weight, nice, policy, &allowed, number());
	if (shim_port->born)
		shim_port->born(tid);
}

static void show(void)
{
	u64 deadline = 0;
	s64 balance = 0;
	bool has = shim_port->show && shim_port->show(number(), &deadline, &balance);

	shim_reply(" s %d %llu %lld", has, has ? deadline - BOOT_NS : 0, balance);
}

static void pick(void)
{
	struct task *task = core_pick(shim_cpu);

	shim_reply(" p %d %llu", task ? task->p.pid : 0, task ? task->p.scx.slice : 0);
}

static void wake(void)
{
	struct task *task;

	shim_cpu = cpu_number();
	task = thread();
	core_wake(task, number());
}

static void yield(void)
{
	s32 tid;

	shim_cpu = cpu_number();
	tid = number();
	shim_reply(" y %d", core_yield(shim_cpu, tid ? task_find(tid) : NO_TASK));
}

static void change(const char *what)
{
	struct task *task = thread();
	struct cpumask allowed;
	u32 weight;

	shim_cpu = task->cpu;
	if (!strcmp(what, "mask")) {
		allowed = mask();
		core_change(task, 0, 0, &allowed);
	} else {
		weight = number();
		core_change(task, &weight, nice_value(), 0);
	}
}

/* An event at an instant. */
static void happen(const char *what)
{
	struct task *task;
	u64 now = number() + BOOT_NS;

	if (now < shim_now)
		shim_fail("time goes back");
	shim_now = now;
	if (!strcmp(what, "start")) {
		core_init(shim_cpus);
	} else if (!strcmp(what, "new")) {
		add_thread();
	} else if (!strcmp(what, "end")) {
		core_remove(thread());
	} else if (!strcmp(what, "wake")) {
		wake();
	} else if (!strcmp(what, "block")) {
		task = thread();
		shim_cpu = task->cpu;
		core_block(task);
	} else if (!strcmp(what, "yield")) {
		yield();
	} else if (!strcmp(what, "mask") || !strcmp(what, "weight")) {
		change(what);
	} else if (!strcmp(what, "timers")) {
		shim_cpu = cpu_number();
		timers_run(shim_cpu);
	} else if (!strcmp(what, "pick")) {
		shim_cpu = cpu_number();
		pick();
	} else {
		shim_fail("there is no event %s", what);
	}
	leaks_check();
	core_kicks();
	timers_report();
}

int main(int count, char **args)
{
	static char line[4096];

	if (count != 2 || strcmp(args[1], shim_port->name)) {
		fprintf(stderr, "usage: this program has the port %s\n", shim_port->name);
		return 2;
	}
	while (fgets(line, sizeof(line), stdin)) {
		const char *what = strtok(line, " \n");

		length = 0;
		reply[0] = 0;
		if (!what)
			shim_fail("a line is empty");
		if (!strcmp(what, "hello"))
			shim_reply("%s", shim_port->name);
		else if (!strcmp(what, "cpus"))
			shim_cpus = number();
		else if (!strcmp(what, "settings"))
			read_settings();
		else if (!strcmp(what, "promise"))
			add_promise();
		else if (!strcmp(what, "show"))
			show();
		else
			happen(what);
		puts(reply);
		fflush(stdout);
	}
	return 0;
}
