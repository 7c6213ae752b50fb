/* SPDX-License-Identifier: GPL-2.0-only */
/* In place of the header of libbpf with this name. An operation is an ordinary function here. */
#ifndef SHIM_BPF_TRACING_H
#define SHIM_BPF_TRACING_H

#define BPF_PROG(name, ...) name(__VA_ARGS__)

#endif
