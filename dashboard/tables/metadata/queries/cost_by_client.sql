/*
title = "Cost by client"
description = "Calls, cost in US dollars and tokens of each client, which is the product that the user-agent names. The cost is spend and the value of calls that a subscription covers."
place = 22
parameters.days = { label = "Days", type = "integer", minimum = 0, maximum = 36_500, default = 7 }
*/
select coalesce(nullif(client, ''), '(none named)') as client, sum(entries) as calls, sum(errors) as errors,
  round(sum(cost_cents) / 100, 4) as cost_usd,
  round(total(case when billing not in ('subscription', 'customer') then cost_cents end) / 100, 4) as spend_usd,
  round(total(case when billing = 'subscription' then cost_cents end) / 100, 4) as subscription_value_usd,
  round(total(case when billing = 'customer' then cost_cents end) / 100, 4) as customer_value_usd,
  round(sum(estimated_cents) / 100, 4) as estimated_usd, sum(unpriced) as calls_without_price, sum(maybe_billed) as calls_maybe_billed,
  sum(:prompt_tokens) as prompt_tokens, sum(output_tokens) as output_tokens
from usage_hourly where hour >= date('now', '-' || :days || ' days')
group by usage_hourly.client order by cost_usd desc
