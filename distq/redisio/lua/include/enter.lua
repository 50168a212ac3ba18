  -- in: arrivals, entered, entering, fair_by, into_flows, meta, passed, ready, suspects
  -- out: by_flow, fair_by
  -- The queue becomes fair: give some of the items that wait by their time a place by their flow, in their order, and
  -- suspects last. The items that have entered are in `arrivals`, and before all others, except those that are pending
  -- since the same moment.
  --- @include no_earlier
  local ENTER_AT_ONCE = 100
  local key = entering == 'suspects' and suspects or ready
  local beyond = '(7.61352657140625e+286' -- orders end before 2^953
  local page = call('ZRANGEBYSCORE', key, entered, beyond, 'WITHSCORES', 'LIMIT', passed, ENTER_AT_ONCE)
  local names, enter, zadd, places = {}, {}, { 'ZADD', key, 'CH' }, {}
  for i = 1, #page, 2 do names[#names + 1] = page[i] end
  for i, arrival in ipairs(#names > 0 and call('HMGET', arrivals, unpack(names)) or names) do
    if not arrival then
      local order = key == suspects and no_earlier(names[i], page[2 * i]) or page[2 * i]
      enter[#enter + 1], places[i], zadd[#zadd + 1], zadd[#zadd + 2] = names[i], #zadd + 1, order, names[i]
    end
  end
  if #enter > 0 then
    if key == ready then into_flows(zadd, enter, {}) end
    call(unpack(zadd))
  end
  if #names == ENTER_AT_ONCE then
    -- the first items keep their order: `passed` counts the items at the order where the next step begins
    local last, stay = page[#page], 0
    for i = 1, #names do
      if page[2 * i] == last and (not places[i] or tonumber(zadd[places[i]]) == tonumber(last)) then stay = stay + 1 end
    end
    if tonumber(last) == tonumber(entered) then stay = stay + passed end
    call('HSET', meta, 'entered', string.format('%s %s %d', entering, last, stay))
  elseif key == ready and call('ZCARD', suspects) > 0 then
    call('HSET', meta, 'entered', 'suspects 5.327993384780537e-256 0')
  else
    by_flow, fair_by = into_flows, 'namespace'
    call('HSET', meta, 'fair_by', fair_by)
    call('HDEL', meta, 'entered')
  end
