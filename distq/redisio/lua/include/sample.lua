-- in: by_flow, dead, delayed, dirty, failures, held_back, history, meta, now, processing, ready, suspects, workers
-- out: sample
-- Write the queue's numbers as a line of `history`, once in 10 s, kept for a day, and once in five minutes, kept for a
-- week more. Lines are in chunks, and chunks in rings: a chunk replaces the one that is one ring older, so nothing must
-- be trimmed, and a step of the clock leaves nothing behind.
local function sample()
  local at = math.floor(now / 1000000)
  local last = tonumber(call('HGET', history, 'last'))
  if last and math.floor(last / 10) == math.floor(at / 10) then return end
  --- @include due
  local function since_of(order)
    local mantissa = math.frexp(tonumber(order))
    return mantissa * 2 ^ 53 - 2 ^ 52
  end
  -- The first item of a level has waited longest; in a fair queue it is one of the first hundred.
  local function first_since(key, order, beyond)
    if not by_flow then return since_of(order) end
    local popped, since = call('ZRANGEBYSCORE', key, order, '(' .. beyond, 'WITHSCORES', 'LIMIT', '0', '100'), now
    --- @include by_time
    for i = 2, #popped, 2 do since = math.min(since, since_of(popped[i])) end
    return since
  end
  local function waits_since()
    local edge = math.floor(now / 1000) * 2048 + 2047
    local due = call('ZRANGEBYSCORE', delayed, '-inf', edge, 'WITHSCORES', 'LIMIT', '0', '1')
    local since = due[2] and split_due(tonumber(due[2]))
    -- orders begin at 2^-848 and end before 2^953; look at each level, then at the next lower one, at ten at most
    for _, key in ipairs({ ready, suspects, held_back }) do
      local from = '5.327993384780537e-256'
      for _ = 1, 10 do
        local head = call('ZRANGEBYSCORE', key, from, '(7.61352657140625e+286', 'WITHSCORES', 'LIMIT', '0', '1')
        if not head[2] then break end
        local _, exponent = math.frexp(tonumber(head[2]))
        from = string.format('%.17g', math.ldexp(1, exponent))
        since = math.min(since or now, first_since(key, head[2], from))
      end
    end
    return since
  end
  local line
  local function keep(ring, period, lines, chunks)
    local chunk = math.floor(at / (period * lines))
    local field, begins = string.format('%s %d', ring, chunk % chunks), string.format('%d\n', chunk)
    local kept = call('HGET', history, field) or ''
    if string.sub(kept, 1, #begins) ~= begins then kept = begins end
    local before = tonumber(string.match(string.sub(kept, -1200), '\n(%d+) [^\n]*\n$'))
    if before and math.floor(before / period) >= math.floor(at / period) then return end
    local durations = call('HGET', history, ring .. ' durations') or ''
    durations = #durations < 900 and string.match(durations, '^[%l%d-]+ [%l%d-]+$') or '- -'
    call('HSET', history, field, kept .. line .. ' ' .. durations .. '\n')
    call('HDEL', history, ring .. ' durations')
  end
  local since = waits_since()
  line = table.concat({
    string.format('%d', at),
    call('ZCARD', ready) + call('ZCARD', suspects) + call('ZCARD', held_back),
    call('ZCARD', delayed),
    call('ZCARD', processing),
    call('ZCARD', dirty),
    call('ZCARD', dead),
    call('HLEN', failures),
    call('HLEN', workers),
    since and math.max(0, math.floor((now - since) / 1000)) or '-',
    call('HEXISTS', meta, 'paused'),
    string.match(call('HGET', history, 'totals') or '', '^%d+ %d+$') or '0 0',
  }, ' ')
  call('HSET', history, 'last', at)
  keep('10s', 10, 30, 289)
  keep('5m', 300, 12, 193)
end
