/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The functions of a kernel, from its System.map. */
#ifndef SYMBOLS_H
#define SYMBOLS_H

#include <stdint.h>

struct symbol {
	uint64_t address;
	char *name;
};

/* The number of functions, sorted by address; negative if the file is no map. */
long symbols_read(const char *path, struct symbol **symbols);
/* The index of the function that holds an address, or -1. */
long symbols_find(const struct symbol *symbols, long count, uint64_t address);

#endif
