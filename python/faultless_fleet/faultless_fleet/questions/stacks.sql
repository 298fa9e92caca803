-- title: The ten costliest stacks
-- unit: percent of the sampled time of all services asked about; the three innermost functions, innermost first
-- tables: samples, frames
-- plot: bars label=function detail=service value=percent_of_time
WITH sampled AS (
    SELECT service, stack, count(*) AS samples, sum(fault_ns) AS fault_ns
    FROM samples WHERE stack IS NOT NULL GROUP BY service, stack
),
total AS (
    SELECT sum(fault_ns) AS fault_ns FROM samples
),
-- A stack is the same in every run: one copy of it.
dictionary AS (
    SELECT stack, max(CASE WHEN depth = 0 THEN function END) AS function,
           max(CASE WHEN depth = 1 THEN function END) AS caller, max(CASE WHEN depth = 2 THEN function END) AS its_caller
    FROM frames WHERE depth < 3 GROUP BY stack
),
sums AS (
    SELECT s.service, d.function, d.caller, d.its_caller, sum(s.samples) AS samples, sum(s.fault_ns) AS fault_ns
    FROM sampled s JOIN dictionary d ON d.stack = s.stack
    GROUP BY s.service, d.function, d.caller, d.its_caller
)
SELECT s.service, s.function, s.caller, s.its_caller, CAST(s.samples AS BIGINT) AS samples,
       100 * s.fault_ns / NULLIF(t.fault_ns, 0) AS percent_of_time
FROM sums s CROSS JOIN total t
ORDER BY s.fault_ns DESC, s.service, s.function, s.caller, s.its_caller LIMIT 10
