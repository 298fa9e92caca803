-- title: What a fault costs by kernel and processor
-- unit: ns per fault; ratio to what the same faults of the same services cost in the whole fleet
-- tables: runs
-- plot: bars label=kernel detail=cpu value=ns_per_fault low=low high=high
WITH by_service AS (
    SELECT service, sum(fault_ns) / NULLIF(sum(CAST(faults AS DOUBLE)), 0) AS fleet_price_ns FROM runs
    WHERE fault_ns IS NOT NULL GROUP BY service
),
by_machine AS (
    SELECT service, kernel, cpu, host, sum(CAST(faults AS DOUBLE)) AS faults, sum(fault_low_ns) AS low_ns,
           sum(fault_ns) AS fault_ns, sum(fault_high_ns) AS high_ns
    FROM runs WHERE fault_ns IS NOT NULL GROUP BY service, kernel, cpu, host
)
SELECT m.kernel, m.cpu, count(DISTINCT m.host) AS hosts, sum(m.faults) AS faults,
       sum(m.fault_ns) / NULLIF(sum(m.faults), 0) AS ns_per_fault, sum(m.low_ns) / NULLIF(sum(m.faults), 0) AS low,
       sum(m.high_ns) / NULLIF(sum(m.faults), 0) AS high,
       sum(m.fault_ns) / NULLIF(sum(m.faults * s.fleet_price_ns), 0) AS ratio_to_fleet
FROM by_machine m JOIN by_service s ON s.service = m.service
GROUP BY m.kernel, m.cpu
-- Rounded: sums in another order differ in the last digit.
ORDER BY round(ratio_to_fleet, 6) DESC, m.kernel, m.cpu LIMIT 20
