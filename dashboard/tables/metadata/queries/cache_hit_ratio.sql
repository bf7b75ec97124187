/*
title = "Cache hit ratio by day and model"
description = "Share of prompt tokens read from the prompt cache, for each model on each day (UTC)."
place = 40
parameters.days = { label = "Days", type = "integer", minimum = 0, maximum = 36_500, default = 30 }
*/
select substr(hour, 1, 10) as day, coalesce(nullif(model, ''), '(none named)') as model,
  round(1.0 * sum(cache_read_input_tokens) / nullif(sum(:prompt_tokens), 0), 3) as hit_ratio,
  sum(cache_read_input_tokens) as read_tokens, sum(cache_creation_input_tokens) as written_tokens,
  sum(input_tokens) as uncached_tokens
from usage_hourly where hour >= date('now', '-' || :days || ' days')
group by day, usage_hourly.model order by day desc, model
