-- title: The ten services that lose most to page faults
-- unit: seconds in faults per day, all hosts; percent of the service's CPU time; low and high are the ends of the estimates, summed
-- tables: runs
-- plot: bars label=service value=seconds_per_day low=low high=high
WITH by_host AS (
    SELECT service, host,
           sum(CAST(wall_ns AS DOUBLE)) AS wall_ns, sum(CAST(cpu_ns AS DOUBLE)) AS cpu_ns,
           sum(fault_low_ns) AS low_ns, sum(fault_ns) AS fault_ns, sum(fault_high_ns) AS high_ns
    FROM runs GROUP BY service, host
),
rates AS (
    SELECT service, count(*) AS hosts, sum(cpu_ns / NULLIF(wall_ns, 0)) AS cores,
           sum(low_ns / NULLIF(wall_ns, 0)) AS low, sum(fault_ns / NULLIF(wall_ns, 0)) AS fault_cores,
           sum(high_ns / NULLIF(wall_ns, 0)) AS high
    FROM by_host GROUP BY service
)
SELECT service, hosts, cores, 86400 * fault_cores AS seconds_per_day, 86400 * low AS low, 86400 * high AS high,
       100 * fault_cores / NULLIF(cores, 0) AS percent_of_cpu, 100 * low / NULLIF(cores, 0) AS percent_low,
       100 * high / NULLIF(cores, 0) AS percent_high
FROM rates ORDER BY fault_cores DESC, service LIMIT 10
