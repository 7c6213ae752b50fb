/* SPDX-License-Identifier: GPL-2.0-only */
/* In place of the header of libbpf with this name: the fields and constants are those of kernel.h. */
#ifndef SHIM_BPF_CORE_READ_H
#define SHIM_BPF_CORE_READ_H

#define bpf_core_field_exists(...) 1
#define bpf_core_type_exists(...) 1
#define bpf_core_enum_value_exists(type, value) 1
#define bpf_core_enum_value(type, value) ((u64)(value))

#endif
