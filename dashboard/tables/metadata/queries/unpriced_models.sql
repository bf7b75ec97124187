/*
title = "Models without a price"
description = "Models that ran without a known price: their tokens, and the calls whose cost is unknown. The command taximeter reprice fills in the costs once a price is known. Calls without such tokens have responses that leave out a count, so their cost stays unknown."
place = 100
*/
select coalesce(nullif(model, ''), '(none named)') as model, sum(unpriced_tokens) as tokens_without_price,
  sum(unpriced) as calls_without_price, min(hour) as first_hour, max(hour) as last_hour
from usage_hourly where unpriced > 0 or unpriced_tokens > 0
group by usage_hourly.model order by tokens_without_price desc, calls_without_price desc
