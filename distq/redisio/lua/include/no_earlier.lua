-- in: arrivals, flows, ready
-- out: no_earlier
-- The place of an item that comes back into `ready` of a fair queue: its own, unless all that is ready of its priority
-- has passed that. What the flows had while it was away is no share that is owed to those that enter now. What went
-- away before the queue was fair has a place by its time, which says nothing among those by flow: it comes first.
local function no_earlier(item, order)
  local _, exponent = math.frexp(tonumber(order))
  local lowest, beyond = math.ldexp(0.5, exponent), math.ldexp(1, exponent)
  local first = call('ZRANGEBYSCORE', ready, lowest, beyond, 'WITHSCORES', 'LIMIT', '0', '1')[2]
  local went_by_time = call('HSETNX', arrivals, item, string.format('%.17g', order)) == 1
  if not first then
    call('ZREMRANGEBYSCORE', flows, lowest, beyond)
  elseif went_by_time or tonumber(order) < tonumber(first) then
    return first
  end
  return order
end
