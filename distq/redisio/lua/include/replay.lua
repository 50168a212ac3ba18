  -- in: by_flow, claims, failures, number, others, processing, record, settlements
  -- out: nothing
  -- The reply of this turn was lost: change nothing, and find the claims of the turn by their fence.
  --- @include due
  --- @include suspect
  local fence, alone, refusals = string.match(record, '^%S+ %S+ (%S+) (%d) (.*)$')
  if not fence then return 'LOST' end
  local prefix = number .. ' ' .. fence .. ' '
  local popped, records, dispositions = {}, {}, false
  for _, item in ipairs(call('ZRANGEBYSCORE', processing, number, number)) do
    local claim = call('HGET', claims, item)
    if claim and string.sub(claim, 1, #prefix) == prefix then
      popped[#popped + 1] = item
      popped[#popped + 1] = string.sub(claim, #prefix + 1)
      records[#records + 1] = first_line(call('HGET', failures, item))
    end
  end
  if #settlements > others then
    --- @include dispositions
  end
  if by_flow then
    --- @include by_time
  end
  --- @include linked
  return { fence, 0, tonumber(alone), refusals, dispositions, popped, records, 0, 0, linked }
