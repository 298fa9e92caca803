-- title: Day by day
-- unit: cores in faults, all hosts; percent of CPU time
-- tables: runs
-- plot: columns label=date value=cores_in_faults
WITH by_host AS (
    SELECT date, service, host, sum(CAST(wall_ns AS DOUBLE)) AS wall_ns, sum(CAST(cpu_ns AS DOUBLE)) AS cpu_ns,
           sum(fault_ns) AS fault_ns
    FROM runs WHERE cpu_ns IS NOT NULL AND fault_ns IS NOT NULL GROUP BY date, service, host
),
rates AS (
    SELECT date, count(DISTINCT host) AS hosts, sum(cpu_ns / NULLIF(wall_ns, 0)) AS cores,
           sum(fault_ns / NULLIF(wall_ns, 0)) AS fault_cores
    FROM by_host GROUP BY date
)
SELECT date, hosts, cores, fault_cores AS cores_in_faults, 100 * fault_cores / NULLIF(cores, 0) AS percent_of_cpu
FROM rates ORDER BY date
