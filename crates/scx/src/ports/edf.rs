//! `tactus-port-edf`: the port of `edf` and `gang-edf` as a program for `tactus sim --policy scx:edf`. Its main function is in C
//! (`bpf/shim/main.c`), and the build script compiles it.
#![no_main]
