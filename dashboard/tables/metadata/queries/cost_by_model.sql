/*
title = "Cost by model"
description = "Calls, cost in US dollars and tokens of each model. Tokens and cost belong to the model that ran each pass of a call. The cost is spend and the value of calls that a subscription covers. A call whose response named no model is under the one that it asked for, marked “(requested)”."
place = 8
parameters.days = { label = "Days", type = "integer", minimum = 0, maximum = 36_500, default = 7 }
*/
with asked as (
  select request_model || ' (requested)' as name, count(*) as calls,
    sum(usage_source = 'none' and outcome not in ('upstream_error', 'upstream_unreachable') and coalesce(status_code, 0) < 300) as maybe_billed
  from usage where model is null and request_model is not null and created_at >= date('now', '-' || :days || ' days')
  group by 1
), booked as (
  select nullif(model, '') as name, entries as calls, maybe_billed, unpriced, unpriced_tokens, cost_cents, estimated_cents, billing,
    :prompt_tokens as prompt_tokens, output_tokens
  from usage_hourly where hour >= date('now', '-' || :days || ' days')
  union all select name, calls, maybe_billed, 0, 0, 0.0, 0.0, '', 0, 0 from asked
  union all select null, -calls, -maybe_billed, 0, 0, 0.0, 0.0, '', 0, 0 from asked
)
select coalesce(name, '(none named)') as model, sum(calls) as calls,
  round(nullif(sum(cost_cents), case when sum(unpriced) + sum(unpriced_tokens) > 0 then 0 end) / 100, 4) as cost_usd,
  round(total(case when billing not in ('subscription', 'customer') then cost_cents end) / 100, 4) as spend_usd,
  round(total(case when billing = 'subscription' then cost_cents end) / 100, 4) as subscription_value_usd,
  round(total(case when billing = 'customer' then cost_cents end) / 100, 4) as customer_value_usd,
  round(sum(estimated_cents) / 100.0, 4) as estimated_usd, sum(unpriced) as calls_without_price, sum(maybe_billed) as calls_maybe_billed,
  sum(prompt_tokens) as prompt_tokens, sum(output_tokens) as output_tokens
from booked group by name
having name is not null or sum(calls) > 0 or sum(prompt_tokens) > 0 or sum(output_tokens) > 0
order by cost_usd desc
