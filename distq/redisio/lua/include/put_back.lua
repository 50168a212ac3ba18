-- in: arrivals, bounded, by_flow, delayed, dirty, flow_items, ready
-- out: entry_of, into_ready, put_back
-- Put an item back as if it had never been claimed: to its place, merged with an add in the meantime. This ends a
-- delay.
--- @include into_ready
--- @include no_earlier
--- @include flow_entry
local function put_back(item, score)
  local newer = call('ZSCORE', dirty, item)
  if newer then
    call('ZREM', dirty, item)
    local _, level = math.frexp(score)
    local _, newer_level = math.frexp(tonumber(newer))
    if by_flow and newer_level < level then
      call('ZREM', delayed, item)
      call('HDEL', arrivals, item)
      return into_ready(item, newer)
    end
    score = by_flow and score or math.min(tonumber(newer), score)
  end
  call('ZREM', delayed, item)
  if by_flow then score = no_earlier(item, score) end
  if bounded then call('ZADD', flow_items, '0', entry_of('l', item)) end
  call('ZADD', ready, 'LT', score, item)
end
