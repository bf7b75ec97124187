/*
title = "Refusals and what is not billed"
description = "Calls that the model declined, and calls with a pass that upstream does not bill, newest first, among the newest 50,000 calls. No reason: all of it is billed."
place = 72
parameters.days = { label = "Days", type = "integer", minimum = 0, maximum = 36_500, default = 7 }
*/
select u.id, u.created_at, u.slug, coalesce(u.model, u.request_model) as model, u.stop_reason, u.refusal_category,
  group_concat(distinct c.unbilled_reason) as not_billed_because,
  sum(case when c.unbilled_reason is not null and c.component <> 'web_search' then c.quantity end) as unbilled_tokens,
  u.cost_cents
from (
  select id, created_at, slug, model, request_model, stop_reason, refusal_category, cost_cents
  from usage order by id desc limit 50000
) as u left join usage_cost as c on c.usage_id = u.id
where u.created_at >= date('now', '-' || :days || ' days')
group by u.id having u.stop_reason = 'refusal' or count(c.unbilled_reason) > 0
order by u.id desc limit 1000
