    -- in: by_time, first, first_level, flows, items, level_of, levels, members, n_by_time, n_members, place_at, zadd
    -- out: nothing
    -- Give each item its order at the end of its flow. Numbers stay the texts that Redis returned: to parse and format
    -- one costs as much as all other work for an item. Many flows end at the same order.
    local ends, after = call('ZMSCORE', flows, unpack(members)), {}
    for place = 1, n_members do
      local found, of = ends[place], level_of[place] or first_level
      local start = found and of.starts[found]
      if found and not start then
        local is_later = tonumber(found) > tonumber(of.begins) and tonumber(found) < of.beyond
        start = is_later and not of.is_empty and found or of.begins
        of.starts[found] = start
      end
      ends[place] = start or of.begins
    end
    for n = 1, #items do
      local place = place_at[n]
      if place then
        local start, at = ends[place], first + 2 * n - 2
        local ended = after[start]
        if not ended then
          local of = level_of[place] or first_level
          ended = string.format(of.unit == 1 and '%d' or '%.17g', start + of.unit)
          after[start] = ended
        end
        zadd[at], ends[place] = start, ended
      end
    end
    call(unpack(by_time, 1, n_by_time)) -- the first write: Redis refuses it if memory is full
    for _, each in pairs(levels) do
      if each.is_empty then call('ZREMRANGEBYSCORE', flows, each.lowest, each.beyond) end
    end
    local keep = by_time -- a table that is long enough already
    keep[1], keep[2] = 'ZADD', flows
    for place = 1, n_members do
      keep[2 * place + 1], keep[2 * place + 2] = ends[place], members[place]
    end
    call(unpack(keep, 1, 2 * n_members + 2))
