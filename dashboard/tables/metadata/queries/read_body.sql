/*
title = "Body of a call"
description = "The request or response body of one call in pieces of 2,000 characters, so that no cell is cut off. Without an id it is the newest call. A body that is not text is shown in hexadecimal."
place = 120
parameters.id = { label = "Call id", type = "integer", minimum = 1, maximum = 1_000_000_000_000_000 }
parameters.which = { label = "Body", type = "choice", choices = ["request", "response"], default = "request" }
parameters.from_piece = { label = "From piece", type = "integer", minimum = 1, maximum = 1_000_000_000, default = 1 }
*/
with recursive chosen(id) as (
  select coalesce(cast(nullif(:id, '') as integer), (select max(id) from usage))
), body(text) as materialized (
  select case when typeof(content) = 'blob' then hex(substr(content, 1, 16000000)) else content end
  from (
    select case when :which = 'response' then response_body else request_body end as content
    from usage_log where id = (select id from chosen)
  )
), block_numbers(number) as (
  select 0 union all
  select number + 1 from block_numbers where (number + 1) * 200000 < (select length(text) from body)
), blocks(number, text) as materialized (
  select number, substr((select text from body), number * 200000 + 1, 200000) from block_numbers
  where (number + 1) * 100 > :from_piece - 1
), piece_numbers(number) as (
  select 0 union all select number + 1 from piece_numbers where number < 99
)
select b.number * 100 + p.number + 1 as piece, substr(b.text, p.number * 2000 + 1, 2000) as text
from blocks as b cross join piece_numbers as p
where p.number * 2000 < length(b.text)
  and b.number * 100 + p.number + 1 >= :from_piece
order by piece
