/*
title = "Rate-limited requests"
description = "Requests refused by the proxy's own rate limit or by a budget. They were not forwarded and are not calls."
place = 90
parameters.days = { label = "Days", type = "integer", minimum = 0, maximum = 36_500, default = 7 }
*/
select hour, slug, bucket, count as requests
from rejections_hourly where hour >= date('now', '-' || :days || ' days') order by hour desc, requests desc
