// SPDX-License-Identifier: GPL-2.0-only
/*
 * The rules of the port of `bmq`, as an ordinary program: reads its settings from a file, then operations of threads, one on
 * each line, and prints the account of the thread after each. See bmq_rules.rs.
 */
#include <inttypes.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

typedef int8_t s8;
typedef uint8_t u8;
typedef int32_t s32;
typedef uint32_t u32;
typedef uint64_t u64;

#include "../bpf/bmq.h"

#define THREADS 16

int main(int count, char **words)
{
	static struct bmq_account accounts[THREADS];
	static struct bmq_settings with;
	FILE *file = count == 2 ? fopen(words[1], "rb") : 0;
	char operation[16];
	u32 at, result;
	u64 one, two;

	/* The file has exactly one record. */
	if (!file || fread(&with, sizeof(with), 1, file) != 1 || fgetc(file) != EOF)
		return 1;
	while (scanf("%15s %" SCNu32 " %" SCNu64 " %" SCNu64, operation, &at, &one, &two) == 4) {
		struct bmq_account *a = &accounts[at % THREADS];

		result = 0;
		if (!strcmp(operation, "open")) {
			bmq_open(&with, a, one);
		} else if (!strcmp(operation, "set")) {
			a->nice = (s32)one - 20;
			a->kind = two;
		} else if (!strcmp(operation, "fork")) {
			result = bmq_fork(&with, &accounts[one % THREADS], a);
		} else if (!strcmp(operation, "wake")) {
			bmq_wake(&with, a, one);
		} else if (!strcmp(operation, "dispatch")) {
			a->last_ran = one;
		} else if (!strcmp(operation, "charge")) {
			bmq_charge(a, one, two);
		} else if (!strcmp(operation, "check")) {
			result = bmq_check_slice(&with, a, true);
		} else if (!strcmp(operation, "block")) {
			bmq_block(&with, a, one);
		} else if (!strcmp(operation, "yield")) {
			result = bmq_yield(&with, a);
		} else if (strcmp(operation, "show")) {
			return 1;
		}
		printf("%d %" PRIu32 " %" PRIu64 " %" PRIu32 "\n", a->boost, bmq_level(&with, a), a->left, result);
		fflush(stdout);
	}
	return 0;
}
