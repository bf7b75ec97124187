/*
title = "Models without a price"
description = "Models whose calls have usage but no known price. The command taximeter reprice fills in the costs once a price is known."
place = 100
*/
select coalesce(nullif(model, ''), '(none named)') as model, sum(unpriced) as calls_without_price, sum(entries) as calls,
  min(hour) as first_hour, max(hour) as last_hour
from usage_hourly where unpriced > 0 group by usage_hourly.model order by calls_without_price desc
