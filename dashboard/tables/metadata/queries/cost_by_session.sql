/*
title = "Cost by session"
description = "The 100 most expensive sessions, in US dollars, among the newest 200,000 calls. Calls without a session id are left out."
place = 30
parameters.days = { label = "Days", type = "integer", minimum = 0, maximum = 36_500, default = 7 }
*/
select session_id, min(created_at) as started_at, max(created_at) as last_at, count(*) as calls,
  round(sum(cost_cents) / 100, 4) as cost_usd,
  round(total(case when is_value then cost_cents end) / 100, 4) as subscription_value_usd,
  round(total(case when billing = 'customer' then cost_cents end) / 100, 4) as customer_value_usd, round(total(estimated_cents) / 100, 4) as estimated_usd,
  sum(output_tokens) as output_tokens,
  sum(cost_cents is null) as calls_without_cost
from (
  select session_id, created_at, cost_cents, estimated_cents, output_tokens, billing,
    billing = 'subscription' and coalesce(overage, 0) = 0 as is_value
  from usage order by id desc limit 200000
) where session_id is not null and created_at >= date('now', '-' || :days || ' days')
group by session_id order by cost_usd desc limit 100
