-- in: by_flow, dirty, failures, processing, ready, suspects
-- out: look_again
--- @include suspect
--- @include no_earlier
-- Move items that are no longer suspects, by their records, from `suspects` to `ready`. An older distq, which knows
-- only `ready`, may hold an item that is in `suspects`: then the item becomes dirty. Returns how many items moved.
local function look_again(items)
  if call('ZCARD', suspects) == 0 then return 0 end
  local orders, held = call('ZMSCORE', suspects, unpack(items)), call('ZMSCORE', processing, unpack(items))
  local to_ready, to_dirty, leave = { 'ZADD', ready, 'LT' }, { 'ZADD', dirty, 'LT' }, { 'ZREM', suspects }
  for i, failure in ipairs(call('HMGET', failures, unpack(items))) do
    if orders[i] and (held[i] or not is_suspect(failure)) then
      local to = held[i] and to_dirty or to_ready
      to[#to + 1], to[#to + 2], leave[#leave + 1] = orders[i], items[i], items[i]
    end
  end
  if #leave > 2 then call(unpack(leave)) end
  if by_flow then
    for i = 4, #to_ready, 2 do to_ready[i] = no_earlier(to_ready[i + 1], to_ready[i]) end
  end
  if #to_ready > 3 then call(unpack(to_ready)) end
  if #to_dirty > 3 then call(unpack(to_dirty)) end
  return #leave - 2
end
