  -- in: by_flow, delayed, dirty, first, now, processing, ready, want
  -- out: first, promoted
  -- Promote due items, in the order of their due times. An item is pending since it was due, not since its promotion.
  local edge = math.floor(now / 1000) * 2048 + 2047
  if first[2] and tonumber(first[2]) <= edge then
    --- @include order
    --- @include due
    local due = call('ZRANGEBYSCORE', delayed, '-inf', edge, 'WITHSCORES', 'LIMIT', 0, math.max(want, 100))
    local names = {}
    for i = 1, #due, 2 do names[#names + 1] = due[i] end
    local claimed = call('ZMSCORE', processing, unpack(names))
    local to_ready, to_dirty = { 'ZADD', ready, 'LT' }, { 'ZADD', dirty, 'LT' }
    local no_item = #names > 32 and not by_flow and string.rep('\0', 65) -- as in `claim`
    if no_item then to_ready[4], to_ready[5] = '0', no_item end
    for i, item in ipairs(names) do
      local since, priority = split_due(tonumber(due[2 * i]))
      local to = claimed[i] and to_dirty or to_ready
      to[#to + 1] = order(priority, since)
      to[#to + 1] = item
    end
    promoted, due_items = #names, names
    call('ZREM', delayed, unpack(names))
    if by_flow and #to_ready > 3 then by_flow(to_ready) end
    if #to_ready > 3 then call(unpack(to_ready)) end
    if no_item then call('ZREM', ready, no_item) end
    if #to_dirty > 3 then call(unpack(to_dirty)) end
    first = call('ZRANGE', delayed, '0', '0', 'WITHSCORES')
  end
