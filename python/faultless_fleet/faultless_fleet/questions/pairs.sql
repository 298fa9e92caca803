-- The pairs of releases: each with the one before it, or the two that `asked` has.
WITH by_host AS (
    SELECT service, release, host, min(begin) AS first_run, sum(fault_ns) AS fault_ns,
           sum(CAST(cpu_ns AS DOUBLE)) AS cpu_ns, sum(CAST(wall_ns AS DOUBLE)) AS wall_ns
    FROM runs WHERE release IS NOT NULL AND cpu_ns IS NOT NULL AND fault_ns IS NOT NULL GROUP BY service, release, host
),
by_release AS (
    SELECT service, release, min(first_run) AS first_run, count(*) AS hosts, sum(fault_ns) AS fault_ns,
           sum(cpu_ns) AS cpu_ns, sum(cpu_ns / NULLIF(wall_ns, 0)) AS cores
    FROM by_host GROUP BY service, release HAVING sum(fault_ns) > 0 AND sum(cpu_ns) > 0
),
in_order AS (
    SELECT service, release, lag(release) OVER (PARTITION BY service ORDER BY first_run, release) AS previous
    FROM by_release
),
pairs AS (
    SELECT service, previous AS before_release, release AS after_release
    FROM in_order WHERE previous IS NOT NULL AND (SELECT count(*) FROM asked) = 0
    UNION ALL
    SELECT r.service, a.before_release, a.after_release FROM asked a JOIN by_release r ON r.release = a.before_release
),
