-- title: The ten sites that lose most to page faults
-- unit: seconds in faults per day, all hosts; percent of the service's CPU time
-- tables: runs, sites
-- plot: bars label=function detail=service value=seconds_per_day low=low high=high
WITH observed AS (
    SELECT service, host, sum(CAST(wall_ns AS DOUBLE)) AS wall_ns, sum(CAST(cpu_ns AS DOUBLE)) AS cpu_ns
    FROM runs WHERE cpu_ns IS NOT NULL AND fault_ns IS NOT NULL GROUP BY service, host
),
cores AS (
    SELECT service, sum(cpu_ns / NULLIF(wall_ns, 0)) AS cores FROM observed GROUP BY service
),
by_host AS (
    SELECT service, host, function, caller, module,
           sum(low_ns) AS low_ns, sum(time_ns) AS time_ns, sum(high_ns) AS high_ns
    FROM sites WHERE run IN (SELECT run FROM runs WHERE cpu_ns IS NOT NULL AND fault_ns IS NOT NULL)
    GROUP BY service, host, function, caller, module
),
rates AS (
    SELECT b.service, b.function, b.caller, b.module, count(*) AS hosts,
           sum(b.low_ns / NULLIF(o.wall_ns, 0)) AS low, sum(b.time_ns / NULLIF(o.wall_ns, 0)) AS fault_cores,
           sum(b.high_ns / NULLIF(o.wall_ns, 0)) AS high
    FROM by_host b JOIN observed o ON o.service = b.service AND o.host = b.host
    GROUP BY b.service, b.function, b.caller, b.module
)
SELECT r.service, r.function, r.caller, r.module, r.hosts, 86400 * r.fault_cores AS seconds_per_day,
       86400 * r.low AS low, 86400 * r.high AS high, 100 * r.fault_cores / NULLIF(c.cores, 0) AS percent_of_cpu
FROM rates r JOIN cores c ON c.service = r.service
ORDER BY r.fault_cores DESC, r.service, r.function, r.caller, r.module LIMIT 10
