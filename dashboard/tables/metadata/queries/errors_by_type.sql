/*
title = "Errors by type"
description = "Calls that did not complete, by outcome, status, error type and model. Where the response named no model, it is the requested one."
place = 70
parameters.days = { label = "Days", type = "integer", minimum = 0, maximum = 36_500, default = 7 }
*/
select outcome, status_code, error_type, coalesce(model, request_model) as model, count(*) as calls,
  max(created_at) as last_at, max(id) as last_id
from usage where outcome <> 'complete' and created_at >= date('now', '-' || :days || ' days')
group by outcome, status_code, error_type, coalesce(model, request_model) order by calls desc
