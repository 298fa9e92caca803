// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * PID 1: carries out /plan line by line and ends the machine.
 *
 *   # text             a remark
 *   write PATH TEXT    a kernel setting; "absent PATH" if there is none
 *   arm                simulate the cache from here on
 *   sleep MS           virtual time
 *   run NAME WORDS     /bin/NAME, and wait for it
 */
#define _GNU_SOURCE
#include "lab.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/wait.h>
#include <unistd.h>

#define MOST_WORDS 32

static void run(char **words)
{
	char path[128];
	int status = 0;
	pid_t child;

	snprintf(path, sizeof(path), "/bin/%s", words[0]);
	child = fork();
	if (child < 0)
		fail("fork");
	if (!child) {
		execv(path, words);
		fail(path);
	}
	waitpid(child, &status, 0);
	if (status)
		printf("failed %s: status %d\n", words[0], status);
}

static void carry_out(char *line)
{
	char *words[MOST_WORDS + 1] = { 0 };
	int count = 0;

	for (char *next = strtok(line, " \n"); next && count < MOST_WORDS; next = strtok(NULL, " \n"))
		words[count++] = next;
	if (!count || words[0][0] == '#')
		return;
	if (!strcmp(words[0], "write") && count == 3)
		write_text(words[1], words[2]);
	else if (!strcmp(words[0], "arm"))
		mark(MARK_ARM);
	else if (!strcmp(words[0], "sleep") && count == 2)
		sleep_ms(atol(words[1]));
	else if (!strcmp(words[0], "run") && count > 1)
		run(words + 1);
	else
		printf("failed plan: %s\n", words[0]);
	fflush(stdout);
}

int main(void)
{
	char line[512];
	FILE *plan;

	mount("proc", "/proc", "proc", 0, NULL);
	mount("sysfs", "/sys", "sysfs", 0, NULL);
	mount("tmpfs", "/tmp", "tmpfs", 0, NULL);
	setvbuf(stdout, NULL, _IOFBF, 4096);
	plan = fopen("/plan", "r");
	if (!plan)
		fail("/plan");
	printf("begin\n");
	while (fgets(line, sizeof(line), plan))
		carry_out(line);
	printf("end\n");
	fflush(stdout);
	sync();
	reboot(RB_AUTOBOOT);
	return 1;
}
