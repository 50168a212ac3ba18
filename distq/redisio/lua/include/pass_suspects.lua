    -- in: failures, meta, now, number, popped, processing, ready, records, unclaimable, want
    -- out: alone, popped, records, unclaimable
    -- A suspect is claimed alone, so that poison kills no siblings. One session at a time empties itself for that: it
    -- claims nothing until it holds nothing, then the suspects one by one. The others pass them and claim what stands
    -- behind; one of them that holds nothing, and finds nothing else, claims a suspect, too.
    --- @include suspect
    local PASSED_AT_MOST = 1000
    local EMPTYING_AT_MOST = 600000000 -- a handler that hangs must not keep the suspects waiting for ever
    local emptying, since = string.match(call('HGET', meta, 'emptying') or '', '^(%d+) (%d+)$')
    local took = now - tonumber(since or 0)
    local in_time = took >= 0 and took < EMPTYING_AT_MOST
    local ours = emptying == number and in_time
    -- Look before anything leaves `ready`: as many as are wanted, then behind the suspects among them, and behind
    -- those among these.
    local looked, look_at_most, n_suspects = 0, want + PASSED_AT_MOST, 0
    local step = ours and look_at_most or want
    local names, suspect, is_first = {}, nil, false
    records = {}
    repeat
      local found = call('ZRANGE', ready, looked, looked + step - 1, 'WITHSCORES')
      local found_names = {}
      for i = 1, #found, 2 do found_names[#found_names + 1] = found[i] end
      local found_records = #found > 0 and call('HMGET', failures, unpack(found_names)) or found
      for i, item in ipairs(found_names) do
        local score, failure = found[2 * i], found_records[i]
        if is_suspect(failure) then
          n_suspects = n_suspects + 1
          if n_suspects == 1 then suspect, is_first = { item, score, failure }, looked + i == 1 end
        elseif #names < want then
          names[#names + 1], records[#records + 1] = item, first_line(failure)
          popped[#popped + 1], popped[#popped + 2] = item, score
        end
      end
      looked = looked + #found_names
      step = math.min(n_suspects, look_at_most - looked)
    until #found == 0 or #names == want or step == 0
    local too_many = #names < want and looked == look_at_most
    if n_suspects == 0 then
      if ours then call('HDEL', meta, 'emptying') end
    elseif ours or is_first then
      unclaimable = n_suspects
      local holds = call('ZCOUNT', processing, number, number) > 0
      local may_empty
      if emptying == number then
        -- who was not empty in time leaves the suspects to others for as long
        may_empty = took < EMPTYING_AT_MOST or took >= 2 * EMPTYING_AT_MOST
      else
        may_empty = not in_time or call('ZCOUNT', processing, emptying, emptying) == 0
      end
      if may_empty and not (ours and holds) then
        call('HSET', meta, 'emptying', number .. string.format(' %.0f', now))
      end
      if may_empty or (not holds and #names == 0) then
        alone, names, popped, records = 1, {}, {}, {}
        if not holds then
          names, popped, records = { suspect[1] }, { suspect[1], suspect[2] }, { first_line(suspect[3]) }
          unclaimable = unclaimable - 1
        end
      end
    end
    if #names > 0 then call('ZREM', ready, unpack(names)) end
    if too_many then unclaimable = call('ZCARD', ready) end
