/* SPDX-License-Identifier: GPL-2.0-only */
/* The port of `bmq` as an ordinary program. */
#include "../bmq.bpf.c"
#include "shim.h"

static const struct port port = {
	.name = "bmq",
	.ops = &bmq,
	.settings = &settings,
	.settings_size = sizeof(settings),
};

const struct port *shim_port = &port;
