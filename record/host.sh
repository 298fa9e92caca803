#!/bin/sh
# The facts of this machine that a reader of a record needs.
echo "date:     $(date -u +%Y-%m-%d)"
echo "commit:   $(git rev-parse --short HEAD)$(git diff --quiet HEAD || echo ' with changes')"
echo "kernel:   $(uname -sr)"
echo "cpu:      $(sed -n 's/^model name.*: //p' /proc/cpuinfo | head -1), $(nproc) processors, $(grep -qw hypervisor /proc/cpuinfo && echo virtual || echo 'bare metal')"
echo "memory:   $(sed -n 's/MemTotal: *//p' /proc/meminfo)"
echo "thp:      $(cat /sys/kernel/mm/transparent_hugepage/enabled), defrag $(cat /sys/kernel/mm/transparent_hugepage/defrag)"
echo "cmdline:  $(tr ' ' '\n' </proc/cmdline | grep -E '^(mitigations|page_reporting|nested|init_on|transparent)' | tr '\n' ' ')"
echo "libc:     $(getconf GNU_LIBC_VERSION)"
echo "rustc:    $(rustc --version)"
echo "load:     $(cut -d' ' -f1-3 /proc/loadavg)"
