  -- in: arrivals, suspects
  -- out: into_flows
  -- Change the orders in a ZADD of items from time to flow. An item that is there and is not raised keeps its place,
  -- unless it is there by its time. A raised suspect gets the place where its priority begins: suspects wait for no
  -- share. The caller may give `items` if the ZADD has all of them. This reads `flows` and then writes `arrivals`,
  -- before any other write.
  -- A table that grows entry by entry is moved again and again: so the tables that Redis returned are overwritten.
  into_flows = function(zadd, items, are_there_by_time)
    local pending, first = zadd[2], zadd[3] == 'XX' and 5 or 4
    if not items then
      items = {}
      for n = 1, (#zadd - first + 1) / 2 do items[n] = zadd[first + 2 * n - 1] end
    end
    local place_at, apart = are_there_by_time or call('ZMSCORE', pending, unpack(items)), pending == suspects
    local match, by_time, n_by_time = string.match, { unpack(zadd) }, 2
    local levels, first_level, level_of, members, n_members = {}, nil, {}, {}, 0 -- usually there is one level
    local order, exponent, beyond, text, level, _
    for n = 1, #items do
      local at, item, present = first + 2 * n - 2, items[n], place_at[n]
      if zadd[at] ~= order then
        order = zadd[at]
        _, exponent = math.frexp(tonumber(order))
        beyond, text = math.ldexp(1, exponent), type(order) == 'string' and order or string.format('%.17g', order)
        level = levels[exponent]
      end
      if present and tonumber(present) < beyond then
        zadd[at], place_at[n] = present, false
      else
        by_time[n_by_time + 1], by_time[n_by_time + 2] = item, text
        n_by_time = n_by_time + 2
        if not level then
          --- @include level
          levels[exponent], first_level = level, first_level or level
        end
        if apart then
          if not level.is_empty then zadd[at] = level.begins end
        else
          local flow = match(item, '^([^/]*)/') or ''
          local place = level.places[flow]
          if not place then
            n_members = n_members + 1
            place = n_members
            level.places[flow], members[place] = place, level.name .. flow
            if level ~= first_level then level_of[place] = level end
          end
          place_at[n] = place
        end
      end
    end
    if n_by_time == 2 then return end
    by_time[1], by_time[2] = 'HSET', arrivals
    if apart then return call(unpack(by_time, 1, n_by_time)) end
    --- @include line_up
  end
