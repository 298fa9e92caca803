/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Marks in the guest's instructions, for the plugin: `nopl disp32(%rax)` with a
 * displacement that no compiler writes. Its last byte is the mark.
 */
#ifndef MARKS_H
#define MARKS_H

#define MARK_BYTES 0x0f, 0x1f, 0x80, 0x46, 0x4c, 0x4b

#define MARK_ARM 1    /* simulate the cache from here on */
#define MARK_BEGIN 2  /* a new section */
#define MARK_PAUSE 3  /* the section does not count what follows */
#define MARK_RESUME 4
#define MARK_LAP 5    /* one fault, or one operation, ends here */
#define MARK_END 6    /* the section ends */
#define MARK_FLUSH 7  /* empty the simulated caches */

#ifndef QEMU_PLUGIN_V1_H
#define mark(which)                                                              \
	__asm__ volatile(".byte 0x0f, 0x1f, 0x80, 0x46, 0x4c, 0x4b, %c0" ::"i"(which) \
			 : "memory")
#endif

#endif
