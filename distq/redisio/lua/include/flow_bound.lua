  -- in: bounded, ended, flow_items, limit, meta, n_held_back, now
  -- out: bounded
  -- If at most `limit` items of a flow may be claimed at a time, a claim holds back the further items of the flow that
  -- it finds: it moves them out of `ready`, so that they delay no other flow. When a claim of the flow ends, its first
  -- held-back item is let in.
  --- @include flow_entry
  if not bounded then
    bounded = string.format('%.0f ', now)
    call('HSET', meta, 'bounded', bounded)
  end
  -- ten times a second, look at flows even if none of their claims ended
  local looked_at, looks_from = string.match(bounded, '^(%d+) (.*)$')
  looked_at = tonumber(looked_at or 0)
  local looks = now < looked_at or now - looked_at >= 100000
  if #ended > 0 then
    local entries = { 'ZREM', flow_items }
    for i, item in ipairs(ended) do entries[i + 2] = entry_of('c', item) end
    call(unpack(entries))
  end
  if n_held_back > 0 or looks or not limit then
    --- @include let_in
  end
