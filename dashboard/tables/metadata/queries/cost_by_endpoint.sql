/*
title = "Cost by proxy endpoint"
description = "Calls, errors, cost in US dollars and mean duration of each proxy endpoint."
place = 20
parameters.days = { label = "Days", type = "integer", minimum = 0, maximum = 36_500, default = 30 }
*/
select slug, sum(entries) as calls, sum(errors) as errors, round(sum(cost_cents) / 100, 4) as cost_usd,
  round(total(case when billing not in ('subscription', 'customer') then cost_cents end) / 100, 4) as spend_usd,
  round(total(case when billing = 'subscription' then cost_cents end) / 100, 4) as subscription_value_usd,
  round(total(case when billing = 'customer' then cost_cents end) / 100, 4) as customer_value_usd,
  round(sum(estimated_cents) / 100, 4) as estimated_usd, sum(maybe_billed) as calls_maybe_billed,
  cast(round(sum(duration_ms) / nullif(sum(timed), 0)) as integer) as mean_duration_ms
from usage_days where day >= date('now', '-' || :days || ' days')
group by slug order by cost_usd desc
