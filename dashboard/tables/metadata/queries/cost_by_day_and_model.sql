/*
title = "Cost by day and model"
description = "Calls, cost in US dollars and tokens of each model on each day (UTC)."
place = 10
parameters.days = { label = "Days", type = "integer", minimum = 0, maximum = 36_500, default = 30 }
*/
select day, coalesce(nullif(model, ''), '(none named)') as model, sum(entries) as calls,
  round(nullif(sum(cost_cents), case when sum(unpriced) + sum(unpriced_tokens) > 0 then 0 end) / 100, 4) as cost_usd,
  round(total(case when billing <> 'subscription' then cost_cents end) / 100, 4) as spend_usd,
  round(total(case when billing = 'subscription' then cost_cents end) / 100, 4) as subscription_value_usd,
  round(sum(estimated_cents) / 100, 4) as estimated_usd, sum(unpriced) as calls_without_price, sum(maybe_billed) as calls_maybe_billed,
  sum(:prompt_tokens) as prompt_tokens,
  sum(output_tokens) as output_tokens
from usage_days where day >= date('now', '-' || :days || ' days')
group by day, usage_days.model order by day desc, cost_usd desc
