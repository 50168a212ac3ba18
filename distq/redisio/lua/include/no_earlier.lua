-- in: arrivals, flows, ready
-- out: no_earlier
-- Return the place of an item that comes back into `ready` of a fair queue: its own, or that of the first ready item of
-- its priority if its own is earlier. Otherwise items that enter now would get a share of the turns that other flows
-- had while it was away. If an item was claimed before the queue was fair, it has a place by time, which cannot be
-- compared with places by flow: it comes first.
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
