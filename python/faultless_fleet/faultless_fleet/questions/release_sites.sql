-- title: The ten sites that a release made dearer
-- unit: percent of the service's CPU time in faults of the site; cores that the change costs
-- tables: runs, sites
-- plot: bars label=function detail=service value=cores_more
-- `asked` has the two releases that were asked for, or no row.
WITH by_host AS (
    SELECT service, release, host, min(begin) AS first_run, sum(CAST(cpu_ns AS DOUBLE)) AS cpu_ns,
           sum(CAST(wall_ns AS DOUBLE)) AS wall_ns
    FROM runs WHERE release IS NOT NULL GROUP BY service, release, host
),
by_release AS (
    SELECT service, release, min(first_run) AS first_run, sum(cpu_ns) AS cpu_ns,
           sum(cpu_ns / NULLIF(wall_ns, 0)) AS cores
    FROM by_host GROUP BY service, release HAVING sum(cpu_ns) > 0
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
by_site AS (
    SELECT r.service, r.release, s.function, s.caller, sum(s.time_ns) AS time_ns
    FROM sites s JOIN runs r ON r.run = s.run
    GROUP BY r.service, r.release, s.function, s.caller
),
sides AS (
    SELECT p.service, p.before_release, p.after_release, s.function, s.caller,
           sum(CASE WHEN s.release = p.before_release THEN s.time_ns ELSE 0 END) AS before_ns,
           sum(CASE WHEN s.release = p.after_release THEN s.time_ns ELSE 0 END) AS after_ns
    FROM pairs p
    JOIN by_site s ON s.service = p.service AND (s.release = p.before_release OR s.release = p.after_release)
    GROUP BY p.service, p.before_release, p.after_release, s.function, s.caller
)
SELECT d.service, d.before_release, d.after_release, d.function, d.caller, 100 * d.before_ns / b.cpu_ns AS percent_before,
       100 * d.after_ns / a.cpu_ns AS percent_after, (d.after_ns / a.cpu_ns - d.before_ns / b.cpu_ns) * a.cores AS cores_more
FROM sides d
JOIN by_release b ON b.service = d.service AND b.release = d.before_release
JOIN by_release a ON a.service = d.service AND a.release = d.after_release
WHERE d.after_ns / a.cpu_ns > d.before_ns / b.cpu_ns
ORDER BY cores_more DESC, d.service, d.after_release, d.function, d.caller LIMIT 10
