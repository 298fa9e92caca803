-- title: Kinds of faults
-- unit: seconds per day, all hosts; ns per fault
-- tables: runs, kinds
-- plot: bars label=kind value=seconds_per_day
WITH observed AS (
    SELECT service, host, sum(CAST(wall_ns AS DOUBLE)) AS wall_ns,
           sum(CASE WHEN fault_ns IS NOT NULL THEN CAST(wall_ns AS DOUBLE) END) AS timed_wall_ns
    FROM runs GROUP BY service, host
),
by_host AS (
    SELECT service, host, kind, sum(faults) AS faults,
           sum(CASE WHEN time_ns IS NOT NULL THEN faults END) AS timed_faults, sum(time_ns) AS time_ns
    FROM kinds GROUP BY service, host, kind
)
SELECT b.kind, 86400 * sum(b.faults / NULLIF(o.wall_ns, 0)) * 1000000000 AS faults_per_day,
       86400 * sum(b.time_ns / NULLIF(o.timed_wall_ns, 0)) AS seconds_per_day,
       sum(b.time_ns) / NULLIF(sum(b.timed_faults), 0) AS ns_per_fault
FROM by_host b JOIN observed o ON o.service = b.service AND o.host = b.host
GROUP BY b.kind ORDER BY seconds_per_day DESC, b.kind
