-- title: How long a fault takes
-- unit: us, the upper end of each class (1 000 000 and more in the last); percent of the sampled faults and of their time
-- tables: samples
-- plot: columns label=up_to_us value=percent_of_faults second=percent_of_time
WITH classes AS (
    SELECT CASE WHEN fault_ns < 250 * faults THEN 0.25 WHEN fault_ns < 500 * faults THEN 0.5 WHEN fault_ns < 1000 * faults THEN 1
                WHEN fault_ns < 2000 * faults THEN 2 WHEN fault_ns < 4000 * faults THEN 4 WHEN fault_ns < 8000 * faults THEN 8
                WHEN fault_ns < 16000 * faults THEN 16 WHEN fault_ns < 64000 * faults THEN 64
                WHEN fault_ns < 256000 * faults THEN 256 WHEN fault_ns < 1000000 * faults THEN 1000 ELSE 1000000 END AS up_to_us,
           faults, fault_ns
    FROM samples
),
sums AS (
    SELECT up_to_us, count(*) AS samples, sum(faults) AS faults, sum(fault_ns) AS fault_ns FROM classes GROUP BY up_to_us
)
SELECT CAST(up_to_us AS DOUBLE) AS up_to_us, samples, 100 * faults / NULLIF(sum(faults) OVER (), 0) AS percent_of_faults,
       100 * fault_ns / NULLIF(sum(fault_ns) OVER (), 0) AS percent_of_time
FROM sums ORDER BY up_to_us
