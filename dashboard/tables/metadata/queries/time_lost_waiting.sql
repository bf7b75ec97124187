/*
title = "Time lost waiting"
description = "Seconds that the upstream asked clients to wait before they tried again (retry-after of failed calls), and the retries that SDKs sent, by day and credential."
place = 88
parameters.days = { label = "Days", type = "integer", minimum = 0, maximum = 36_500, default = 7 }
*/
select substr(hour, 1, 10) as day, credential_hmac, sum(calls) as calls,
  sum(rate_limited + overloaded) as refused, sum(retries) as retries, round(sum(retry_after_s), 1) as asked_to_wait_s
from rate_limits_hourly
where hour >= date('now', '-' || :days || ' days')
group by day, credential_hmac having sum(retries) > 0 or sum(retry_after_s) > 0 order by day desc, asked_to_wait_s desc
