-- title: The ten mechanisms that cost most
-- unit: seconds per day in faults and in calls that give memory back, all hosts; percent of the CPU time of all services asked about
-- tables: runs, mechanisms
-- plot: bars label=mechanism detail=costliest_service value=seconds_per_day low=low high=high
WITH observed AS (
    SELECT service, host, sum(CAST(wall_ns AS DOUBLE)) AS wall_ns, sum(CAST(cpu_ns AS DOUBLE)) AS cpu_ns
    FROM runs WHERE cpu_ns IS NOT NULL AND fault_ns IS NOT NULL GROUP BY service, host
),
fleet AS (
    SELECT sum(cpu_ns / NULLIF(wall_ns, 0)) AS cores FROM observed
),
by_host AS (
    SELECT service, host, mechanism, what, sum(low_ns + calls_ns) AS low_ns, sum(time_ns + calls_ns) AS time_ns,
           sum(high_ns + calls_ns) AS high_ns
    FROM mechanisms WHERE run IN (SELECT run FROM runs WHERE cpu_ns IS NOT NULL AND fault_ns IS NOT NULL)
    GROUP BY service, host, mechanism, what
),
by_service AS (
    SELECT b.mechanism, b.what, b.service, sum(b.low_ns / NULLIF(o.wall_ns, 0)) AS low,
           sum(b.time_ns / NULLIF(o.wall_ns, 0)) AS cores, sum(b.high_ns / NULLIF(o.wall_ns, 0)) AS high
    FROM by_host b JOIN observed o ON o.service = b.service AND o.host = b.host
    GROUP BY b.mechanism, b.what, b.service
),
rates AS (
    SELECT mechanism, what, count(*) AS services, max_by(service, cores) AS costliest_service,
           sum(low) AS low, sum(cores) AS cores, sum(high) AS high
    FROM by_service GROUP BY mechanism, what
)
SELECT r.mechanism, r.what, r.services, r.costliest_service, 86400 * r.cores AS seconds_per_day, 86400 * r.low AS low,
       86400 * r.high AS high, 100 * r.cores / NULLIF(f.cores, 0) AS percent_of_cpu
FROM rates r CROSS JOIN fleet f
ORDER BY r.cores DESC, r.mechanism, r.what LIMIT 10
