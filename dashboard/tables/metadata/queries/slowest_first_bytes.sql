/*
title = "Slowest time to first byte"
description = "The 50 calls with the longest time to first byte."
place = 60
parameters.days = { label = "Days", type = "integer", minimum = 0, maximum = 36_500, default = 7 }
*/
select id, created_at, slug, model, cast(round(ttfb_ms) as integer) as ttfb_ms, cast(round(duration_ms) as integer) as duration_ms,
  input_tokens, cache_creation_input_tokens, cache_read_input_tokens, output_tokens, outcome
from usage where ttfb_ms is not null and created_at >= date('now', '-' || :days || ' days')
order by usage.ttfb_ms desc limit 50
