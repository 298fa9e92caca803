-- title: The fleet
-- unit: cores and seconds are means over the wall time observed on each host, summed over hosts
-- tables: runs
-- plot: facts
WITH by_host AS (
    SELECT service, host,
           sum(CAST(wall_ns AS DOUBLE)) AS wall_ns, sum(CAST(cpu_ns AS DOUBLE)) AS cpu_ns, sum(fault_ns) AS fault_ns,
           sum(calls_ns) AS calls_ns, sum(CAST(faults AS DOUBLE)) AS faults
    FROM runs GROUP BY service, host
),
rates AS (
    SELECT sum(cpu_ns / NULLIF(wall_ns, 0)) AS cores, sum(fault_ns / NULLIF(wall_ns, 0)) AS fault_cores,
           sum(calls_ns / NULLIF(wall_ns, 0)) AS calls_cores
    FROM by_host
),
counts AS (
    SELECT count(DISTINCT service) AS services, count(DISTINCT host) AS hosts, count(DISTINCT date) AS days,
           count(*) AS runs, sum(CASE WHEN is_whole THEN 0 ELSE 1 END) AS cut_short, sum(CAST(faults AS DOUBLE)) AS faults
    FROM runs
)
SELECT services, hosts, days, runs, cut_short, faults, cores, fault_cores AS cores_in_faults,
       100 * fault_cores / NULLIF(cores, 0) AS percent_of_cpu, calls_cores AS cores_giving_back
FROM counts CROSS JOIN rates
