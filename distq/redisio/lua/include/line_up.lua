    -- in: by_time, first, first_level, flows, items, level_of, levels, members, n_by_time, n_members, place_at, zadd
    -- out: nothing
    -- Give each item its order at the end of its flow. Numbers stay the texts that Redis gave: to read and to write one
    -- costs as much as all else that is done for an item. Orders of priority 0 have 16 digits, and compare as texts.
    local ends, after = call('ZMSCORE', flows, unpack(members)), {}
    for place = 1, n_members do
      local found, of = ends[place], level_of[place] or first_level
      local begins, is_later = of.begins, false
      if not found or of.is_empty then
        is_later = false
      elseif of.is_zero and #found == 16 then
        is_later = found > begins and found < '9007199254740992'
      else
        is_later = tonumber(found) > tonumber(begins) and tonumber(found) < of.beyond
      end
      if not is_later then ends[place] = begins end
    end
    for n = 1, #items do
      local place = place_at[n]
      if place then
        local start, at = ends[place], first + 2 * n - 2
        local ended = after[start]
        if not ended then
          local of = level_of[place] or first_level
          ended = string.format(of.is_zero and '%d' or '%.17g', start + of.unit)
          after[start] = ended
        end
        zadd[at], ends[place] = start, ended
      end
    end
    call(unpack(by_time, 1, n_by_time)) -- the first write: one that full memory refuses
    for _, each in pairs(levels) do
      if each.is_empty then call('ZREMRANGEBYSCORE', flows, each.lowest, each.beyond) end
    end
    local keep = by_time -- as long as is needed
    keep[1], keep[2] = 'ZADD', flows
    for place = 1, n_members do
      keep[2 * place + 1], keep[2 * place + 2] = ends[place], members[place]
    end
    call(unpack(keep, 1, 2 * n_members + 2))
