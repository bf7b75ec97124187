/*
title = "429 and 529 over time"
description = "Calls that the upstream refused because a rate limit was reached (429) or because it was overloaded (529), by hour."
place = 86
parameters.days = { label = "Days", type = "integer", minimum = 0, maximum = 36_500, default = 7 }
*/
select hour, sum(calls) as calls, sum(rate_limited) as rate_limited_429, sum(overloaded) as overloaded_529,
  round(100.0 * sum(rate_limited + overloaded) / sum(calls), 1) as refused_percent
from rate_limits_hourly
where hour >= date('now', '-' || :days || ' days')
group by hour having sum(rate_limited + overloaded) > 0 order by hour desc
