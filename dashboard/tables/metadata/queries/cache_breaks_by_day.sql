/*
title = "Cache breaks by day"
description = "Calls that read less from the prompt cache than the call before had left there, by day and cause: the tokens that were written again or sent uncached, and what that cost more than reading them, in US dollars. The table cache_breaks has the calls."
place = 35
parameters.days = { label = "Days", type = "integer", minimum = 0, maximum = 36_500, default = 7 }
*/
select date(u.created_at) as day, b.cause, count(*) as calls, sum(b.tokens) as tokens,
  round(sum(b.extra_cost_cents) / 100, 4) as extra_cost_usd,
  sum(b.extra_cost_cents is null) as calls_without_price,
  sum(b.estimated) as estimated_calls
from cache_breaks as b join usage as u on u.id = b.usage_id
where u.created_at >= date('now', '-' || :days || ' days')
group by 1, 2 order by day desc, extra_cost_usd desc limit 1000
