/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * What the guest's programs share: cells with the kernel's counters, memory,
 * and failure.
 *
 * A cell prints one line when it ends:
 *   cell NAME PARAMETER=VALUE ... : COUNTER=VALUE ...
 * and is one section of the plugin, in the same order.
 */
#ifndef LAB_H
#define LAB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "marks.h"

#define LINE_BYTES 64
#define MIB (1ul << 20)
#define HUGE_BYTES (2 * MIB)

/* Prints a line and ends the program. */
void fail(const char *what) __attribute__((noreturn));

/* The value of NAME=VALUE among the arguments, or the default. */
long argument(int argc, char **argv, const char *name, long otherwise);
/* The same as text, or NULL. */
const char *word(int argc, char **argv, const char *name);

/* Begins a cell: the arguments that init passed, by which the host knows it. */
void cell_begin(int argc, char **argv);
/* Ends it. `pages` base pages were made present. */
void cell_end(unsigned long pages);

size_t page_bytes(void);
/* Private anonymous memory, aligned to 2 MiB, without huge pages. */
char *map(size_t bytes);
void unmap(char *memory, size_t bytes);
/* Writes one byte to each of the first `lines` cache lines of every page. */
void touch(char *memory, size_t bytes, long lines);

/* A kernel file's number, or -1 if there is none. */
long read_number(const char *path);
void write_text(const char *path, const char *text);
/* A counter of /proc/vmstat, or 0. */
unsigned long counter(const char *name);
void sleep_ms(long ms);
uint64_t now_ns(void);

#endif
