/*
title = "Rate-limit headroom"
description = "Lowest percentage of each of the upstream's limits that remained, by hour and credential. Empty: no response stated it."
place = 84
parameters.days = { label = "Days", type = "integer", minimum = 0, maximum = 36_500, default = 7 }
*/
select hour, credential_hmac, calls,
  round(100 * requests_share, 1) as requests_percent,
  round(100 * tokens_share, 1) as tokens_percent,
  round(100 * input_tokens_share, 1) as input_tokens_percent,
  round(100 * output_tokens_share, 1) as output_tokens_percent,
  round(100 * unified_5h_share, 1) as subscription_5h_percent,
  round(100 * unified_7d_share, 1) as subscription_7d_percent
from rate_limits_hourly
where hour >= date('now', '-' || :days || ' days')
  and coalesce(requests_share, tokens_share, input_tokens_share, output_tokens_share, unified_5h_share, unified_7d_share) is not null
order by hour desc, calls desc
