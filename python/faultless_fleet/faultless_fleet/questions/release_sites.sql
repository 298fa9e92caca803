-- title: The ten sites that a release made dearer
-- unit: percent of the service's CPU time in faults of the site; cores that the change costs
-- tables: runs, sites
-- plot: bars label=function detail=service value=cores_more
-- with: pairs
by_site AS (
    SELECT r.service, r.release, s.function, s.caller, sum(s.time_ns) AS time_ns
    FROM sites s JOIN runs r ON r.run = s.run AND r.cpu_ns IS NOT NULL AND r.fault_ns IS NOT NULL
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
