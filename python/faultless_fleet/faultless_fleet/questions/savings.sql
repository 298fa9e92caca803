-- title: What a cure would save
-- unit: cores, all hosts: estimates of what is saved, divided by the wall time observed; GiB that are kept for it, all hosts
-- tables: runs, mechanisms
-- plot: ranges label=cure detail=service low=cores_low high=cores_high
WITH observed AS (
    SELECT service, host, sum(CAST(wall_ns AS DOUBLE)) AS wall_ns FROM runs GROUP BY service, host
),
by_host AS (
    SELECT service, host, mechanism, cure, sum(saves_low_ns) AS low_ns, sum(saves_high_ns) AS high_ns,
           avg(CAST(keeps_bytes AS DOUBLE)) AS keeps_bytes
    FROM mechanisms WHERE cure IS NOT NULL AND saves_high_ns IS NOT NULL
    GROUP BY service, host, mechanism, cure
)
SELECT b.service, b.mechanism, b.cure, count(*) AS hosts, sum(b.low_ns / NULLIF(o.wall_ns, 0)) AS cores_low,
       sum(b.high_ns / NULLIF(o.wall_ns, 0)) AS cores_high, sum(b.keeps_bytes) / 1073741824 AS keeps_gib
FROM by_host b JOIN observed o ON o.service = b.service AND o.host = b.host
GROUP BY b.service, b.mechanism, b.cure
ORDER BY cores_low DESC, b.service, b.mechanism, b.cure LIMIT 10
