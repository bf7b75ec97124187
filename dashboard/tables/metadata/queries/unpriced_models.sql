/*
title = "Models without a price"
description = "Models that ran without a known price: their tokens, and the calls whose cost is unknown. The command taximeter reprice fills in the costs once a price is known. Calls without such tokens have responses that leave out a count, so their cost stays unknown."
place = 100
*/
with found as (
  select model, sum(unpriced_tokens) as tokens_without_price, sum(unpriced) as calls_without_price,
    min(day) as first_day, max(day) as last_day
  from usage_days where unpriced > 0 or unpriced_tokens > 0 group by model
)
select coalesce(nullif(model, ''), '(none named)') as model, tokens_without_price, calls_without_price,
  (select min(hour) from usage_hourly where hour between first_day and first_day || '~'
    and usage_hourly.model = found.model and (unpriced > 0 or unpriced_tokens > 0)) as first_hour,
  (select max(hour) from usage_hourly where hour between last_day and last_day || '~'
    and usage_hourly.model = found.model and (unpriced > 0 or unpriced_tokens > 0)) as last_hour
from found order by tokens_without_price desc, calls_without_price desc
