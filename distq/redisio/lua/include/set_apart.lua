    -- in: failures, first_line, is_suspect, limit, n_failures, popped, ready, records, suspects, want
    -- out: n_suspects
    -- Claim from `ready`, and move the suspects that are found there to `suspects`. Only this moves items there, since
    -- a claim reads the failure records anyway. So each suspect is found once, and delays no other item again.
    local SET_APART_AT_LEAST = 100 -- and at most 199: one takes Redis as long as several claims
    local met, to_suspects = 0, { 'ZADD', suspects, 'LT' }
    local must_wait, hold_back
    if limit then
      --- @include hold_back
    end
    repeat
      local found, names = call('ZPOPMIN', ready, math.min(want - #records, SET_APART_AT_LEAST)), {}
      for i = 1, #found, 2 do names[#names + 1] = found[i] end
      local failure_of = n_failures > 0 and #names > 0 and call('HMGET', failures, unpack(names)) or {}
      for i, item in ipairs(names) do
        local failure, order = failure_of[i] or false, found[2 * i]
        if is_suspect(failure) then
          met = met + 1
          to_suspects[#to_suspects + 1], to_suspects[#to_suspects + 2] = order, item
        elseif must_wait and must_wait(item, order) then
          met = met + 1
        else
          records[#records + 1] = first_line(failure)
          popped[#popped + 1], popped[#popped + 2] = item, order
        end
      end
    until #found == 0 or #records == want or met >= SET_APART_AT_LEAST
    if #to_suspects > 3 then call(unpack(to_suspects)) end
    if hold_back then hold_back() end
    if #to_suspects > 3 then n_suspects = call('ZCARD', suspects) end
