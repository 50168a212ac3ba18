-- in: bounded, by_flow, cover, dead, delayed, dirty, held_back, now, order, paused, ready, scores, split_due, stamp,
--     suspects, tokens, wake
-- out: enqueue_later, stamp
-- Make items pending after a delay in µs. The earliest due time counts; an item that is pending now can only be raised.
-- A dead item is revived. With `keep_pending`, delayed and dead items do not change.
-- Returns how many items were not pending before.
--- @include delay
--- @include is_higher
local function enqueue_later(items, delay, priority, keep_pending)
  stamp = math.max(stamp + 1, now)
  local later = scores(delayed, items)
  if keep_pending then
    local parked, others = scores(dead, items), {}
    for _, item in ipairs(items) do
      if not (later[item] or parked[item]) then others[#others + 1] = item end
    end
    if #others == 0 then return 0 end
    items, later = others, {}
  end
  local first = call('ZRANGEBYSCORE', delayed, '-inf', '+inf', 'WITHSCORES', 'LIMIT', '0', '1')
  local is_ready, is_dirty, is_suspect = scores(ready, items), scores(dirty, items), scores(suspects, items)
  local is_held_back = bounded and scores(held_back, items) or {}
  local earliest, raised = now + delay, order(priority, stamp)
  local to_ready, to_dirty, to_delayed = { 'ZADD', ready, 'LT' }, { 'ZADD', dirty, 'XX', 'LT' }, { 'ZADD', delayed }
  local to_suspects, from_held_back = { 'ZADD', suspects, 'XX', 'LT' }, { 'ZREM', held_back }
  for _, item in ipairs(items) do
    local to = (is_ready[item] and to_ready) or (is_dirty[item] and to_dirty)
    to = to or (is_suspect[item] and to_suspects) or to_delayed
    if not is_held_back[item] then
      to[#to + 1] = to == to_delayed and due_score(later[item], earliest, priority) or raised
      to[#to + 1] = item
    elseif is_higher(raised, is_held_back[item]) then
      to_ready[#to_ready + 1], to_ready[#to_ready + 2], from_held_back[#from_held_back + 1] = raised, item, item
    end
  end
  if by_flow then
    if #to_ready > 3 then by_flow(to_ready) end
    if #to_suspects > 4 then by_flow(to_suspects) end
  end
  if #to_ready > 3 then call(unpack(to_ready)) end
  if #from_held_back > 2 then call(unpack(from_held_back)) end
  if #to_dirty > 4 then call(unpack(to_dirty)) end
  if #to_suspects > 4 then call(unpack(to_suspects)) end
  local added = #to_delayed > 2 and call(unpack(to_delayed)) or 0
  -- not by a count of before: the same commit may have made some of them dead
  if call('ZCARD', dead) > 0 then call('ZREM', dead, unpack(items)) end
  -- the session that covers the first due time covers a later one, too
  local first_due, covered_until = first[2] and split_due(tonumber(first[2])) or 0, tonumber(cover) or 0
  local covered = (first_due > now and first_due <= earliest) or (covered_until > now and covered_until <= earliest)
  if tokens == 0 and not paused and (#from_held_back > 2 or not covered) then call('RPUSH', wake, '1') end
  return added
end
