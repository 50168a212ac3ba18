  -- in: clock, delayed, lapsed, max_clock_step, now, processing, sessions
  -- out: first
  -- Repair values that no script writes, and that would keep items for ever: times beyond all delays and claim
  -- durations, of which ten years is the longest; sessions that are no numbers; holders that are no sessions. Of the
  -- holders each tick checks the first, the last and a random one.
  local TWENTY_YEARS = 2 * 315576000 * 1000000
  local never = call('ZRANGEBYSCORE', delayed, (now + TWENTY_YEARS) / 1000 * 2048, '+inf', 'LIMIT', '0', '100')
  for _, item in ipairs(never) do
    call('ZADD', delayed, math.floor(now / 1000) * 2048 + 1023, item)
  end
  if #never > 0 then first = call('ZRANGE', delayed, '0', '0', 'WITHSCORES') end
  for _, session_number in ipairs(call('ZRANGEBYSCORE', sessions, clock + TWENTY_YEARS, '+inf', 'LIMIT', '0', '100')) do
    call('ZADD', sessions, clock + 3 * max_clock_step, session_number)
  end
  for i = #lapsed, 1, -1 do
    if not string.find(lapsed[i], '^%d+$') then call('ZREM', sessions, table.remove(lapsed, i)) end
  end
  local n_held = call('ZCARD', processing)
  for _, place in ipairs(n_held > 0 and { 0, n_held - 1, now % n_held } or {}) do
    local holder = call('ZRANGE', processing, place, place, 'WITHSCORES')[2]
    if not call('ZSCORE', sessions, holder) then lapsed[#lapsed + 1] = holder end
  end
