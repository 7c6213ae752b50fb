// SPDX-License-Identifier: GPL-2.0-only
/*
 * The rules of the port of `edf`, as an ordinary program: reads operations, one on each line, and prints the account after
 * each. See edf_rules.rs.
 */
#include <inttypes.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

typedef uint8_t u8;
typedef uint32_t u32;
typedef uint64_t u64;
typedef int64_t s64;

#include "../bpf/edf.h"

int main(void)
{
	struct edf_account account;
	char operation[16];
	u64 one, two;

	while (scanf("%15s %" SCNu64 " %" SCNu64, operation, &one, &two) == 3) {
		if (!strcmp(operation, "open")) {
			u64 now;

			if (scanf("%" SCNu64, &now) != 1)
				return 1;
			edf_open(&account, one, two, false, now);
		} else if (!strcmp(operation, "wake")) {
			edf_wake(&account, one);
		} else if (!strcmp(operation, "block")) {
			edf_block(&account, one);
		} else if (!strcmp(operation, "charge")) {
			edf_charge(&account, one);
		} else if (!strcmp(operation, "stop")) {
			edf_stop(&account, one);
		} else if (!strcmp(operation, "change")) {
			u64 now;

			if (scanf("%" SCNu64, &now) != 1)
				return 1;
			edf_change(&account, one, two, edf_used_until(&account), now);
		} else if (!strcmp(operation, "renew")) {
			edf_renew(&account, one);
		} else {
			return 1;
		}
		printf("%" PRIu64 " %" PRId64 " %d\n", account.deadline, account.balance, account.state == EDF_RESERVED);
		fflush(stdout);
	}
	return 0;
}
