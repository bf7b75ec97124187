/*
title = "Latency by model"
description = "Median (p50) and 95th percentile (p95) of time to first byte and duration, over the newest 100,000 calls that have both."
place = 50
parameters.days = { label = "Days", type = "integer", minimum = 0, maximum = 36_500, default = 7 }
*/
with recent as (
  select coalesce(model, request_model || ' (requested)') as model, ttfb_ms, duration_ms
  from usage where ttfb_ms is not null and duration_ms is not null and created_at >= date('now', '-' || :days || ' days')
  order by created_at desc limit 100000
), ranked as (
  select model, ttfb_ms, duration_ms,
    percent_rank() over (partition by model order by ttfb_ms) as ttfb_rank,
    percent_rank() over (partition by model order by duration_ms) as duration_rank
  from recent
)
select coalesce(model, '(none named)') as model, count(*) as calls,
  cast(round(max(ttfb_ms) filter (where ttfb_rank <= 0.5)) as integer) as ttfb_p50_ms,
  cast(round(max(ttfb_ms) filter (where ttfb_rank <= 0.95)) as integer) as ttfb_p95_ms,
  cast(round(max(duration_ms) filter (where duration_rank <= 0.5)) as integer) as duration_p50_ms,
  cast(round(max(duration_ms) filter (where duration_rank <= 0.95)) as integer) as duration_p95_ms
from ranked group by ranked.model order by calls desc
