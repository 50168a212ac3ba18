-- in: arrivals, fair_by, flows, ready, suspects
-- out: by_flow, entered, entering, into_flows, passed
-- Where the queue is fair, each flow has its turn (start-time fair queueing); a flow is the text of a key before its
-- first slash. An item enters `ready` not by its time but by its flow: at the order of the first ready item of its
-- priority, or at the end of its flow if that is later; the flow then ends a µs later. So a claim goes by the order
-- as ever. The order by time is in `arrivals`, as long as the item is ready or claimed.
-- `to namespace` is a queue that becomes fair while items wait; see `include/enter`.
local by_flow, into_flows, entering, entered, passed
if fair_by == 'namespace' or fair_by == 'to namespace' then
  call('ZCARD', flows)
  call('HLEN', arrivals)
  local format, frexp, ldexp, match = string.format, math.frexp, math.ldexp, string.match
  local function exponent_of(order)
    local _, exponent = frexp(tonumber(order))
    return exponent
  end
  -- What is known of a priority: where it begins, and where its flows end. Where nothing of it is ready, it begins
  -- with the item that enters, and no flow has an end.
  local function level_of(exponent, order)
    local lowest, beyond = ldexp(0.5, exponent), ldexp(1, exponent)
    local first = call('ZRANGEBYSCORE', ready, lowest, beyond, 'WITHSCORES', 'LIMIT', '0', '1')[2]
    return {
      is_empty = not first,
      begins = tonumber(first) or order,
      lowest = lowest,
      beyond = beyond,
      unit = ldexp(1, exponent - 53),
      name = (53 - exponent) .. ' ',
      ends = {},
      flows = {},
      members = {},
    }
  end
  local function meet(level, flow)
    local n = #level.flows + 1
    level.ends[flow], level.flows[n], level.members[n] = level.begins, flow, level.name .. flow
  end
  local function read_ends(level)
    if level.is_empty then return end
    for i, found in ipairs(call('ZMSCORE', flows, unpack(level.members))) do
      found = tonumber(found or 0)
      if found > level.begins and found < level.beyond then level.ends[level.flows[i]] = found end
    end
  end
  local function keep_ends(level)
    local ends = { 'ZADD', flows }
    for i, flow in ipairs(level.flows) do
      ends[2 * i + 1], ends[2 * i + 2] = level.ends[flow], level.members[i]
    end
    if level.is_empty then call('ZREMRANGEBYSCORE', flows, level.lowest, level.beyond) end
    call(unpack(ends))
  end
  -- Give each item its order at the end of its flow. To write a number costs as much as all else that is done for an
  -- item: what several have is written once.
  local function line_up(zadd, first, level_at, flow_at, n_items)
    local texts, level, ends, unit = {}, nil, nil, nil
    for n = 1, n_items do
      local flow = flow_at[n]
      if flow then
        if level_at[n] ~= level then
          level = level_at[n]
          ends, unit = level.ends, level.unit
        end
        local start = ends[flow]
        ends[flow] = start + unit
        local text = texts[start]
        if not text then
          text = format(unit == 1 and '%d' or '%.17g', start)
          texts[start] = text
        end
        zadd[first + 2 * n - 2] = text
      end
    end
  end
  -- Change the orders of a ZADD of items by time to those by flow. Who is there and is not raised stays, unless it is
  -- there by its time. A suspect is raised to where its priority begins: it waits for no share. `items` may be given,
  -- where the ZADD is of all of them.
  local function tag(zadd, items, are_there_by_time)
    local pending, first = zadd[2], zadd[3] == 'XX' and 5 or 4
    if not items then
      items = {}
      for n = 1, (#zadd - first + 1) / 2 do items[n] = zadd[first + 2 * n - 1] end
    end
    local stands, apart = are_there_by_time or call('ZMSCORE', pending, unpack(items)), pending == suspects
    local levels, level_at, flow_at, by_time, n_by_time = {}, {}, {}, { 'HSET', arrivals }, 2
    local order, exponent, beyond, text, level, ends
    for n = 1, #items do
      local at, item = first + 2 * n - 2, items[n]
      if zadd[at] ~= order then
        order = zadd[at]
        exponent, text, level = exponent_of(order), format('%.17g', order), nil
        beyond = ldexp(1, exponent)
      end
      if stands[n] and tonumber(stands[n]) < beyond then
        zadd[at], flow_at[n] = stands[n], false
      else
        by_time[n_by_time + 1], by_time[n_by_time + 2] = item, text
        n_by_time = n_by_time + 2
        if not level then
          level = levels[exponent] or level_of(exponent, tonumber(order))
          levels[exponent], ends = level, level.ends
        end
        if apart then
          if not level.is_empty then zadd[at] = level.begins end
        else
          local flow = match(item, '^([^/]*)/') or ''
          if not ends[flow] then meet(level, flow) end
          level_at[n], flow_at[n] = level, flow
        end
      end
    end
    if n_by_time == 2 then return end
    if apart then return call(unpack(by_time)) end
    for _, each in pairs(levels) do read_ends(each) end
    line_up(zadd, first, level_at, flow_at, #items)
    call(unpack(by_time)) -- the first write: one that full memory refuses
    for _, each in pairs(levels) do keep_ends(each) end
  end
  by_flow, into_flows = tag, tag
  if fair_by == 'to namespace' then
    --- @include not_yet
  end
end
