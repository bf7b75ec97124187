/*
title = "Cost breakdown of a call"
description = "The line items of one call: the one with this entry id, otherwise the newest call that costs anything."
place = 110
parameters.entry_id = { label = "Entry id", type = "text" }
*/
select u.entry_id, c.* from usage_cost as c join usage as u on u.id = c.usage_id
where c.usage_id = case when :entry_id = ''
  then (select max(id) from usage where cost_cents > 0)
  else (select id from usage where entry_id = :entry_id) end
order by c.line
