/*
title = "Retries"
description = "Calls that SDKs sent as retries, by outcome, status and error type."
place = 80
parameters.days = { label = "Days", type = "integer", minimum = 0, maximum = 36_500, default = 7 }
*/
select retry_count, coalesce(model, request_model) as model, outcome, status_code, error_type, count(*) as calls, max(created_at) as last_at
from usage where retry_count > 0 and created_at >= date('now', '-' || :days || ' days')
group by retry_count, coalesce(model, request_model), outcome, status_code, error_type order by calls desc
