/* cgroup.h - what the control group that this process runs in allows it. */
#ifndef CORE_CGROUP_H
#define CORE_CGROUP_H

/* CPUs (1.5 is one and a half), and bytes of memory; 0: no limit. Versions 1 and 2. A limit set on any group from
 * ours up to the root holds, so the smallest one counts. */
double cgroup_cpus(void);
double cgroup_memory(void);

/* The number of CPUs in the text of cpu.max ("200000 100000" is 2), 0 for none ("max 100000"). */
double cgroup_quota(const char *cpu_max);

#endif
