-- title: Releases, each beside the one before it
-- unit: percent of CPU time in faults; ratio after / before with a 99 % interval (delta method on its logarithm; the hosts are the sample, Student's t); cores that the change costs
-- tables: runs
-- plot: ratios label=service detail=after_release value=ratio low=ratio_low high=ratio_high
-- with: pairs
compared AS (
    SELECT p.service, p.before_release, p.after_release, b.hosts AS hosts_before, a.hosts AS hosts_after,
           b.fault_ns / b.cpu_ns AS share_before, a.fault_ns / a.cpu_ns AS share_after,
           b.fault_ns AS before_ns, a.fault_ns AS after_ns, a.cores
    FROM pairs p
    JOIN by_release b ON b.service = p.service AND b.release = p.before_release
    JOIN by_release a ON a.service = p.service AND a.release = p.after_release
),
-- What each host adds to the logarithm of the ratio, to first order. A host with both releases adds the difference.
parts AS (
    SELECT c.service, c.before_release, c.after_release, h.host,
           sum(CASE WHEN h.release = c.after_release THEN (h.fault_ns - c.share_after * h.cpu_ns) / c.after_ns
                    ELSE (c.share_before * h.cpu_ns - h.fault_ns) / c.before_ns END) AS part
    FROM compared c
    JOIN by_host h ON h.service = c.service AND (h.release = c.before_release OR h.release = c.after_release)
    GROUP BY c.service, c.before_release, c.after_release, h.host
),
errors AS (
    SELECT service, before_release, after_release, CASE WHEN count(*) > 2 THEN CAST(count(*) AS DOUBLE) - 1 END AS freedom, sum(part * part) AS squares
    FROM parts GROUP BY service, before_release, after_release
),
-- The quantile 0.995 of Student's t by its expansion in 1 / freedom: within 4 % from 2 on, 0.3 % from 4 on.
widths AS (
    SELECT service, before_release, after_release, sqrt(squares * (freedom + 1) / freedom)
           * (2.575829 + (4.916548 + (8.834762 + (12.144296 + 12.054824 / freedom) / freedom) / freedom) / freedom) AS width
    FROM errors
),
found AS (
    SELECT c.service, c.before_release, c.after_release, c.hosts_before, c.hosts_after,
           100 * c.share_before AS percent_before, 100 * c.share_after AS percent_after,
           c.share_after / c.share_before AS ratio, c.share_after / c.share_before * exp(-w.width) AS ratio_low,
           c.share_after / c.share_before * exp(w.width) AS ratio_high,
           (c.share_after - c.share_before) * c.cores AS cores_more
    FROM compared c
    JOIN widths w ON w.service = c.service AND w.before_release = c.before_release AND w.after_release = c.after_release
)
SELECT service, before_release, after_release, hosts_before, hosts_after, percent_before, percent_after, ratio, ratio_low,
       ratio_high, cores_more,
       CASE WHEN ratio_low IS NULL THEN 'fewer than three hosts: cannot say' WHEN ratio_low > 1 THEN 'worse' WHEN ratio_high < 1 THEN 'better'
            ELSE 'no difference detected' END AS verdict
FROM found ORDER BY cores_more DESC, service, after_release LIMIT 10
