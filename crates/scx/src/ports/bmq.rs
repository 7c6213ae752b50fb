//! `tactus-port-bmq`: the port of `bmq` as a program for `tactus sim --policy scx:bmq`. Its main function is in C
//! (`bpf/shim/main.c`), and the build script compiles it.
#![no_main]
