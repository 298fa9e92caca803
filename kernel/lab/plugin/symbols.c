// SPDX-License-Identifier: MIT OR Apache-2.0
/* The functions of a kernel, from its System.map. */
#include "symbols.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* By address. Of several names, a global one first, then by the alphabet. */
struct entry {
	struct symbol symbol;
	char kind;
};

static int by_address(const void *a, const void *b)
{
	const struct entry *x = a, *y = b;

	if (x->symbol.address != y->symbol.address)
		return x->symbol.address < y->symbol.address ? -1 : 1;
	if ((x->kind == 'T') != (y->kind == 'T'))
		return x->kind == 'T' ? -1 : 1;
	return strcmp(x->symbol.name, y->symbol.name);
}

long symbols_read(const char *path, struct symbol **symbols)
{
	FILE *file = fopen(path, "r");
	struct entry *entries = NULL;
	long count = 0, room = 0, kept = 0;
	char line[1024], kind, name[512];
	unsigned long long address;

	if (!file)
		return -1;
	while (fgets(line, sizeof(line), file)) {
		if (sscanf(line, "%llx %c %511s", &address, &kind, name) != 3)
			continue;
		/* __pfx_ names the padding in front of a function. */
		if (!strchr("tTwW", kind) || !strncmp(name, "__pfx_", 6))
			continue;
		if (count == room) {
			room = room ? room * 2 : 4096;
			entries = realloc(entries, (size_t)room * sizeof(*entries));
			if (!entries)
				break;
		}
		entries[count].symbol.address = address;
		entries[count].symbol.name = strdup(name);
		entries[count++].kind = kind;
	}
	fclose(file);
	*symbols = entries ? calloc((size_t)count, sizeof(**symbols)) : NULL;
	if (!*symbols)
		return -1;
	qsort(entries, (size_t)count, sizeof(*entries), by_address);
	for (long i = 0; i < count; i++)
		if (!kept || (*symbols)[kept - 1].address != entries[i].symbol.address)
			(*symbols)[kept++] = entries[i].symbol;
	free(entries);
	return kept;
}

long symbols_find(const struct symbol *symbols, long count, uint64_t address)
{
	long low = 0, high = count;

	while (low < high) {
		long middle = low + (high - low) / 2;

		if (symbols[middle].address <= address)
			low = middle + 1;
		else
			high = middle;
	}
	return low - 1;
}
