-- title: The ten costliest stacks
-- unit: percent of the sampled time of all services; the three innermost functions, innermost first
-- tables: samples, frames
-- plot: bars label=function detail=service value=percent_of_time
WITH sampled AS (
    SELECT service, run, stack, count(*) AS samples, sum(fault_ns) AS fault_ns
    FROM samples WHERE stack IS NOT NULL GROUP BY service, run, stack
),
total AS (
    SELECT sum(fault_ns) AS fault_ns FROM samples
),
named AS (
    SELECT s.service, f.function, g.function AS caller, h.function AS its_caller, s.samples, s.fault_ns
    FROM sampled s
    JOIN frames f ON f.run = s.run AND f.stack = s.stack AND f.depth = 0
    LEFT JOIN frames g ON g.run = s.run AND g.stack = s.stack AND g.depth = 1
    LEFT JOIN frames h ON h.run = s.run AND h.stack = s.stack AND h.depth = 2
),
sums AS (
    SELECT service, function, caller, its_caller, sum(samples) AS samples, sum(fault_ns) AS fault_ns
    FROM named GROUP BY service, function, caller, its_caller
)
SELECT s.service, s.function, s.caller, s.its_caller, CAST(s.samples AS BIGINT) AS samples,
       100 * s.fault_ns / NULLIF(t.fault_ns, 0) AS percent_of_time
FROM sums s CROSS JOIN total t
ORDER BY s.fault_ns DESC, s.service, s.function, s.caller, s.its_caller LIMIT 10
